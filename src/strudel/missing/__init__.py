"""Step 5b: rows with unknown values -> a model.

`learning` needs complete rows, and `queries` can complete them: here the two take turns. Read
`structural_em` first; `reach`, `expected_flows` and `completions` are the passes over the rows.
"""
