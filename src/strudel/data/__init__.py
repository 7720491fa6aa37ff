"""Step 1: a table of 0s and 1s -> `BitMatrix`. Reading order: validation, bits, counts, datasets."""
