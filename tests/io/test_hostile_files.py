"""Files made to hurt: an answer or FileFormatError, quickly and in little memory."""

import contextlib
import gzip
import math
import random
import tracemalloc

import pytest

from strudel import FileFormatError, read, write
from strudel.circuits.compile import figure_1_circuit
from strudel.trees.vtree import balanced_vtree, linear_vtree

HALF = math.log(0.5)
DEEP = 20_000


def outcome(path):
    """What a file holds, or None if it is refused; any other exception goes through."""
    with contextlib.suppress(FileFormatError):
        return read(path)


def test_a_vtree_deeper_than_the_stack(tmp_path):
    lines = ["vtree 1", "L 0 1"]
    for k in range(1, DEEP):
        lines += [f"L {2 * k} {k + 1}", f"I {2 * k + 1} {2 * k - 1 if k > 1 else 0} {2 * k}"]
    (tmp_path / "a.vtree").write_text("\n".join(lines))
    assert read(tmp_path / "a.vtree").depth == DEEP - 1


def test_sums_of_sums_that_would_double_for_ever(tmp_path):
    lines = ["jpc 402", "L 0 0 1", "L 1 0 -1"]
    for k in range(2, 402, 2):
        lines += [f"S {k + j} 0 2 {k - 2} {HALF} {k - 1} {HALF}" for j in range(2)]
    (tmp_path / "a.jpc").write_text("\n".join(lines))
    assert len(read(tmp_path / "a.jpc").columns) == 1


def test_a_long_chain_of_sums_is_not_copied_into_each(tmp_path):
    lines = ["(2)", "v 0 0", "v 0 1", f"+ 0 {HALF} 1 {HALF}"]
    lines += [f"+ {k} {HALF} 0 {HALF}" for k in range(2, 5000)]
    (tmp_path / "a.spn").write_text("\n".join([*lines, "EOF"]))
    assert len(read(tmp_path / "a.spn").columns) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.vtree", "vtree 999999999999\nL 0 999999999\n"),
        ("a.psdd", "psdd 1\nL 0 0 1000000000\n"),
        ("a.psdd", "psdd 1\nT 0 0 1073741823 -1\n"),
        ("a.psdd", f"psdd 1\nL {'9' * 5000} 0 1\n"),
        ("a.psdd", "psdd 1\nD 0 0 99999999999999999999 1 2 0\n"),
        ("a.jpc", "jpc 1\nL 0 0 1000000000\n"),
        ("a.spn", "(2 2)\nv 99999999999 1\nEOF\n"),
        ("a.sdd", "sdd 1\nL 0 0 1000000000\n"),
        ("a.nnf", "nnf 99999999999 1 1\nL 1\n"),
        ("a.cnf", "p cnf 99999999999999 1\n1 0\n"),
        ("a.clt", "1000000000\n1\n1 0.5\n"),
        ("a.glc", "Logistic Circuit\nT 0 0 1000000000 1\nB 1\n"),
        ("a.psdd", b"\x00\xff\xfe" * 1000),
        ("a.psdd", b"c feature_names " + b"[" * 100_000 + b"\npsdd 1\nT 0 0 1 -0.5\n"),
    ],
)
def test_claims_of_great_size_cost_nothing(tmp_path, name, text):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    tracemalloc.start()
    outcome(tmp_path / name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_a_small_file_that_unpacks_to_a_large_one(tmp_path, monkeypatch):
    monkeypatch.setattr("strudel.io.formats.text.MAX_UNPACKED", 2**20)
    (tmp_path / "a.psdd.gz").write_bytes(gzip.compress(b" " * 2**22))
    with pytest.raises(FileFormatError, match="holds more than 1 MB of text"):
        read(tmp_path / "a.psdd.gz")


def test_damaged_files_give_an_answer_or_an_error_of_ours(tmp_path):
    """The fuzz benchmark in small: a few hundred changes of words in files written here."""
    for name in ("a.psdd", "a.jpc", "a.spn"):
        write(figure_1_circuit(), tmp_path / name)
    for name, vtree in (("a.vtree", linear_vtree(4)), ("b.vtree", balanced_vtree(4))):
        write(vtree, tmp_path / name)
    (tmp_path / "a.sdd").write_text("sdd 5\nL 0 0 1\nL 1 0 -1\nL 2 2 2\nF 3\nD 4 1 2 0 2 1 3\n")
    (tmp_path / "a.cnf").write_text("p cnf 3 2\n1 -2 0\n2 3 0\n")
    (tmp_path / "a.nnf").write_text("nnf 5 4 2\nL 1\nL -1\nL 2\nA 2 0 2\nO 1 2 3 1\n")
    (tmp_path / "a.clt").write_text("3\n1\n2 0.5\n1 2 0.9 0.2\n3 1 0.4 0.7\n")
    rng = random.Random(0)
    answers = 0
    for path in sorted(tmp_path.iterdir()):
        words = path.read_text().replace("\n", " \n ").split(" ")
        nasty = [*set(words), "-1", "nan", "1e999", "-inf", "99999999999999999999", "", "\x00"]
        for _ in range(60):
            changed = list(words)
            for _ in range(rng.randint(1, 3)):
                changed[rng.randrange(len(words))] = rng.choice(nasty)
            path.write_text(" ".join(changed).replace(" \n ", "\n"))
            answers += outcome(path) is not None
    assert answers > 20
