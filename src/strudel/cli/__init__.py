"""Step 7c: the command line."""
