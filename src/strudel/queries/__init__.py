"""Step 5: a circuit and a question -> an exact answer."""
