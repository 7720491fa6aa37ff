"""Tables in several partitions, on one machine or on a Dask cluster -> a model."""
