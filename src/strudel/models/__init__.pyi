from .strudel import Strudel as Strudel
from .classifier import StrudelClassifier as StrudelClassifier
from .imputer import StrudelImputer as StrudelImputer
from .regressor import StrudelRegressor as StrudelRegressor
from .predictor_circuits import RegressionCircuit as RegressionCircuit
from .predictor_circuits import LogisticCircuit as LogisticCircuit
from .warm_up import warmup as warmup
