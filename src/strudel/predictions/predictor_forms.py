"""The forms that predictors take: linear, leaves of trees, circuits, events.

In:  arrays; `form_of_predictor` (`predictor_arguments.py`) fills them from any predictor.
Out: `LinearForm`, `LeafForm`, `CircuitForm` and `EventForm`, evaluated on complete rows.

Every form adds things up and then says what the sum is: its `output` is a value, a log-odds or a
probability. Log-odds have a `link` that makes probabilities of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import expit, softmax

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.data.validation import check_binary
from strudel.logic.events import Event
from strudel.queries.passes import UNKNOWN

Output: TypeAlias = Literal["value", "logit", "probability"]
Link: TypeAlias = Literal["identity", "sigmoid", "softmax"]


class PredictorForm:
    """What all forms share: evaluation of complete rows, and probabilities from log-odds."""

    n_vars: int
    bias: FloatArray
    output: Output
    link: Link
    classes: AnyArray | None
    feature_names: tuple[str, ...] | None

    @property
    def n_outputs(self) -> int:
        """Number of columns of `evaluate`."""
        return len(self.bias)

    def evaluate(self, X: Any) -> FloatArray:
        """The output `(n_rows, n_outputs)` for complete rows."""
        table, _ = check_binary(X, n_vars=self.n_vars, feature_names=self.feature_names)
        return self._outputs(table)

    def _outputs(self, table: ByteArray) -> FloatArray:
        raise NotImplementedError

    def probabilities(self, output: FloatArray) -> FloatArray:
        """Probabilities `(..., n_classes)` from outputs `(..., n_outputs)`.

        Probabilities and values come back as they are. The log-odds of two known classes give two
        columns, in the order of `classes`; without classes, one.
        """
        if self.link == "identity":
            return output
        if self.link == "softmax":
            return np.asarray(softmax(output, axis=-1))
        if self.classes is not None and len(self.classes) == 2:
            return np.concatenate([expit(-output), expit(output)], axis=-1)
        return np.asarray(expit(output))


@dataclass(frozen=True, eq=False)
class LinearForm(PredictorForm):
    """A weighted sum of the variables."""

    weight: FloatArray  # (n_vars, n_outputs)
    bias: FloatArray  # (n_outputs,)
    output: Output = "value"
    link: Link = "identity"
    classes: AnyArray | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[1:]:
            raise ValueError(
                "weight must have shape (n_vars, n_outputs) and bias (n_outputs,), but they have "
                f"the shapes {self.weight.shape} and {self.bias.shape}."
            )

    @property
    def n_vars(self) -> int:  # type: ignore[override]
        """Number of variables."""
        return len(self.weight)

    def _outputs(self, table: ByteArray) -> FloatArray:
        return table @ self.weight + self.bias


@dataclass(frozen=True, eq=False)
class LeafForm(PredictorForm):
    """A sum over trees of the value at the leaf that a row reaches.

    A leaf is a conjunction of literals, ``2 * variable + value`` each, no variable twice, in the
    order from the root of its tree. The leaves of one tree exclude each other and are complete.
    """

    n_vars: int
    leaf_start: IntArray  # (n_leaves + 1,) literals of leaf l: leaf_start[l]:leaf_start[l + 1]
    leaf_literal: IntArray  # (n_literals,)
    leaf_tree: IntArray  # (n_leaves,) not decreasing
    leaf_value: FloatArray  # (n_leaves, n_outputs), weighted: trees are simply added up
    bias: FloatArray  # (n_outputs,)
    output: Output = "value"
    link: Link = "identity"
    classes: AnyArray | None = None
    feature_names: tuple[str, ...] | None = None

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return len(self.leaf_tree)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.leaf_tree[-1]) + 1 if len(self.leaf_tree) else 0

    def _outputs(self, table: ByteArray) -> FloatArray:
        return self.ranges(table)[0]  # of complete rows both ends are the output

    def ranges(self, codes: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least and largest outputs, and how much each variable would narrow them."""
        low, high = np.tile(self.bias, (len(codes), 1)), np.tile(self.bias, (len(codes), 1))
        gain = np.zeros((len(codes), self.n_vars))
        leaves = self.leaf_start, self.leaf_literal, self.leaf_tree, self.leaf_value
        _ranges(codes, *leaves, low, high, gain)
        return low, high, gain


