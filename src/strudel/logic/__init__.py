"""Logic: formulas and logical circuits over the variables, and the models that satisfy them.

`formula` (CNF, DNF), `nnf` (negation normal form), `sdd` (sentential decision diagrams), then
`models`, which turns the last two into circuits.
"""
