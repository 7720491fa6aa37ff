from .circuit import Circuit as Circuit
from .properties import why_not_deterministic as why_not_deterministic
from .builder import CircuitBuilder as CircuitBuilder
from .compile import compile_chow_liu as compile_chow_liu
from .compile import compile_factorized as compile_factorized
from .compile import figure_1_circuit as figure_1_circuit
from .predictor import PredictorCircuit as PredictorCircuit
from .predictor import even_structure as even_structure
