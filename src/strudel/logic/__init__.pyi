# events
from .events import Event as Event
from .terms import Term as Term
from .terms import Variables as Variables
from .terms import variables as variables
from .events import at_least as at_least
from .events import at_most as at_most
from .events import exactly as exactly
from .events import less_than as less_than
from .event_grammar import parse_event as parse_event
from .event_compiler import compile_event as compile_event

# formulas and logical circuits
from .formula import Cnf as Cnf
from .formula import Dnf as Dnf
from .formula import Nnf as Nnf
from .sdd import Sdd as Sdd
from .satisfying_rows import uniform_circuit as uniform_circuit
from .satisfying_rows import log_model_count as log_model_count
