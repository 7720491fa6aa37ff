"""Step 4: rows -> a learned `Circuit`.

Reading order: options, parameters, structure, heuristics (with information_scores), growing (with
growth, split and deepen), history, run, journal (what lets a fit that was killed go on).
"""
