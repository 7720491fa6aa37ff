"""Step 7a: files. `model_file` keeps models, `tables` reads data."""
