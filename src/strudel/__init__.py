"""Learn structured-decomposable probabilistic circuits, and ask them exact questions.

Names are imported on first use, so that ``import strudel`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from strudel._version import __version__

# The table of contents, by step.
_MODULE_OF = {
    # data
    "load_dataset": "data.datasets",
    "dataset_names": "data.datasets",
    "Dataset": "data.datasets",
    "BitMatrix": "data.bits",
    "pack_columns": "data.bits",
    "ColumnCode": "tables.column_codes",
    "Column": "tables.table_code",
    "TableCode": "tables.table_code",
    # trees
    "ChowLiuTree": "trees.chow_liu",
    "learn_chow_liu_tree": "trees.chow_liu",
    "learn_tree_for_vtree": "trees.fitting_tree",
    "Vtree": "trees.vtree",
    "learn_vtree": "trees.vtree_learning",
    "vtree_from_chow_liu": "trees.vtree",
    "balanced_vtree": "trees.vtree",
    "linear_vtree": "trees.vtree",
    "random_vtree": "trees.vtree",
    # circuits
    "Circuit": "circuits.circuit",
    "CircuitBuilder": "circuits.builder",
    "compile_chow_liu": "circuits.compile",
    "compile_factorized": "circuits.compile",
    "Mixture": "circuits.mixture",
    "CircuitMixture": "circuits.circuit_mixture",
    "figure_1_circuit": "circuits.examples",
    "Flows": "circuits.flows",
    "compute_flows": "circuits.flows",
    "why_not_smooth": "circuits.properties",
    "why_not_decomposable": "circuits.properties",
    "why_not_structured_decomposable": "circuits.properties",
    "why_not_deterministic": "circuits.properties",
    "PredictorCircuit": "circuits.predictor",
    "without_leaf_sums": "circuits.leaf_sums",
    # logic
    "Cnf": "logic.formula",
    "Dnf": "logic.formula",
    "Nnf": "logic.nnf",
    "Sdd": "logic.sdd",
    "uniform_circuit": "logic.models",
    "log_model_count": "logic.models",
    "Event": "logic.events",
    "variables": "logic.events",
    "at_least": "logic.events",
    "at_most": "logic.events",
    "exactly": "logic.events",
    "less_than": "logic.events",
    "parse_event": "logic.grammar",
    "compile_event": "logic.compile_event",
    # learning
    "SearchOptions": "learning.searches",
    "MixtureOptions": "learning.methods",
    "History": "learning.history",
    "MixtureHistory": "learning.mixtures.mixture_history",
    "fit_parameters": "learning.parameters",
    "learn_structure": "learning.search.learn_structure",
    "fit_mixture": "learning.mixtures.em",
    "compress": "learning.compression.compress",
    "fit_circuit_mixture": "learning.mixtures.per_component",
    # missing
    "expected_flows": "learning.incomplete.expected_flows",
    "fit_incomplete": "learning.incomplete.em",
    "NothingKnownWarning": "errors",
    # queries
    "log_likelihood": "queries.likelihood",
    "log_marginal": "queries.marginal",
    "log_conditional": "queries.marginal",
    "marginal_probabilities": "queries.moments",
    "pair_probabilities": "queries.moments",
    "covariance": "queries.moments",
    "responsibilities": "queries.mixture_likelihood",
    "most_probable_state": "queries.maximum.most_probable",
    "SearchLimitWarning": "queries.maximum.most_probable",
    "marginal_map": "queries.maximum.marginal_map",
    "MarginalMap": "queries.maximum.marginal_map",
    "sample": "queries.sampling",
    "sample_conditional": "queries.sampling",
    "entropy": "queries.information",
    "mutual_information": "queries.information",
    "count_distribution": "queries.counting",
    "probability": "algebra.probability",
    # two circuits on one vtree
    "multiply": "algebra.products",
    "power": "algebra.products",
    "divide": "algebra.products",
    "condition": "algebra.conditioning",
    "marginalize": "algebra.marginals",
    "inner_product": "algebra.divergences",
    "kl_divergence": "algebra.divergences",
    "cross_entropy": "algebra.divergences",
    "renyi_divergence": "algebra.divergences",
    "cauchy_schwarz_divergence": "algebra.divergences",
    "mean_squared_distance": "algebra.divergences",
    # predictions
    "expected_prediction": "predictions.expected",
    "prediction_variance": "predictions.expected",
    "Estimate": "predictions.expected",
    # decisions and explanations
    "same_decision_probability": "predictions.same_decision",
    "expected_same_decision_probability": "predictions.same_decision",
    "SameDecision": "predictions.same_decision",
    "classifier_agreement": "predictions.classifier_agreement",
    "Agreement": "predictions.agreement_search",
    "sufficient_explanation": "predictions.sufficient_explanation",
    "SufficientExplanation": "predictions.sufficient_explanation",
    "shap_values": "predictions.shapley",
    "ShapValues": "predictions.shapley",
    # models
    "Strudel": "models.strudel",
    "StrudelMixture": "models.mixture",
    "StrudelClassifier": "models.classifier",
    "StrudelImputer": "models.imputer",
    "RegressionCircuit": "models.regression",
    "LogisticCircuit": "models.logistic",
    "TableEncoder": "tables.encoder",
    # files
    "save": "io.model_file",
    "load": "io.model_file",
    "Checkpoint": "io.checkpoint_file",
    "read": "io.read_write",
    "write": "io.read_write",
    "read_cnf": "io.event_files",
    "read_sdd": "io.event_files",
    # pictures
    "plot_learning_curve": "plotting.learning_curve",
    "plot_vtree": "plotting.trees",
    "plot_chow_liu_tree": "plotting.trees",
    "plot_circuit": "plotting.drawing",
    "plot_marginals": "plotting.marginals",
    "plot_components": "plotting.heat_maps",
    "plot_dependencies": "plotting.heat_maps",
    "plot_images": "plotting.rows",
    "to_dot": "plotting.dot",
    # errors
    "CircuitPropertyError": "errors",
    "EmptyColumnWarning": "errors",
    "EventSyntaxError": "errors",
    "FileFormatError": "errors",
    "MissingDependencyError": "errors",
    "MovedBoundWarning": "errors",
    "UnseenValueWarning": "errors",
}

__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'strudel' has no attribute {name!r}")
    value = getattr(import_module(f"strudel.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from strudel.algebra.conditioning import condition as condition
    from strudel.algebra.divergences import cauchy_schwarz_divergence as cauchy_schwarz_divergence
    from strudel.algebra.divergences import cross_entropy as cross_entropy
    from strudel.algebra.divergences import inner_product as inner_product
    from strudel.algebra.divergences import kl_divergence as kl_divergence
    from strudel.algebra.divergences import mean_squared_distance as mean_squared_distance
    from strudel.algebra.divergences import renyi_divergence as renyi_divergence
    from strudel.algebra.marginals import marginalize as marginalize
    from strudel.algebra.probability import probability as probability
    from strudel.algebra.products import divide as divide
    from strudel.algebra.products import multiply as multiply
    from strudel.algebra.products import power as power
    from strudel.circuits.builder import CircuitBuilder as CircuitBuilder
    from strudel.circuits.circuit import Circuit as Circuit
    from strudel.circuits.circuit_mixture import CircuitMixture as CircuitMixture
    from strudel.circuits.compile import compile_chow_liu as compile_chow_liu
    from strudel.circuits.compile import compile_factorized as compile_factorized
    from strudel.circuits.examples import figure_1_circuit as figure_1_circuit
    from strudel.circuits.flows import Flows as Flows
    from strudel.circuits.flows import compute_flows as compute_flows
    from strudel.circuits.leaf_sums import without_leaf_sums as without_leaf_sums
    from strudel.circuits.mixture import Mixture as Mixture
    from strudel.circuits.predictor import PredictorCircuit as PredictorCircuit
    from strudel.circuits.properties import why_not_decomposable as why_not_decomposable
    from strudel.circuits.properties import why_not_deterministic as why_not_deterministic
    from strudel.circuits.properties import why_not_smooth as why_not_smooth
    from strudel.circuits.properties import (
        why_not_structured_decomposable as why_not_structured_decomposable,
    )
    from strudel.data.bits import BitMatrix as BitMatrix
    from strudel.data.bits import pack_columns as pack_columns
    from strudel.data.datasets import Dataset as Dataset
    from strudel.data.datasets import dataset_names as dataset_names
    from strudel.data.datasets import load_dataset as load_dataset
    from strudel.errors import CircuitPropertyError as CircuitPropertyError
    from strudel.errors import EmptyColumnWarning as EmptyColumnWarning
    from strudel.errors import EventSyntaxError as EventSyntaxError
    from strudel.errors import FileFormatError as FileFormatError
    from strudel.errors import MissingDependencyError as MissingDependencyError
    from strudel.errors import MovedBoundWarning as MovedBoundWarning
    from strudel.errors import NothingKnownWarning as NothingKnownWarning
    from strudel.errors import UnseenValueWarning as UnseenValueWarning
    from strudel.io.checkpoint_file import Checkpoint as Checkpoint
    from strudel.io.event_files import read_cnf as read_cnf
    from strudel.io.event_files import read_sdd as read_sdd
    from strudel.io.model_file import load as load
    from strudel.io.model_file import save as save
    from strudel.io.read_write import read as read
    from strudel.io.read_write import write as write
    from strudel.learning.compression.compress import compress as compress
    from strudel.learning.history import History as History
    from strudel.learning.incomplete.em import fit_incomplete as fit_incomplete
    from strudel.learning.incomplete.expected_flows import expected_flows as expected_flows
    from strudel.learning.methods import MixtureOptions as MixtureOptions
    from strudel.learning.mixtures.em import fit_mixture as fit_mixture
    from strudel.learning.mixtures.mixture_history import MixtureHistory as MixtureHistory
    from strudel.learning.mixtures.per_component import fit_circuit_mixture as fit_circuit_mixture
    from strudel.learning.parameters import fit_parameters as fit_parameters
    from strudel.learning.search.learn_structure import learn_structure as learn_structure
    from strudel.learning.searches import SearchOptions as SearchOptions
    from strudel.logic.compile_event import compile_event as compile_event
    from strudel.logic.events import Event as Event
    from strudel.logic.events import at_least as at_least
    from strudel.logic.events import at_most as at_most
    from strudel.logic.events import exactly as exactly
    from strudel.logic.events import less_than as less_than
    from strudel.logic.events import variables as variables
    from strudel.logic.formula import Cnf as Cnf
    from strudel.logic.formula import Dnf as Dnf
    from strudel.logic.grammar import parse_event as parse_event
    from strudel.logic.models import log_model_count as log_model_count
    from strudel.logic.models import uniform_circuit as uniform_circuit
    from strudel.logic.nnf import Nnf as Nnf
    from strudel.logic.sdd import Sdd as Sdd
    from strudel.models.classifier import StrudelClassifier as StrudelClassifier
    from strudel.models.imputer import StrudelImputer as StrudelImputer
    from strudel.models.logistic import LogisticCircuit as LogisticCircuit
    from strudel.models.mixture import StrudelMixture as StrudelMixture
    from strudel.models.regression import RegressionCircuit as RegressionCircuit
    from strudel.models.strudel import Strudel as Strudel
    from strudel.plotting.dot import to_dot as to_dot
    from strudel.plotting.drawing import plot_circuit as plot_circuit
    from strudel.plotting.heat_maps import plot_components as plot_components
    from strudel.plotting.heat_maps import plot_dependencies as plot_dependencies
    from strudel.plotting.learning_curve import plot_learning_curve as plot_learning_curve
    from strudel.plotting.marginals import plot_marginals as plot_marginals
    from strudel.plotting.rows import plot_images as plot_images
    from strudel.plotting.trees import plot_chow_liu_tree as plot_chow_liu_tree
    from strudel.plotting.trees import plot_vtree as plot_vtree
    from strudel.predictions.agreement_search import Agreement as Agreement
    from strudel.predictions.classifier_agreement import (
        classifier_agreement as classifier_agreement,
    )
    from strudel.predictions.expected import Estimate as Estimate
    from strudel.predictions.expected import expected_prediction as expected_prediction
    from strudel.predictions.expected import prediction_variance as prediction_variance
    from strudel.predictions.same_decision import SameDecision as SameDecision
    from strudel.predictions.same_decision import (
        expected_same_decision_probability as expected_same_decision_probability,
    )
    from strudel.predictions.same_decision import (
        same_decision_probability as same_decision_probability,
    )
    from strudel.predictions.shapley import ShapValues as ShapValues
    from strudel.predictions.shapley import shap_values as shap_values
    from strudel.predictions.sufficient_explanation import (
        SufficientExplanation as SufficientExplanation,
    )
    from strudel.predictions.sufficient_explanation import (
        sufficient_explanation as sufficient_explanation,
    )
    from strudel.queries.counting import count_distribution as count_distribution
    from strudel.queries.information import entropy as entropy
    from strudel.queries.information import mutual_information as mutual_information
    from strudel.queries.likelihood import log_likelihood as log_likelihood
    from strudel.queries.marginal import log_conditional as log_conditional
    from strudel.queries.marginal import log_marginal as log_marginal
    from strudel.queries.maximum.marginal_map import MarginalMap as MarginalMap
    from strudel.queries.maximum.marginal_map import marginal_map as marginal_map
    from strudel.queries.maximum.most_probable import SearchLimitWarning as SearchLimitWarning
    from strudel.queries.maximum.most_probable import most_probable_state as most_probable_state
    from strudel.queries.mixture_likelihood import responsibilities as responsibilities
    from strudel.queries.moments import covariance as covariance
    from strudel.queries.moments import marginal_probabilities as marginal_probabilities
    from strudel.queries.moments import pair_probabilities as pair_probabilities
    from strudel.queries.sampling import sample as sample
    from strudel.queries.sampling import sample_conditional as sample_conditional
    from strudel.tables.column_codes import ColumnCode as ColumnCode
    from strudel.tables.encoder import TableEncoder as TableEncoder
    from strudel.tables.table_code import Column as Column
    from strudel.tables.table_code import TableCode as TableCode
    from strudel.trees.chow_liu import ChowLiuTree as ChowLiuTree
    from strudel.trees.chow_liu import learn_chow_liu_tree as learn_chow_liu_tree
    from strudel.trees.fitting_tree import learn_tree_for_vtree as learn_tree_for_vtree
    from strudel.trees.vtree import Vtree as Vtree
    from strudel.trees.vtree import balanced_vtree as balanced_vtree
    from strudel.trees.vtree import linear_vtree as linear_vtree
    from strudel.trees.vtree import random_vtree as random_vtree
    from strudel.trees.vtree import vtree_from_chow_liu as vtree_from_chow_liu
    from strudel.trees.vtree_learning import learn_vtree as learn_vtree
