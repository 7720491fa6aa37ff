"""Facts about `items`."""

from reproduce.items import find_items


def test_an_example_of_find_items():
    assert [item.name for item in find_items(["table:sizes", "figure:1"])] == [
        "figure:1",
        "table:sizes",
    ]
