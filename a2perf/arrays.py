"""The array type of recorded numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]


def as_finite(values: Any) -> tuple[Values, int]:
    """Returns the finite values as a flat float64 array, and the number of other values."""
    array = np.asarray(values, dtype=np.float64).ravel()
    finite = np.isfinite(array)
    return array[finite], int(array.size - np.count_nonzero(finite))
