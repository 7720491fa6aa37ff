"""Modules of optional packages are not imported for their examples where the package is absent."""

from importlib.util import find_spec

NEEDS = {"torch": ("module", "passes"), "triton": ("triton_passes",)}

collect_ignore = [
    f"src/strudel/layers/{name}.py"
    for package, names in NEEDS.items()
    if find_spec(package) is None
    for name in names
]
