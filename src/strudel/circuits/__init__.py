"""Step 3: a tree and a vtree -> `Circuit`, and the passes over it.

Reading order: circuit, builder, compile, properties, flows, examples.
"""
