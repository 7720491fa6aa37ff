"""`strudel datasets`: which datasets there are, and where each would come from."""

from __future__ import annotations

from strudel.cli.console import JsonOption, say, tell

SIZE_OF_EXAMPLE = (12, 1500, 0, 0)  # columns and rows


def datasets(as_json: JsonOption = False) -> None:
    """List the datasets known by name.

    Downloads nothing. "local" is the folder that STRUDEL_DATA names, "cached" an earlier download,
    "built in" needs no file; anything else is downloaded when first used.
    """
    from strudel.data.datasets import SIZES, place_of
    from strudel.tables.columns import EXAMPLE

    names = ("name", "variables", "train", "valid", "test", "found")
    sizes = SIZES | {EXAMPLE: SIZE_OF_EXAMPLE}
    rows = [(name, *size, place_of(name)) for name, size in sizes.items()]
    tell({"datasets": [dict(zip(names, row, strict=True)) for row in rows]}, as_json)
    if not as_json:
        say(f"\nTry:  strudel fit digits, or strudel fit {EXAMPLE} (categories, numbers, dates)")
