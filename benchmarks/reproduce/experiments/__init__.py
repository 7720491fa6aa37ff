"""One file per experiment.

In:  `run(name, settings)` gets the name of a table and how much it may do.
Out: a dict of plain numbers, lists and words, which the store keeps as json. `warm_up()` loads or
     compiles what `run` is going to time.
"""
