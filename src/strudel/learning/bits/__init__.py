"""The circuits that learners grow: over 0/1 variables, with one component or several.

Reading order: `circuit`, `mixture`, `flows`, `likelihood`, and `fold`, which makes circuits over
columns of them and back. Nothing that asks questions knows them.
"""
