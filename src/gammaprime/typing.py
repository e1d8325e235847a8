"""Type aliases shared by the whole package."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""Array of NumPy, JAX or torch.

The three libraries share no type that a checker could verify.  Docstrings give the shapes.
"""

FloatArray: TypeAlias = NDArray[np.float64]
"""NumPy array of float64."""

Metrics: TypeAlias = dict[str, Array]
"""Named numbers that an update reports, such as ``{"loss/policy": 0.1}``."""

PyTree: TypeAlias = Any
"""Nested tuples, lists and dictionaries of arrays: parameters, gradients, optimiser states."""
