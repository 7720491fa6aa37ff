"""`strudel datasets`: which datasets there are, and where each would come from."""

from __future__ import annotations

from strudel.cli.console import JsonOption, print_json, say, show_table

# Variables, and rows to train, validate and test: known without having the files.
SIZES = {
    "nltcs": (16, 16181, 2157, 3236),
    "msnbc": (17, 291326, 38843, 58265),
    "kdd": (64, 180092, 19907, 34955),
    "plants": (69, 17412, 2321, 3482),
    "baudio": (100, 15000, 2000, 3000),
    "jester": (100, 9000, 1000, 4116),
    "bnetflix": (100, 15000, 2000, 3000),
    "accidents": (111, 12758, 1700, 2551),
    "tretail": (135, 22041, 2938, 4408),
    "pumsb_star": (163, 12262, 1635, 2452),
    "dna": (180, 1600, 400, 1186),
    "kosarek": (190, 33375, 4450, 6675),
    "msweb": (294, 29441, 3270, 5000),
    "book": (500, 8700, 1159, 1739),
    "tmovie": (500, 4524, 1002, 591),
    "cwebkb": (839, 2803, 558, 838),
    "cr52": (889, 6532, 1028, 1540),
    "c20ng": (910, 11293, 3764, 3764),
    "bbc": (1058, 1670, 225, 330),
    "ad": (1556, 2461, 327, 491),
    "digits": (64, 1257, 180, 360),
}
SIZE_OF_EXAMPLE = (12, 1500, None, None)  # columns and rows


def datasets(as_json: JsonOption = False) -> None:
    """List the datasets known by name.

    Downloads nothing. "local" is the folder that STRUDEL_DATA names, "cached" an earlier download,
    "built in" needs no file; anything else is downloaded when first used.
    """
    from strudel.data.datasets import dataset_names
    from strudel.tables.columns import EXAMPLE

    columns = ("name", "variables", "train", "valid", "test", "found")
    unknown = (None, None, None, None)
    rows = [(name, *SIZES.get(name, unknown), _where(name)) for name in dataset_names()]
    rows.append((EXAMPLE, *SIZE_OF_EXAMPLE, "built in"))
    if as_json:
        print_json({"datasets": [dict(zip(columns, row, strict=True)) for row in rows]})
        return
    show_table(columns, rows)
    say()
    say("Try:  strudel fit digits")
    say(f"      strudel fit {EXAMPLE}   (categories, numbers, dates and gaps)")


def _where(name: str) -> str:
    """Where `load_dataset` would find it, without loading it."""
    from strudel.data.datasets import search_folders

    if name == "digits":
        return "built in"
    *local, cache = search_folders()
    for folder, place in [*((folder, "local") for folder in local), (cache, "cached")]:
        if (folder / "debd" / f"{name}.npz").is_file():
            return place
    return "download needed"
