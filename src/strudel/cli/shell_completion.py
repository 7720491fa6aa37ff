"""What a shell offers when Tab is pressed: files of the right kind, datasets, folders.

`strudel --install-completion` sets it up for bash, zsh, fish and PowerShell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

TABLES = (".csv", ".tsv", ".txt", ".data", ".npy", ".npz", ".parquet", ".gz")


def complete_data(incomplete: str) -> list[str]:
    """Datasets by name, tables and folders."""
    from strudel.data.datasets import dataset_names
    from strudel.tables.columns import EXAMPLE

    names = [name for name in (*dataset_names(), EXAMPLE) if name.startswith(incomplete)]
    return names + _files(incomplete, TABLES)


def complete_model(incomplete: str) -> list[str]:
    """Model files and folders."""
    return _files(incomplete, (".strudel",))


def complete_from(values: Iterable[str]) -> Callable[[str], list[str]]:
    """A function that offers a few values."""
    offered = [str(value) for value in values]

    def complete(incomplete: str) -> list[str]:
        return [value for value in offered if value.startswith(incomplete)]

    return complete


def _files(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    """What begins like this; a folder ends in a slash, so that one can go on."""
    folder, slash, start = incomplete.rpartition("/")
    place = Path(folder + slash or ".").expanduser()
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return []
    return [
        folder + slash + entry.name + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(start)
        and (start or not entry.name.startswith("."))
        and (entry.is_dir() or entry.suffix.lower() in endings)
    ]
