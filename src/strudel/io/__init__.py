"""Step 7a: files. `model_file` keeps models in an `archive`, `tables` reads data."""
