"""Scale: tables in many parts, on one machine or on a Dask cluster.

In:  Dask arrays and frames. Out: the same circuits and mixtures that one table in memory gives.
Read `engines`, `out_of_core`, `tables` (with `chosen_rows` and `weight_blocks`), `partition`,
`growing`, `structure`, `mixture`, in this order; then `packed_codes` and `incomplete` for rows with
unknown values.
"""
