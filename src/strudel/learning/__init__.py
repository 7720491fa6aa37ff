"""Step 4: rows -> a learned `Circuit`.

Reading order: options, parameters, growing, heuristics, structure, history.
"""
