"""Durations and dates, however they are written: the same code, and the same answers."""

import datetime

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel, probability
from strudel.tables import TableEncoder
from strudel.tables.column import said_region
from strudel.tables.columns import as_duration, as_stamp, is_missing, read_columns

DAYS = [1, 2, 2, 3, 5, 8, 8, 9] * 4
TIMEDELTAS = [datetime.timedelta(days=n) for n in DAYS]
FORMS = {
    "pandas": pd.DataFrame({"stay": pd.to_timedelta(DAYS, unit="D")}),
    "objects": [[value] for value in TIMEDELTAS],
    "array": np.array(DAYS, dtype="timedelta64[D]")[:, np.newaxis],
    "array of objects": np.array([[value] for value in TIMEDELTAS], dtype=object),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_code(form):
    raw = read_columns(FORMS[form]).columns[0]
    assert raw.dtype == "duration"
    assert (raw.values / 86_400e6).tolist() == DAYS


@pytest.mark.parametrize("form", ["objects", "array"])
def test_a_missing_duration_is_missing(form):
    table = {
        "objects": [[None], [datetime.timedelta(days=1)]],
        "array": np.array([["NaT"], [1]], dtype="timedelta64[D]"),
    }[form]
    values = read_columns(table).columns[0].values
    assert np.isnan(values).tolist() == [True, False]
    assert is_missing(np.timedelta64("NaT"))


def test_events_about_durations_count_rows():
    encoder = TableEncoder(edges={"stay": [as_duration("3 days"), as_duration("8 days")]})
    model = Strudel(n_components=1, columns=encoder, max_splits=0, pseudocount=0.0, random_state=0)
    model.set_params(validation_fraction=None).fit(FORMS["pandas"])
    for bound in ("8 days", datetime.timedelta(days=8), np.timedelta64(8, "D"), 8 * 86_400e6):
        text = bound if isinstance(bound, str) else "192 h"
        assert probability(model, f"stay >= '{text}'") == pytest.approx(3 / 8)
        column = model.circuit_.columns[model.circuit_.columns.place("stay")]
        assert said_region(column, (bound, None)) == ((8 * 86_400e6, np.inf),)
    with pytest.raises(ValueError, match="needs a list of values"):
        said_region(column, {"8 days": 1})


def test_dates_with_a_zone_are_in_utc_and_others_are_refused():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    noon = datetime.datetime(1970, 1, 1, 12, tzinfo=zone)
    assert as_stamp(noon) == 10 * 3600e6
    assert as_stamp(5) == 5.0
    for wrong in ("NaT", "yesterday"):
        with pytest.raises(ValueError, match="Expected a date such as"):
            as_stamp(wrong)
    with pytest.raises(ValueError, match="Expected a duration such as"):
        as_duration("soon")
