"""Densities: edited numbers of a column's density in a model file, and bounds inside its cells."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import asdict

import numpy as np
import pandas as pd

import strudel
from campaign.agreement import need, table_of
from campaign.damage import edit_array, edit_json
from campaign.files import ANSWER, REFUSED, check_refusal
from campaign.seeds import mixed_table
from model_files import edit
from strudel import Strudel
from strudel.queries.given import circuit_of
from strudel.tables import TableEncoder


class Densities:
    """Files whose densities were edited, checksum or not; and those that were not."""

    def __init__(self, folder):
        self.path = folder / "numbers.strudel"
        frame = mixed_table(60)
        frame["count"] = np.random.default_rng(1).poisson(3, len(frame))  # a lattice
        frame["paid"] = np.where(frame["count"] > 3, 0.0, frame["count"] * 1.37)  # a point mass
        quick = {"columns": TableEncoder(n_bins=2), "random_state": 0}
        self.contents = []
        for model in (
            Strudel(n_components=1, max_splits=2, **quick),
            Strudel(n_components=2, max_splits=1, **quick),
        ):
            for columns in (["size", "kind"], ["count", "kind"], ["paid", "seen"]):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    strudel.save(model.fit(frame[columns]), self.path)
                self.contents.append(self.path.read_bytes())

    def case(self, rng):
        self.path.write_bytes(self.contents[int(rng.integers(len(self.contents)))])
        if rng.random() < 0.7:
            edit(self.path, lambda header, arrays: edit_density(header, arrays, rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = strudel.load(self.path, verify=False)
        except strudel.FileFormatError as error:
            return REFUSED, check_refusal(error)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_bounds(model, rng)
        return ANSWER, 0


def edit_density(header, arrays, rng):
    """Change some entries and numbers of a density or its pieces."""
    states = [one for one in header["objects"] if one["$of"] in ("Density", "Pieces")]
    for _ in range(int(rng.integers(1, 4))):
        state = states[int(rng.integers(len(states)))]
        places = [
            own["$array"] for own in state.values() if isinstance(own, dict) and "$array" in own
        ]
        if rng.random() < 0.5:
            place = places[int(rng.integers(len(places)))]
            arrays[place] = edit_array(arrays[place], rng)
        else:
            edit_json(state, rng)


def check_bounds(model, rng):
    """Bounds inside cells, alone and as evidence: what enumeration and the pieces say."""
    joint = table_of(model)
    column, other = circuit_of(model).columns
    density = asdict(column.density)
    ends = [*density["seen"], *density["point"], *column.edges, *density["parts"][0]["bounds"]]
    at = float(rng.choice(ends) + rng.choice([0.0, 0.0, 0.005, -0.3, 1e-9, 100.0]))
    p_cell = joint.sum(axis=1) / joint.sum()
    wanted = float(p_cell @ _shares(density, column.edges, at))
    found = strudel.probability(model, f"{column.name} < {at!r}")
    need(abs(found - wanted) < 1e-6, f"P({column.name} < {at!r}) is {found}, not {wanted}")
    value = other.values[int(rng.integers(other.n_values))]
    place = other.values.index(value)
    p_both = joint[:, place]
    next_to = math.nextafter(at, math.inf)  # a cumulative distribution counts the number itself
    wanted = float(p_both @ _shares(density, column.edges, next_to) / p_both.sum())
    given = pd.DataFrame({column.name: [None], other.name: [other.own_value(value)]})
    posterior = model.posterior(column.name, given=given.iloc[0].to_dict())
    need(abs(float(posterior.cdf(at)) - wanted) < 1e-6, f"cdf({at!r}) given {value}")
    need(math.isfinite(float(posterior.mean)), "a mean that is no number")
    half = float(posterior.quantile(0.5))
    below = float(p_both @ _shares(density, column.edges, half) / p_both.sum())
    need(below <= 0.5 + 1e-6, f"the median {half} has {below} below it")
    drawn = model.sample(5, random_state=0)[column.name]
    need(np.isfinite(np.asarray(drawn, dtype=float)).all(), "a draw that is no number")


def _shares(density, edges, at):
    """The share of every cell that lies below a number, piece by piece."""
    ends = [-math.inf, *edges, math.inf]
    shares = []
    for low, high in itertools.pairwise(ends):
        whole = _below(density, high) - _below(density, low)
        part = _below(density, min(max(at, low), high)) - _below(density, low)
        shares.append(part / whole if whole > 0 else 0.0)
    return np.clip(shares, 0.0, 1.0)


def _below(density, x):
    """The mass of a density below a number."""
    if x == -math.inf:
        return 0.0
    masses = zip(density["point"], density["point_mass"], strict=True)
    total = math.fsum(mass for point, mass in masses if point < x)
    for part in density["parts"]:
        bounds, mass, (low, high) = part["bounds"], part["mass"], part["scale"]
        step = part["step"]
        end = x if not step or x == math.inf else math.ceil(x / step) * step
        below, above = min(end - bounds[0], 0.0), max(end - bounds[-1], 0.0)
        total += mass[0] * math.exp(below / low) + mass[-1] * -math.expm1(-above / high)
        for a, b, own in zip(bounds, bounds[1:], mass[1:-1], strict=False):
            total += own * min(max(end - a, 0.0), b - a) / (b - a)
    return total
