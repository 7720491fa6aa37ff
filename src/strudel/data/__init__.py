"""Step 1: a table of 0s and 1s -> `BitMatrix`.

Reading order: containers, validation, bits, counts, datasets.
"""
