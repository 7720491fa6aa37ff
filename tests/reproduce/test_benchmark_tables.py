"""Facts about `benchmark_tables`."""

from reproduce.benchmark_tables import load_table


def test_an_example_of_load_table():
    assert (
        repr(load_table("generated-10"))
        == "Dataset('generated-10', n_vars=10, train=1200, valid=300, test=400)"
    )