@kernel
def _ranges(
    codes: AnyArray,
    leaf_start: IntArray,
    leaf_literal: IntArray,
    leaf_tree: IntArray,
    leaf_value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    gain: FloatArray,
) -> None:
    """Add up, over the trees, the extremes of the leaves that a row may still reach.

    The range of a tree is added to the `gain` of the variable that it asks for next.
    """
    n_leaves, n_outputs = leaf_value.shape
    least = np.empty(n_outputs)
    most = np.empty(n_outputs)
    for s in range(len(codes)):
        least[:] = np.inf
        most[:] = -np.inf
        asked = NONE
        for l in range(n_leaves):
            if _may_reach(codes[s], leaf_start[l], leaf_start[l + 1], leaf_literal):
                for j in range(n_outputs):
                    least[j] = min(least[j], leaf_value[l, j])
                    most[j] = max(most[j], leaf_value[l, j])
                if asked == NONE:  # all leaves that can be reached ask for the same variable first
                    for i in range(leaf_start[l], leaf_start[l + 1]):
                        if codes[s, leaf_literal[i] // 2] == UNKNOWN:
                            asked = leaf_literal[i] // 2
                            break
            if l + 1 == n_leaves or leaf_tree[l + 1] != leaf_tree[l]:
                low[s] += least
                high[s] += most
                if asked != NONE:
                    for j in range(n_outputs):
                        gain[s, asked] += most[j] - least[j]
                least[:] = np.inf
                most[:] = -np.inf
                asked = NONE


@kernel
def _may_reach(codes: AnyArray, first: int, last: int, leaf_literal: IntArray) -> bool:
    """Whether a row may still satisfy all literals of a leaf."""
    for i in range(first, last):
        code = codes[leaf_literal[i] // 2]
        if code != UNKNOWN and code != leaf_literal[i] % 2:
            return False
    return True


@dataclass(frozen=True, eq=False)
class CircuitForm(PredictorForm):
    """A regression or logistic circuit."""

    circuit: PredictorCircuit
    classes: AnyArray | None = None

    @property
    def output(self) -> Output:  # type: ignore[override]
        """A value or log-odds."""
        return "value" if self.circuit.kind == "regression" else "logit"

    @property
    def link(self) -> Link:  # type: ignore[override]
        """The log-odds of a logistic circuit are of each class against all others."""
        return "identity" if self.circuit.kind == "regression" else "sigmoid"

    @property
    def n_vars(self) -> int:  # type: ignore[override]
        """Number of variables."""
        return self.circuit.n_vars

    @property
    def bias(self) -> FloatArray:  # type: ignore[override]
        """The constant part of the outputs."""
        return self.circuit.bias

    @property
    def feature_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """The names of the structure's variables, if they have any."""
        return self.circuit.structure.feature_names

    def _outputs(self, table: ByteArray) -> FloatArray:
        return self.circuit.evaluate(table)


@dataclass(frozen=True, eq=False)
class EventForm(PredictorForm):
    """A logical event: 1 where it holds, 0 where it does not."""

    event: Event
    n_vars: int
    feature_names: tuple[str, ...] | None = None
    output: Output = "probability"
    link: Link = "identity"
    classes: AnyArray | None = None

    @property
    def n_outputs(self) -> int:
        """One: whether the event holds."""
        return 1

    def _outputs(self, table: ByteArray) -> FloatArray:
        holds = self.event.holds(table, self.feature_names)
        return holds.astype(np.float64)[:, np.newaxis]


Form: TypeAlias = LinearForm | LeafForm | CircuitForm | EventForm
