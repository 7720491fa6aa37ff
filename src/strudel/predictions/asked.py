"""What questions about predictors are asked of: a circuit, forms over its cells, rows of codes.

In:  a model, predictors, and what is given, all in any form.
Out: `Asked`, one for each predictor. Cells of the circuit meet wherever a predictor or what is
     given tells numbers apart, so that everything after this file knows cells only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import with_edges
from strudel.circuits.passes import distinct_rows
from strudel.circuits.walks import raise_if_impossible
from strudel.predictions.cell_codes import CellCodes
from strudel.predictions.forms import Form
from strudel.predictions.read_predictor import reading_of, warn_of_cuts
from strudel.queries.given import ask, circuit_of
from strudel.tables.evidence import Evidence


@dataclass(frozen=True, eq=False)
class Asked:
    """A predictor and what is known of some rows, each once."""

    form: Form
    known: CellCodes
    evidence: Evidence  # of all rows, in their order
    codes: AnyArray  # (n_distinct, n_columns)
    place: IntArray  # (n_rows,) where each row is among them
    shift: FloatArray  # (n_distinct, n_lines, n_outputs) what known numbers add to their cells
    knows: AnyArray  # (n_distinct, n_lines) whether the number of a line is known

    @property
    def circuit(self) -> Circuit:
        """The circuit that is asked."""
        return self.known.circuit

    @property
    def is_single(self) -> bool:
        """Whether it is one question, whose answer has no axis of rows."""
        return self.evidence.is_single

    @property
    def shifts(self) -> FloatArray:
        """What all known numbers of each row add, `(n_distinct, n_outputs)`."""
        return np.asarray(self.shift.sum(axis=1))

    def raise_if_impossible(self) -> None:
        """Refuse rows of probability zero."""
        raise_if_impossible(self.known.log_probabilities(self.codes)[self.place])


def ask_about(
    model: Any, predictors: Iterable[Any], given: Any, *, are_decisions: bool = False
) -> list[Asked]:
    """Predictors as forms over the cells of one circuit, and what is given as codes of them."""
    circuit = circuit_of(model)
    readings = [
        reading_of(predictor, circuit.columns, is_decision=are_decisions)
        for predictor in predictors
    ]
    edges: dict[int, set[float]] = {}
    for reading in readings:
        for place, own in reading.cuts.items():
            edges.setdefault(place, set()).update(own)
    asked = ask(with_edges(circuit, edges), given)
    warn_of_cuts(readings, circuit.columns)
    bounds: dict[int, set[float]] = {}
    for (_, place), region in asked.evidence.regions.items():
        if asked.circuit.columns[place].is_numeric:
            bounds.setdefault(place, set()).update(end for ends in region for end in ends)
    finer = with_edges(asked.circuit, bounds)
    is_same = finer is asked.circuit
    evidence = asked.evidence if is_same else asked.evidence.refined(finer.columns)
    forms = [reading.form(finer.columns) for reading in readings]
    known = CellCodes(finer, evidence)
    if any(form.lines for form in forms):  # rows of equal cells may differ in their numbers
        codes, place_of = evidence.codes, np.arange(len(evidence), dtype=np.int32)
    else:
        codes, place_of = distinct_rows(evidence.codes)
    return [
        Asked(form, known, evidence, codes, place_of, *_shifts(form, evidence, len(codes)))
        for form in forms
    ]


def _shifts(form: Form, evidence: Evidence, n_rows: int) -> tuple[FloatArray, AnyArray]:
    """What known numbers add, `(n_rows, n_lines, n_outputs)`, and which are known."""
    shift = np.zeros((n_rows, len(form.lines), len(form.bias)))
    knows = np.zeros((n_rows, len(form.lines)), dtype=np.bool_)
    for i, line in enumerate(form.lines):
        numbers = evidence.numbers.get(line.place)
        if numbers is not None:
            shift[:, i], knows[:, i] = line.shifts(numbers), ~np.isnan(numbers)
    return shift, knows
