from .encoder import TableEncoder as TableEncoder
from .table_code import TableCode as TableCode
from .coded_column import CodedColumn as CodedColumn
from .column import Column as Column
from .column_codes import ColumnCode as ColumnCode
from .missingness import MissingRule as MissingRule
from .columns import example_csv as example_csv
