"""The device that torch computes on, by its name; torch is loaded only when it is asked for.

In:  "cpu", "cuda", "cuda:1" or "auto".
Out: a `torch.device`, or None for the CPU, which needs no torch.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

from strudel.errors import MissingDependencyError


def find_device(name: Any) -> Any:
    """The `torch.device` of a name; None for "cpu", and for "auto" where there is no CUDA.

    A `torch.device` itself is taken as it is.

    Examples
    --------
    >>> find_device("cpu") is None
    True
    >>> find_device("gpu")
    Traceback (most recent call last):
    ...
    ValueError: device must be 'cpu', 'cuda', 'cuda:1' or alike, or 'auto', but is 'gpu'.
    """
    if type(name).__module__ == "torch":
        return name
    if not isinstance(name, str) or not re.fullmatch(r"cpu|auto|cuda(:\d+)?", name):
        raise ValueError(
            f"device must be 'cpu', 'cuda', 'cuda:1' or alike, or 'auto', but is {name!r}."
        )
    if name == "cpu" or (name == "auto" and not has_torch()):
        return None
    need_torch(f"device={name!r}")
    import torch  # late: most people do not need it

    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda") if n_devices else None
    device = torch.device(name)
    if (device.index or 0) >= n_devices:
        found = "no CUDA device" if n_devices == 0 else f"only {n_devices} CUDA devices"
        raise ValueError(
            f"device is {name!r}, but PyTorch finds {found}: use device='cpu', or 'auto'."
        )
    return device


def has_torch() -> bool:
    """Whether torch is installed; it is not loaded."""
    return find_spec("torch") is not None


def need_torch(what: str) -> None:
    """Refuse what needs torch where it is not installed."""
    if not has_torch():
        raise MissingDependencyError(f"{what} needs PyTorch: pip install 'strudel-pc[torch]'.")
