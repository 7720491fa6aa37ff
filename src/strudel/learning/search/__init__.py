"""Rows -> the structure of one circuit: greedy, best-first, LearnPSDD, or a race."""
