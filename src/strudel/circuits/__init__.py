"""Step 3: a tree and a vtree -> `Circuit`, and the passes over it.

Reading order: circuit, builder, compile, examples, properties (with scopes, determinism and
pair_search), flows, evaluate, layout, notebook.
"""
