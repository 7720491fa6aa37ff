"""Model files, opened and changed as somebody would who knows the format."""

from pathlib import Path

from strudel.io.archive import START, Archive, write_archive


def opened(path):
    """The header and the arrays of a file."""
    archive = Archive(path)
    arrays = [archive.array(number) for number in range(len(archive.header["arrays"]))]
    return archive.header, arrays


def edit(path, change, *, seal=True):
    """Write a file again after `change(header, arrays)`; without `seal` its checksum stays."""
    path = Path(path)
    before = path.read_bytes()
    header, arrays = opened(path)
    change(header, arrays)
    write_archive(path, header, arrays)
    if not seal:
        after = path.read_bytes()
        path.write_bytes(before[: START.match(before).end()] + after[START.match(after).end() :])


def state_of(header, name):
    """The state of the last object of a class."""
    return next(one for one in header["objects"][::-1] if one["$of"] == name)


def set_number(name, part, index, value):
    """A change of one number in an array of an object."""

    def change(header, arrays):
        place = state_of(header, name)[part]["$array"]
        arrays[place] = arrays[place].copy()
        arrays[place][index] = value

    return change
