"""Datasets by name: the twenty density-estimation benchmarks, and binarised digits.

In:  a name.
Out: `Dataset`, three `uint8` tables. Benchmarks come from ``$STRUDEL_DATA/debd``, from the user's
     cache, or over the network with a checksum per file; digits ship with scikit-learn.

A benchmark on disk is one `.npz`: `train`, `valid` and `test`, eight cells to a byte, and `n_vars`.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from strudel._files import complete_file
from strudel._names import did_you_mean, names_of
from strudel._types import ByteArray
from strudel.errors import FileFormatError

SPLITS = ("train", "valid", "test")

# fmt: off
_BENCHMARKS = (
    "nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "bnetflix",
    "accidents", "tretail", "pumsb_star", "dna", "kosarek", "msweb", "book",
    "tmovie", "cwebkb", "cr52", "c20ng", "bbc", "ad",
)
# fmt: on
ALIASES = {  # the paper's names
    "audio": "baudio",
    "netflix": "bnetflix",
    "retail": "tretail",
    "eachmovie": "tmovie",
    "webkb": "cwebkb",
    "routers-52": "cr52",
    "20news-grp": "c20ng",
    "pumsb-star": "pumsb_star",
}
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
_SOURCE = (
    "https://raw.githubusercontent.com/UCLA-StarAI/Density-Estimation-Datasets/master/datasets/"
)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three tables over the same variables."""

    name: str
    train: ByteArray  # (n_rows, n_vars) 0/1
    valid: ByteArray
    test: ByteArray
    feature_names: tuple[str, ...]

    @property
    def n_vars(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    def __repr__(self) -> str:
        rows = ", ".join(f"{split}={len(getattr(self, split))}" for split in SPLITS)
        return f"Dataset({self.name!r}, n_vars={self.n_vars}, {rows})"


def dataset_names() -> list[str]:
    """The names that `load_dataset` knows, without the paper's spellings of some of them.

    Examples
    --------
    >>> dataset_names()[:3], len(dataset_names())
    (['nltcs', 'msnbc', 'kdd'], 21)
    """
    return [*_BENCHMARKS, "digits"]


def load_dataset(name: str) -> Dataset:
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        One of `dataset_names`, or the paper's name of one (``audio``, ``netflix``, ``retail``,
        ``eachmovie``, ``webkb``, ``routers-52``, ``20news-grp``, ``pumsb-star``).

    Returns
    -------
    Dataset
        Looked up in ``$STRUDEL_DATA/debd/<name>.npz``, then in the user's cache (``$STRUDEL_CACHE``
        names another folder), then downloaded into it. ``digits`` needs no file and no network.

    Examples
    --------
    >>> load_dataset("digits")
    Dataset('digits', n_vars=64, train=1257, valid=180, test=360)
    """
    if name == "digits":
        return _digits()
    known = ALIASES.get(name, name)
    if known not in _BENCHMARKS:
        raise ValueError(unknown_dataset_message(name))
    for folder in search_folders():
        path = folder / "debd" / f"{known}.npz"
        if path.is_file():
            return _dataset(known, read_packed_splits(path))
    return _dataset(known, _download(known))


def unknown_dataset_message(name: str) -> str:
    """Say that there is no such dataset, and which names come close."""
    return f"There is no dataset {name!r}. {did_you_mean(name, [*dataset_names(), *ALIASES])}"


def search_folders() -> list[Path]:
    """Where benchmarks may be, in the order of the search; the last is the cache."""
    data = os.environ.get("STRUDEL_DATA")
    return [*([Path(data)] if data else []), _cache_folder()]


def place_of(name: str) -> str:
    """Where `load_dataset` would find a dataset, without loading it."""
    if name not in _BENCHMARKS:
        return "built in"
    *local, cache = search_folders()
    for folder, place in [*((folder, "local") for folder in local), (cache, "cached")]:
        if (folder / "debd" / f"{name}.npz").is_file():
            return place
    return "download needed"


def _cache_folder() -> Path:
    import pooch

    return Path(os.environ.get("STRUDEL_CACHE") or pooch.os_cache("strudel"))


def _dataset(name: str, splits: dict[str, ByteArray]) -> Dataset:
    names = names_of(splits["train"].shape[1], None)
    return Dataset(name, splits["train"], splits["valid"], splits["test"], names)


def _digits() -> Dataset:
    """The 8x8 images of scikit-learn, 1 where a pixel has at least half its ink."""
    from sklearn.datasets import load_digits

    table = (load_digits().data > 7).astype(np.uint8)
    shuffled = table[np.random.default_rng(0).permutation(len(table))]
    train, valid, test = np.split(shuffled, [1257, 1437])
    names = tuple(f"row{row}_col{col}" for row in range(8) for col in range(8))
    return Dataset("digits", train, valid, test, names)


def read_packed_splits(path: Path) -> dict[str, ByteArray]:
    """Read the packed `.npz` of a benchmark."""
    return unpack_splits(path.read_bytes(), str(path))


def unpack_splits(raw: bytes, label: str) -> dict[str, ByteArray]:
    """Read a packed `.npz` from memory; errors call it `label`."""
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            n_vars = int(archive["n_vars"])
            packed = {split: archive[split] for split in SPLITS}
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = f"an array is missing ({error})" if isinstance(error, KeyError) else error
        raise FileFormatError(_not_packed(label, reason)) from error
    for split, table in packed.items():
        if table.dtype != np.uint8 or table.ndim != 2 or table.shape[1] != -(-n_vars // 8):
            shape = f"{table.dtype} of shape {table.shape}"
            raise FileFormatError(_not_packed(label, f"{split!r} with {n_vars} columns is {shape}"))
    return {split: np.unpackbits(table, axis=1, count=n_vars) for split, table in packed.items()}


def _not_packed(label: str, reason: object) -> str:
    return f"{label} is not a packed dataset: {reason}. Delete it to have it downloaded again."


def _download(name: str) -> dict[str, ByteArray]:
    """Fetch the published csv files, check them, and keep them packed in the cache."""
    import pooch

    with tempfile.TemporaryDirectory() as folder, _quiet(pooch.get_logger()):
        fetcher = pooch.create(path=folder, base_url=_SOURCE, retry_if_failed=2)
        with resources.files("strudel.data").joinpath("checksums.txt").open() as registry:
            fetcher.load_registry(registry)
        downloader = pooch.HTTPDownloader(timeout=30, chunk_size=2**16)
        splits = {}
        for split in _with_progress(SPLITS, f"Downloading {name}"):
            file = f"{name}/{name}.{split}.data"
            try:
                raw = Path(fetcher.fetch(file, downloader=downloader)).read_bytes()
            except OSError as error:  # every exception of requests is one
                raise ConnectionError(_not_fetched(name, error)) from None
            except ValueError as error:
                raise FileFormatError(
                    f"The download of {file} does not match the published checksum. Try again."
                ) from error
            table = parse_zero_one_lines(raw)
            if table is None:
                raise FileFormatError(f"The download of {file} is not a csv of 0 and 1.")
            splits[split] = table
    try:
        write_packed_splits(_cache_folder() / "debd" / f"{name}.npz", splits)
    except OSError as error:
        _logger.warning("%s was downloaded but could not be kept: %s", name, error)
    return splits


def _not_fetched(name: str, error: OSError) -> str:
    reason = type(error).__name__
    return (
        f"Dataset {name!r} is not on this machine and could not be downloaded ({reason}). "
        f"Set STRUDEL_DATA to a folder that holds debd/{name}.npz, or use 'digits', "
        "which needs no network."
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep the downloader's own chatter off the terminal."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _with_progress(items: tuple[str, ...], title: str) -> Iterable[str]:
    """The items, with a progress bar on a terminal and nothing elsewhere."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, title, console=Console(stderr=True), transient=True)


def parse_zero_one_lines(raw: bytes, separator: bytes = b",") -> ByteArray | None:
    """Parse lines of single 0s and 1s with one separator between them; None for any other text.

    Every cell then lies at a fixed place, so nothing is tokenised: c20ng, 20 MB, in 11 ms.
    """
    if not raw.endswith(b"\n"):
        raw += b"\n"
    width = raw.index(b"\n") + 1
    if width % 2 or len(raw) % width:
        return None
    cells = np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)
    table = cells[:, ::2] - np.uint8(ord("0"))
    is_regular = np.all(cells[:, 1:-1:2] == ord(separator)) and np.all(cells[:, -1] == ord("\n"))
    return table if is_regular and table.max() <= 1 else None


def write_packed_splits(path: Path, splits: dict[str, ByteArray]) -> None:
    """Write a benchmark as one packed `.npz`, all of it or nothing."""
    packed: dict[str, Any] = {split: np.packbits(table, axis=1) for split, table in splits.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with complete_file(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, n_vars=splits["train"].shape[1], **packed)
