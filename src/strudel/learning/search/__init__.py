"""Rows -> the structure of one circuit: greedy, beam, best-first, LearnPSDD, or a race."""
