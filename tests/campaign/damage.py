"""Damage: random changes of the bytes, words and lines of a file, or of a model in it."""

from __future__ import annotations

import contextlib
import copy

import numpy as np

from model_files import edit

TOKENS = (
    b"0 1 -1 2 3 7 -0 00 1.5 -0.6931471805599453 1e999 -1e999 nan -inf Infinity -Infinity 1e-400 "
    b"0x10 1_0 2147483647 2147483648 1073741824 -2147483649 9223372036854775808 "
    b"L T D F I B S P O A C N c cc p cnf dnf % EOF v * + ( ) (2 2) (1 vtree psdd sdd nnf jpc jlc "
    b'\x00 \xff \xc3\xa9 \xef\xbb\xbf \x80\x04 , ; " ? true 2024-01-31 1e308 =1+1 \xed\xa0\x80'
).split(b" ")
VALUES = [None, True, 0, -1, 2**31, 2**63, 10**30, 0.5, -1e308, float("nan"), "", "a" * 5000]
VALUES += ["\ud800", [], {}, [1, 2], {"a": 1}]
NUMBERS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e-320, 2.0, -745.0, 1e-6]


def damage(content, others, rng):
    """One to four changes."""
    for _ in range(int(rng.integers(1, 5))):
        content = CHANGES[int(rng.integers(len(CHANGES)))](content, others, rng)
    return content


def change_byte(content, others, rng):
    at = int(rng.integers(len(content) + 1))
    return content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]


def cut_span(content, others, rng):
    at = int(rng.integers(len(content) + 1))
    return content[:at] + content[at + int(rng.geometric(0.1)) :]


def truncate(content, others, rng):
    return content[: int(rng.integers(len(content) + 1))] if rng.random() < 0.2 else content


def change_token(content, others, rng):
    """Replace a word by another of the file, by a neighbouring number or by a nasty one."""
    spaces = np.flatnonzero(np.isin(np.frombuffer(content, dtype=np.uint8), (32, 10, 44)))
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


def change_lines(content, others, rng):
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


def edit_model(path, rng):
    """Change entries of the header or arrays, as somebody would who knows the format."""

    def change(header, arrays):
        for _ in range(int(rng.integers(1, 4))):
            if not arrays or rng.random() < 0.5:
                edit_json(header["objects"], rng)
            else:
                place = int(rng.integers(len(arrays)))
                arrays[place] = edit_array(arrays[place], rng)

    edit(path, change, seal=bool(rng.random() < 0.9))


def edit_json(value, rng):
    """Replace, remove or repeat one entry, somewhere inside."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(value[key], dict | list) and rng.random() < 0.7:
            value = value[key]
            continue
        if rng.random() < 0.2:
            del value[key]
        elif isinstance(value[key], int | float) and rng.random() < 0.5:
            value[key] += int(rng.integers(-2, 3))
        else:
            value[key] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
        return


def edit_array(array, rng):
    """Change a number or the length of an array."""
    how = rng.random()
    if how < 0.1 and array.ndim:
        return array[: int(rng.integers(len(array) + 1))]
    if array.size:
        array, at = array.copy(), int(rng.integers(array.size))
        if array.dtype.kind == "f":
            array.flat[at] = NUMBERS[int(rng.integers(len(NUMBERS)))]
        elif array.dtype.kind == "b":
            array.flat[at] = not array.flat[at]
        else:
            array.flat[at] += array.dtype.type(rng.integers(4))
    return array
