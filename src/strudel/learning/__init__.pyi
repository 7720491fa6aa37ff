# options
from .options import Greedy as Greedy
from .options import BestFirst as BestFirst
from .options import LearnPSDD as LearnPSDD
from .options import Race as Race
from .options import SearchOptions as SearchOptions
from .options import EM as EM
from .options import BaggedEM as BaggedEM
from .options import Boosting as Boosting
from .options import Continuous as Continuous
from .options import MixtureOptions as MixtureOptions

# a fit
from .progress import Progress as Progress
from .prepared_rows import LogLikelihoods as LogLikelihoods

# one circuit
from .search.learn_structure import learn_structure as learn_structure
from .parameters import fit_parameters as fit_parameters
from .progress import History as History

# mixtures
from .progress import MixtureHistory as MixtureHistory
from .mixtures.choose import Trial as Trial

# predictors
from .class_models import ClassTrial as ClassTrial
from .class_models import Setting as Setting
from .flow_predictors import StructureTrial as StructureTrial
