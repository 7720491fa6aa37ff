"""The table that ships with the package, so that a first model needs no data and no network.

Out: the path of a csv of 1,500 visits to a clinic. They are made up (`scripts/make_patients.py`).
"""

from __future__ import annotations

from pathlib import Path

EXAMPLE = "patients"  # what the command line calls it


def example_csv() -> Path:
    """The path of a csv that ships with the package: 1,500 made-up visits to a clinic.

    Its 12 columns are numbers, categories, yes and no, and a date; some cells are missing. On the
    command line the table is called ``patients``.

    Returns
    -------
    Path

    Examples
    --------
    >>> import pandas as pd
    >>> pd.read_csv(example_csv()).shape
    (1500, 12)
    """
    return Path(__file__).with_name("patients.csv")
