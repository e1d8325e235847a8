"""The exact room against SciPy, and against the clock and the memory of one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Contender, Contest, Limit, Measurement, Run

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp

GAMMA, GAMMA_PRIME = 0.9, 0.99
DENSE_STATES, DENSE_ORDER = 2_000, 50
SPARSE_STATES, SUCCESSORS, SPARSE_ORDER = 1_000_000, 5, 10


def expand_dense() -> Run:
    from gammaprime import tabular

    P, r = _dense_chain()
    return lambda: tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, DENSE_ORDER)


def solve_dense() -> Run:
    import numpy as np
    import scipy.linalg

    P, r = _dense_chain()
    A = np.eye(DENSE_STATES) - GAMMA * P
    return lambda: scipy.linalg.solve(A, r)


def _dense_chain() -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(DENSE_STATES), size=DENSE_STATES), rng.random(DENSE_STATES)


def expand_sparse() -> Callable[[], dict[str, float]]:
    import numpy as np

    from gammaprime import tabular

    P, r = _sparse_chain()
    known: list[Any] = []

    def measure() -> dict[str, float]:
        start = time.perf_counter()
        value = tabular.expand_value(P, r, GAMMA, GAMMA_PRIME, SPARSE_ORDER)
        seconds, peak = time.perf_counter() - start, _peak_gib()
        if not known:  # after the first peak has been read: the sum needs memory too
            known.append(sum_of_rewards(P, r, GAMMA, GAMMA_PRIME, SPARSE_ORDER))
        error = float(np.max(np.abs(value / known[0] - 1.0)))
        return {"seconds": seconds, "peak GiB": peak, "relative error": error}

    return measure


def sum_of_rewards(
    P: sp.csr_array, r: np.ndarray, gamma: float, gamma_prime: float, order: int
) -> np.ndarray:
    """V_K = Σ_t w_K(t) Pᵗ r, added up step by step: no system is solved.

    The weights follow w_K(t+1) = γ w_K(t) + δ w_{K−1}(t) and have the total mass
    Σ_{k≤K} c^k / (1−γ), so what is still to come is known: at most 1e-11 of it is left out.
    """
    import numpy as np

    delta = gamma_prime - gamma
    mass = sum((delta / (1.0 - gamma)) ** k for k in range(order + 1)) / (1.0 - gamma)
    weights = np.ones(order + 1)
    total, reward, added = np.zeros_like(r), r, 0.0
    while mass - added > 1e-11 * mass:
        total += weights[order] * reward
        added += weights[order]
        reward = P @ reward
        weights = gamma * weights + delta * np.append(0.0, weights[:-1])
    return total


def _sparse_chain() -> tuple[sp.csr_array, np.ndarray]:
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    size, entries = SPARSE_STATES, SPARSE_STATES * SUCCESSORS
    successors = rng.integers(size, size=entries, dtype=np.int32)
    probability = rng.random((size, SUCCESSORS))
    probability /= probability.sum(axis=1, keepdims=True)
    starts = np.arange(0, entries + 1, SUCCESSORS, dtype=np.int32)
    P = sp.csr_array((probability.ravel(), successors, starts), shape=(size, size))
    return P, rng.random(size)


def _peak_gib() -> float:
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20


CONTESTS = (
    Contest(
        "tabular-dense",
        "2,000 states, order 50: at most 1.6 times one scipy.linalg.solve",
        (Contender("expand_value", expand_dense), Contender("solve", solve_dense)),
        (Limit("expand_value", "solve", 1.6),),
    ),
    Measurement(
        "tabular-sparse",
        "1,000,000 states, 5 successors each, order 10: under 120 s and 2 GiB, right to 1e-6",
        expand_sparse,
        {"seconds": 120.0, "peak GiB": 2.0, "relative error": 1e-6},
    ),
)
