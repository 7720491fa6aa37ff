"""Names that are imported on first use, so that ``import strudel`` is quick.

In:  a package with an `__init__.pyi` of lines ``from .module import Name as Name``.
Out: its `__getattr__`, `__dir__` and `__all__`.

The stub is the only table of contents: type checkers read it, and so does this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def attach(
    package: str, path: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from its `__name__` and `__path__`."""
    module_of = read_contents(path[0])
    public = [name for name, module in module_of.items() if module]

    def get(name: str) -> Any:
        if name not in module_of:
            # With `name`, Python does not look for similar names itself and add them once more.
            raise AttributeError(_why_not(package, name, public), name=name)
        module = module_of[name]
        if not module:  # a package in the package
            return import_module(f"{package}.{name}")
        value = getattr(import_module(f"{package}.{module}"), name)
        setattr(import_module(package), name, value)
        return value

    return get, lambda: sorted(public), public


def read_contents(folder: str) -> dict[str, str]:
    """The module of every name in a package's stub; none for a package in it."""
    with open(os.path.join(folder, "__init__.pyi"), encoding="utf-8") as file:
        lines = file.read().split("from .")[1:]
    module_of = {}
    for line in lines:
        module, _, names = line.partition("import ")
        name = names.strip("( \n").split()[0]
        module_of[name] = module.strip()
    return module_of


def _why_not(package: str, name: str, public: list[str]) -> str:
    """Why there is no such name: where it is instead, or what may be meant."""
    reason = f"module {package!r} has no attribute {name!r}"
    if name.startswith("_"):  # asked for by tools, not by people
        return reason
    from strudel._names import did_you_mean

    root = import_module("strudel")
    for page, module in read_contents(root.__path__[0]).items():
        if not module and name in import_module(f"strudel.{page}").__all__:
            return f"{reason}, but 'strudel.{page}' does."
    return f"{reason}. {did_you_mean(name, public)}"
