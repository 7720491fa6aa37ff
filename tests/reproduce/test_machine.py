"""Facts about `machine`."""

from reproduce.machine import describe_machine


def test_an_example_of_describe_machine():
    assert sorted(describe_machine())[:4] == ["commit", "cores", "matplotlib", "memory_gib"]
