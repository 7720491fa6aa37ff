"""The paper's tables and figures again, and how Strudel compares today.

In:  names of items (`items.py`) and datasets.
Out: one json per experiment and dataset (`store.py`), and a report of them (`report.py`).

Read `items.py` first, then `runner.py`; an experiment is one file in `experiments/`, and what the
report says about it one file in `sections/`. What others have published is in `facts/`.
"""
