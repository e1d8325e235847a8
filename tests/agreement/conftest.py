"""Two small chains on which the two rooms must agree: one that goes on, one that ends."""

import numpy as np
import pytest


@pytest.fixture
def ongoing():
    """Three states, for ever.  (P, r)."""
    P = np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.0, 0.7, 0.3]])
    return P, np.array([1.0, -0.5, 2.0])


@pytest.fixture
def ending():
    """Three states and a grave: one step in five, four or three is the last.  (P, r)."""
    P = np.array(
        [
            [0.2, 0.4, 0.2, 0.2],
            [0.5, 0.0, 0.25, 0.25],
            [0.1, 0.3, 0.3, 0.3],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    return P, np.array([1.0, -0.5, 2.0, 0.0])
