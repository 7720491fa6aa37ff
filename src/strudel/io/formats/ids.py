"""Ids of nodes in a file: labels in any order, each defined once and before it is used."""

from __future__ import annotations

from collections.abc import Iterable

from strudel.io.formats.text import TextFile, show


class Ids:
    """The number of every id defined so far."""

    def __init__(self, file: TextFile) -> None:
        self.file = file
        self.number: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.number)

    def define(self, token: bytes, line: int, number: int | None = None) -> int:
        """Give a new id a number, the next one by default."""
        name = self.file.whole(token, line, "an id")
        if name in self.number:
            self.file.refuse(f"id {name} is used for two nodes", line)
        self.number[name] = len(self.number) if number is None else number
        return self.number[name]

    def find(self, tokens: Iterable[bytes], line: int) -> list[int]:
        """The numbers of ids that were defined before."""
        numbers = []
        for token in tokens:
            found = self.number.get(self.file.whole(token, line, "a child"))
            if found is None:
                self.file.refuse(f"child {show(token)} is not the id of an earlier node", line)
            numbers.append(found)
        return numbers
