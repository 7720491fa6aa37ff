# how probable
from .likelihood import log_likelihood as log_likelihood
from .likelihood import observed_log_likelihood as observed_log_likelihood
from .event_probability import probability as probability
from .event_probability import log_marginal as log_marginal
from .event_probability import log_conditional as log_conditional
from .counting import count_distribution as count_distribution
from .event_probability import responsibilities as responsibilities

# of every variable
from .marginals import marginal_probabilities as marginal_probabilities
from .marginals import pair_probabilities as pair_probabilities
from .marginals import covariance as covariance
from .marginals import ColumnMarginals as ColumnMarginals

# of one column of numbers or dates
from .column_posterior import posterior as posterior
from .column_posterior import ColumnPosterior as ColumnPosterior
from .column_posterior import expectation as expectation
from .column_posterior import variance as variance
from .column_posterior import quantile as quantile
from .column_posterior import cdf as cdf
from .column_posterior import pdf as pdf

# rows
from .most_probable import most_probable_state as most_probable_state
from .most_probable import marginal_map as marginal_map
from .most_probable import MarginalMap as MarginalMap
from .sampling import sample as sample

# in the columns of a table
from .column_pairs import correlations as correlations
from .column_pairs import Correlations as Correlations
from .unusual_rows import surprise as surprise
from .unusual_rows import Surprise as Surprise
from .comparison import compare as compare
from .comparison import Comparison as Comparison
from .pair_check import check as check
from .pair_check import Check as Check
from .given import of_all_rows as of_all_rows

# information
from .information import entropy as entropy
from .information import mutual_information as mutual_information
