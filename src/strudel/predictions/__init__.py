"""What predictors say about rows that are only partly known.

Predictors of any origin take one of a few forms (`forms.py`), whose moments under a model are exact
(`expected.py`).
"""
