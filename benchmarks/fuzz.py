"""Damage circuit files at random and read them: an answer or FileFormatError, nothing else.

STRUDEL_DATA=... python benchmarks/fuzz.py [--mutations 100000] [--seed 0] [--max-bytes 40000]

Every file of `$STRUDEL_DATA/circuits` up to a size is damaged in turn, and the same circuits
written in the formats that have no file there. Small files get more turns than large ones. Fails,
with the number of the turn and the damaged file kept, on any other exception, after `--seconds` for
one file, or when the process has held more than `--megabytes`.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import strudel
from strudel.io.formats.text import bare_suffix
from strudel.io.read_write import FORMATS
from strudel.logic.sdd import nnf_from_sdd

TOKENS = (
    b"0 1 -1 2 3 7 -0 00 1.5 -0.6931471805599453 1e999 -1e999 nan -inf Infinity -Infinity 1e-400 "
    b"0x10 1_0 2147483647 2147483648 1073741824 -2147483649 9223372036854775808 "
    b"L T D F I B S P O A C N c cc p cnf dnf % EOF v * + ( ) (2 2) (1 vtree psdd sdd nnf jpc jlc "
    b"\x00 \xff \xc3\xa9 \xef\xbb\xbf \x80\x04"
).split(b" ")
D4 = b"o 1 0\na 2 0\nt 3 0\no 4 0\nf 5 0\n1 2 1 -2 0\n1 4 -1 0\n2 3 3 0\n4 3 2 -3 0\n4 5 0\n"


class TooLong(BaseException):
    """Not an Exception, so that no reader catches it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-bytes", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--even", action="store_true", help="as many turns for large files")
    parser.add_argument("--only", help="one extension, e.g. .psdd")
    args = parser.parse_args()
    folder = Path(os.environ.get("STRUDEL_DATA", "")) / "circuits"
    if not folder.is_dir():
        sys.exit("set STRUDEL_DATA to the folder that holds circuits/")
    signal.signal(signal.SIGALRM, _stop)
    memory = Path("/dev/shm")  # writing a file to a disk takes longer than reading it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as work:
        seeds = collect(folder, Path(work), args.max_bytes, args.only)
        run(seeds, Path(work), args)


def _stop(*_: object) -> None:
    raise TooLong


def collect(folder: Path, work: Path, max_bytes: int, only: str | None) -> list[Path]:
    """The files to damage, each with its vtree beside it if it has one."""
    for path in sorted(folder.rglob("*")):
        if bare_suffix(path) in FORMATS and path.stat().st_size <= max_bytes:
            (work / path.parent.name).mkdir(exist_ok=True)
            (work / path.parent.name / path.name).write_bytes(path.read_bytes())
    for path in sorted(work.rglob("*.psdd"))[::3]:
        circuit = strudel.read(path)
        for ending in (".jpc", ".spn"):
            strudel.write(circuit, path.with_suffix(ending))
    for path in sorted(work.rglob("*.sdd")):
        nnf = nnf_from_sdd(strudel.read(path))
        strudel.write(nnf, path.with_suffix(".nnf"))
        with contextlib.suppress(ValueError):  # not all variables are mentioned
            strudel.write(nnf, path.with_suffix(".jlc"))
    (work / "d4.nnf").write_bytes(D4)
    for path in sorted(work.rglob("simple*.psdd")):
        path.with_suffix(".psdd.gz").write_bytes(gzip.compress(path.read_bytes()))
    paths = [path for path in sorted(work.rglob("*")) if path.is_file()]
    return [path for path in paths if only is None or bare_suffix(path) == only]


