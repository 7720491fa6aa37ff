from .datasets import load_dataset as load_dataset
from .datasets import dataset_names as dataset_names
from .datasets import Dataset as Dataset
from .bits import BitMatrix as BitMatrix
from .bits import pack_columns as pack_columns
