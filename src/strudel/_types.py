"""Names for the array types that every file shares."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

WordArray: TypeAlias = NDArray[np.uint64]  # 64 bits to a word
IntArray: TypeAlias = NDArray[np.int32]  # indices
CountArray: TypeAlias = NDArray[np.float64]  # exact sums of row weights, see data/bits.py
FloatArray: TypeAlias = NDArray[np.float64]  # natural logs and probabilities
ByteArray: TypeAlias = NDArray[np.uint8]  # 0/1 tables
AnyArray: TypeAlias = NDArray[Any]

NONE: Final = -1  # "no such node, edge or variable" in an index array