def run(seeds: list[Path], work: Path, args: argparse.Namespace) -> None:
    contents = [path.read_bytes() for path in seeds]
    chance = np.array([1 / (1000 + (not args.even) * len(content)) for content in contents])
    turns = np.random.default_rng(args.seed).choice(
        len(seeds), size=args.mutations, p=chance / chance.sum()
    )
    outcome: dict[str, Counter[str]] = {}
    slowest, began, n_bytes = 0.0, time.perf_counter(), 0
    for turn, which in enumerate(turns):
        rng = np.random.default_rng([args.seed, turn])
        content = damage(contents[which], contents, rng)
        n_bytes += len(content)
        path = work / f"damaged{''.join(seeds[which].suffixes[-2:])}"
        if bare_suffix(path) not in FORMATS:
            path = work / f"damaged{seeds[which].suffix}"
        path.write_bytes(content)
        start = time.perf_counter()
        result = read(path, vtree_for(seeds[which], rng), args.seconds)
        slowest = max(slowest, time.perf_counter() - start)
        outcome.setdefault(bare_suffix(path), Counter())[result] += 1
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if result not in ("answer", "refused") or megabytes > args.megabytes:
            kept = Path(tempfile.gettempdir()) / f"fuzz_{args.seed}_{turn}{path.suffix}"
            shutil.copy(path, kept)
            sys.exit(f"turn {turn}, {seeds[which].name}: {result}, {megabytes} MB; see {kept}")
        if (turn + 1) % 20_000 == 0:
            took = time.perf_counter() - began
            print(
                f"{turn + 1} in {took:.0f} s, peak {megabytes} MB, slowest {slowest:.2f} s",
                flush=True,
            )
    took = time.perf_counter() - began
    print(f"{'format':10}{'answers':>10}{'refused':>10}")
    for ending, counts in sorted(outcome.items()):
        print(f"{ending:10}{counts['answer']:>10}{counts['refused']:>10}")
    total = sum(outcome.values(), Counter())
    print(f"{'all':10}{total['answer']:>10}{total['refused']:>10}")
    print(
        f"seed {args.seed}: {args.mutations} mutations, {n_bytes / 1e6:.0f} MB in {took:.0f} s; "
        f"peak {megabytes} MB, slowest {slowest:.2f} s"
    )


def vtree_for(seed: Path, rng: np.random.Generator) -> Path | None:
    """Now and then the vtree that belongs to a file, undamaged."""
    beside = seed.with_suffix(".vtree")
    needs_it = seed.suffix in (".sdd", ".psdd", ".jpc", ".spn", ".circuit")
    return beside if needs_it and beside.exists() and rng.random() < 0.5 else None


def read(path: Path, vtree: Path | None, seconds: float) -> str:
    """What came of reading a file, in a word or two."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        model = strudel.read(path, vtree=vtree, normalize=path.stat().st_size % 2 == 0)
        if isinstance(model, strudel.Circuit) and not model.is_in_normal_form:
            return "a circuit in no normal form"
        return "answer"
    except strudel.FileFormatError as error:
        return "refused" if str(error) else "a FileFormatError without words"
    except TooLong:
        return f"more than {seconds} s"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def damage(content: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    """One to four changes."""
    for _ in range(int(rng.integers(1, 5))):
        content = CHANGES[int(rng.integers(len(CHANGES)))](content, others, rng)
    return content


def change_byte(content: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]


def cut_span(content: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + content[at + int(rng.geometric(0.1)) :]


def truncate(content: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(len(content) + 1))] if rng.random() < 0.2 else content


def change_token(content: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    """Replace a word by another of the file, by a neighbouring number or by a nasty one."""
    spaces = np.flatnonzero(np.isin(np.frombuffer(content, dtype=np.uint8), (32, 10)))
    if len(spaces) < 2:
        return content + b" " + TOKENS[int(rng.integers(len(TOKENS)))]
    at = int(rng.integers(len(spaces) - 1))
    start, stop = int(spaces[at]) + 1, int(spaces[at + 1])
    how = rng.random()
    token = TOKENS[int(rng.integers(len(TOKENS)))]
    if how < 0.4:
        other = int(rng.integers(len(spaces) - 1))
        token = content[int(spaces[other]) + 1 : int(spaces[other + 1])]
    elif how < 0.7:
        with contextlib.suppress(ValueError):
            token = str(int(content[start:stop]) + int(rng.integers(-2, 3))).encode()
    return content[:start] + token + content[stop:]


def change_lines(content: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    """Swap, drop or repeat lines, or take one from another file."""
    lines = content.split(b"\n")
    a, b = (int(rng.integers(len(lines))) for _ in range(2))
    how = int(rng.integers(4))
    if how == 0:
        lines[a], lines[b] = lines[b], lines[a]
    elif how == 1:
        del lines[a]
    elif how == 2:
        lines.insert(b, lines[a])
    else:
        other = others[int(rng.integers(len(others)))].split(b"\n")
        lines.insert(a, other[int(rng.integers(len(other)))])
    return b"\n".join(lines)


CHANGES = (change_byte, cut_span, truncate, change_token, change_token, change_token, change_lines)

if __name__ == "__main__":
    main()
