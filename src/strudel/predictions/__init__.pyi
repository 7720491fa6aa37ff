# expectations
from .expected import expected_prediction as expected_prediction
from .expected import prediction_variance as prediction_variance
from .expected import Estimate as Estimate

# decisions
from .same_decision import same_decision_probability as same_decision_probability
from .same_decision import expected_same_decision_probability as expected_same_decision_probability
from .same_decision import SameDecision as SameDecision
from .same_decision import classifier_agreement as classifier_agreement
from .same_decision import Agreement as Agreement

# explanations
from .explanation import sufficient_explanation as sufficient_explanation
from .explanation import SufficientExplanation as SufficientExplanation
from .explanation import shap_values as shap_values
from .explanation import ShapValues as ShapValues
