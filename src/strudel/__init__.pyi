# packages
from . import algebra as algebra
from . import circuits as circuits
from . import data as data
from . import errors as errors
from . import io as io
from . import explorer as explorer
from . import layers as layers
from . import learning as learning
from . import logic as logic
from . import models as models
from . import plotting as plotting
from . import predictions as predictions
from . import queries as queries
from . import tables as tables
from . import trees as trees

# estimators
from .models.strudel import Strudel as Strudel
from .models.classifier import StrudelClassifier as StrudelClassifier
from .models.imputer import StrudelImputer as StrudelImputer
from .models.regressor import StrudelRegressor as StrudelRegressor
from .models.warm_up import warmup as warmup

# searches, and how mixtures are trained
from .learning.options import Greedy as Greedy
from .learning.options import BestFirst as BestFirst
from .learning.options import LearnPSDD as LearnPSDD
from .learning.options import Race as Race
from .learning.options import EM as EM
from .learning.options import BaggedEM as BaggedEM
from .learning.options import Boosting as Boosting
from .learning.options import Continuous as Continuous

# data and files
from .data.datasets import load_dataset as load_dataset
from .data.datasets import dataset_names as dataset_names
from .io.model_file import save as save
from .io.model_file import load as load
from .io.read_write import read as read
from .io.read_write import write as write

# what is learned
from .circuits.circuit import Circuit as Circuit
from .trees.vtree import Vtree as Vtree

# queries
from .queries.likelihood import log_likelihood as log_likelihood
from .queries.event_probability import log_marginal as log_marginal
from .queries.event_probability import log_conditional as log_conditional
from .queries.marginals import marginal_probabilities as marginal_probabilities
from .queries.marginals import pair_probabilities as pair_probabilities
from .queries.most_probable import most_probable_state as most_probable_state
from .queries.most_probable import marginal_map as marginal_map
from .queries.sampling import sample as sample
from .queries.information import entropy as entropy
from .queries.information import mutual_information as mutual_information
from .queries.counting import count_distribution as count_distribution
from .queries.event_probability import responsibilities as responsibilities
from .queries.event_probability import probability as probability
from .logic.terms import variables as variables

# as a layer of a network
from .layers.exports import to_torch as to_torch

# the page
from .explorer.page import explore as explore

# decisions and explanations
from .predictions.expected import expected_prediction as expected_prediction
from .predictions.same_decision import same_decision_probability as same_decision_probability
from .predictions.explanation import sufficient_explanation as sufficient_explanation
from .predictions.explanation import shap_values as shap_values

# algebra
from .algebra.conditioning import condition as condition
from .algebra.products import multiply as multiply
from .algebra.divergences import kl_divergence as kl_divergence

# pictures
from .plotting.circuits import plot_circuit as plot_circuit
from .plotting.trees import plot_vtree as plot_vtree
from .plotting.curves import plot_learning_curve as plot_learning_curve
from .plotting.marginals import plot_marginals as plot_marginals
from .plotting.heat_maps import plot_components as plot_components
from .plotting.heat_maps import plot_dependencies as plot_dependencies
from .plotting.curves import plot_check as plot_check
from .plotting.heat_maps import plot_images as plot_images

# errors
from .errors import CircuitPropertyError as CircuitPropertyError
from .errors import FileFormatError as FileFormatError
from .errors import InterruptedWarning as InterruptedWarning
from ._version import __version__ as __version__
