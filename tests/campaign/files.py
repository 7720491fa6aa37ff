"""Hostile files: text files of other programs, model files and tables."""

from __future__ import annotations

import gzip
import io
import warnings

import numpy as np

import strudel
from campaign.agreement import check_model, need
from campaign.damage import damage, edit_model
from campaign.seeds import mixed_table, models, write_text_files
from makers import rows_of_kinds
from strudel.circuits.circuit import Circuit
from strudel.errors import NormalizedWarning
from strudel.io import read_table
from strudel.queries.given import circuit_of

REFUSED, ANSWER = "refused", "answer"


def check_refusal(error):
    """One line of at most 300 characters; returns how long it is."""
    text = str(error)
    need(text and "\n" not in text, f"a refusal that is not one line: {text[:200]!r}")
    need(len(text) <= 300, f"a refusal of {len(text)} characters: {text[:200]!r}")
    return len(text)


class TextFiles:
    """Damaged files of other programs."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "sound").mkdir()
        self.paths = write_text_files(folder / "sound")
        self.contents = [path.read_bytes() for path in self.paths]

    def case(self, rng):
        which = int(rng.integers(len(self.paths)))
        seed, content = self.paths[which], self.contents[which]
        if seed.name.endswith(".gz") and rng.random() < 0.7:
            content = gzip.compress(damage(gzip.decompress(content), self.contents, rng), 1)
        else:
            content = damage(content, self.contents, rng)
        path = self.folder / f"damaged{''.join(seed.suffixes)}"
        path.write_bytes(content)
        beside = seed.with_suffix(".vtree")
        vtree = beside if beside.exists() and rng.random() < 0.5 else None
        normalize = bool(rng.random() < 0.3)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", NormalizedWarning)
                model = strudel.read(path, vtree=vtree, normalize=normalize)
        except strudel.FileFormatError as error:
            return REFUSED, check_refusal(error)
        if isinstance(model, Circuit):
            if seed.suffix == ".psdd":
                n_vars = len(model.columns)
                need(n_vars >= most_variable(content), "fewer variables than the file")
            check_model(model, rng, asks=rng.random() < 0.1)
        return ANSWER, 0


def most_variable(content):
    """The largest variable that a `.psdd` file mentions."""
    words = [line.split() for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    found = [abs(int(w[3])) for w in words if w and w[0].upper() in (b"L", b"T") and len(w) > 3]
    return max(found, default=0)


class ModelFiles:
    """Edited `.strudel` files: bytes, or what they hold with a checksum that fits."""

    def __init__(self, folder):
        self.path = folder / "damaged.strudel"
        self.models = models()
        self.contents = []
        for name, model in self.models.items():
            strudel.save(model, folder / f"{name}.strudel")
            self.contents.append((folder / f"{name}.strudel").read_bytes())

    def case(self, rng):
        which = int(rng.integers(len(self.contents)))
        self.path.write_bytes(self.contents[which])
        is_sealed = rng.random() < 0.7
        if is_sealed:
            edit_model(self.path, rng)
        else:
            self.path.write_bytes(damage(self.contents[which], self.contents, rng))
        verify = bool(rng.random() < 0.5)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = strudel.load(self.path, verify=verify)
        except strudel.FileFormatError as error:
            return REFUSED, check_refusal(error)
        if verify and not is_sealed:
            original = list(self.models.values())[which]
            need(same_model(model, original), "a changed file was read")
        return ANSWER, 0


def same_model(model, other):
    """Whether two models have the same numbers."""
    a, b = circuit_of(model), circuit_of(other)
    names = ("leaf_log_p", "edge_log_theta", "log_weight")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


class Tables:
    """Damaged tables: csv, npy, npz, parquet and feather, packed or not."""

    def __init__(self, folder):
        self.folder = folder
        X = rows_of_kinds(n_rows=12, n_vars=4)
        frame = mixed_table(12)
        bits = "a,b,c,d\n" + "\n".join(",".join(map(str, row)) for row in X)
        self.files = {"a.csv": bits.encode(), "b.csv": frame.to_csv(index=False).encode()}
        self.files["a.tsv"] = self.files["b.csv"].replace(b",", b"\t")
        for name, save in (("a.npy", np.save), ("a.npz", np.savez_compressed)):
            content = io.BytesIO()
            save(content, X)
            self.files[name] = content.getvalue()
        try:
            content = io.BytesIO()
            frame.to_parquet(content)
            self.files["a.parquet"] = content.getvalue()
            content = io.BytesIO()
            frame.to_feather(content)
            self.files["a.feather"] = content.getvalue()
        except ImportError:
            pass
        self.files["c.csv.gz"] = gzip.compress(self.files["b.csv"])

    def case(self, rng):
        names = list(self.files)
        name = names[int(rng.integers(len(names)))]
        content = damage(self.files[name], list(self.files.values()), rng)
        path = self.folder / name
        path.write_bytes(content)
        try:
            table = read_table(path)
        except strudel.FileFormatError as error:
            return REFUSED, check_refusal(error)
        need(table.size > 0, "a table without cells")
        return ANSWER, 0
