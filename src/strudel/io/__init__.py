"""Step 7a: files. `tables` and `frames` read data; `model_file` keeps models in an `archive`.

`model_states` and `estimator_states` say what of a model is kept; the formats of others have a file
each.
"""
