"""What every experiment is told besides its dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    """How much an experiment may do. Results of other settings are not mixed."""

    seconds: float  # what its searches may take on one dataset, all together
    is_quick: bool = False  # fewer steps, sizes and repeats
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For a json."""
        return asdict(self)
