from .model_file import save as save
from .model_file import load as load
from .read_write import read as read
from .read_write import write as write
from .tables import read_table as read_table
