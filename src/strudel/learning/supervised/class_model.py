"""A mixture that holds classes: what the classifier asks.

In:  a mixture whose components, or whose last variables, say the class.
Out: how probable each class is together with what is known of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from strudel._types import ByteArray, FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.learning.supervised.class_code import class_codewords, with_class_variables
from strudel.queries.mixture_likelihood import class_logs, class_logs_of_joint


@dataclass(frozen=True, eq=False)
class ClassModel:
    """A mixture that holds classes."""

    mixture: Mixture
    component_class: IntArray | None  # the class of every component, or
    codewords: ByteArray | None  # what the last variables say for every class

    def joint_logs(self, rows: FloatArray) -> FloatArray:
        """Log-probability of the known values of a row together with each class."""
        if self.component_class is not None:
            return class_logs(self.mixture, self.component_class, rows)
        assert self.codewords is not None
        return class_logs_of_joint(self.mixture, self.codewords, rows)

    def with_class_variables(self) -> Mixture:
        """The mixture over inputs and class, whose variables are the last."""
        if self.component_class is None:
            return self.mixture.with_table_code(None)
        codewords = class_codewords(int(self.component_class.max()) + 1)
        return with_class_variables(self.mixture, self.component_class, codewords)
