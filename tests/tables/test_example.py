"""The table that ships with the package: it is what its script writes, and its columns depend."""

import runpy
from pathlib import Path

import pandas as pd
import pytest

from strudel.cli.datasets import SIZE_OF_EXAMPLE
from strudel.io import read_table
from strudel.tables import example_csv
from strudel.tables.columns import read_columns

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_patients.py"


@pytest.fixture(scope="module")
def patients():
    return pd.read_csv(example_csv())


@pytest.mark.skipif(not SCRIPT.exists(), reason="the script is in a checkout")
def test_it_is_what_the_script_writes(tmp_path):
    runpy.run_path(str(SCRIPT))["write"](tmp_path / "patients.csv")
    assert (tmp_path / "patients.csv").read_bytes() == example_csv().read_bytes()


def test_it_is_small_and_has_the_size_that_the_command_line_says(patients):
    assert example_csv().stat().st_size < 150_000
    assert patients.shape == (SIZE_OF_EXAMPLE[1], SIZE_OF_EXAMPLE[0])


def test_its_columns_are_of_every_kind_and_some_have_gaps():
    table = read_columns(read_table("patients"))
    assert {column.dtype for column in table.columns} == {"date", "integer", "float", "text"}
    names_with_gaps = {
        name for name, values in pd.read_csv(example_csv()).items() if values.isna().any()
    }
    assert names_with_gaps == {"smoker", "sport", "temperature", "glucose"}


def test_a_reader_recognises_what_depends_on_what(patients):
    share = pd.crosstab(patients["diagnosis"], patients["smoker"], normalize="columns")
    assert share.loc["bronchitis", "yes"] > 3 * share.loc["bronchitis", "no"]
    by_diagnosis = patients.groupby("diagnosis")[["age", "bmi", "temperature", "glucose"]].mean()
    assert by_diagnosis["temperature"].idxmax() == "influenza"
    assert by_diagnosis["glucose"].idxmax() == by_diagnosis["bmi"].idxmax() == "diabetes"
    assert by_diagnosis["age"].idxmax() == "angina"
    months = pd.to_datetime(patients["visit"]).dt.month[patients["diagnosis"] == "influenza"]
    assert months.isin([12, 1, 2, 3]).mean() > 0.6


def test_a_file_of_that_name_hides_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("patients").write_text("a,b\n1,x\n")
    with pytest.raises(ValueError, match="has no ending"):
        read_table("patients")
