"""Finite MDPs, the chain of a policy, and the checks of what callers pass in.

Everything is float64.  A transition kernel is a dense (X, A, X) array or A sparse (X, X)
matrices; a chain is a dense or a sparse (X, X) matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gammaprime.typing import FloatArray

Sparse: TypeAlias = Any
"""A ``scipy.sparse.csr_array`` (SciPy ships no types)."""
Chain: TypeAlias = FloatArray | Sparse

ROW_SUM_TOLERANCE = 1e-8
"""Largest error of the sum of a row, whatever the discount."""

VALUE_TOLERANCE = 1e-6
"""Largest relative error of a value that rows which do not sum to 1 may cause."""


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite MDP with mean rewards r(x, a) and transitions p(y | x, a).

    Shapes: transition (X, A, X), or a list of A sparse (X, X); reward (X, A).
    """

    transition: FloatArray | tuple[Sparse, ...]
    """p(y | x, a); rows must sum to 1, how exactly depends on the discount: see `as_chain`."""
    reward: FloatArray
    """r(x, a), the mean rewards."""

    def __init__(self, transition: Any, reward: ArrayLike) -> None:
        kernel = _as_kernel(transition)
        if isinstance(kernel, tuple):
            shape = (kernel[0].shape[0], len(kernel))
        else:
            shape = (kernel.shape[0], kernel.shape[1])
        object.__setattr__(self, "transition", kernel)
        object.__setattr__(self, "reward", as_finite("reward", reward, shape))

    @property
    def num_states(self) -> int:
        return int(self.reward.shape[0])

    @property
    def num_actions(self) -> int:
        return int(self.reward.shape[1])

    def expect(self, V: FloatArray) -> FloatArray:
        """Return E[V(y) | x, a], one step ahead.  Shapes: (X,) -> (X, A)."""
        if isinstance(self.transition, tuple):
            return np.stack([P_a @ V for P_a in self.transition], axis=1)
        return self.transition @ V


def random_mdp(
    num_states: int, num_actions: int, concentration: float, rng: np.random.Generator
) -> MDP:
    """Draw an MDP of the paper's toy family: Dirichlet transitions, Uniform(0, 1) mean rewards.

    A Dirichlet row is a normalised row of Gamma(α) draws.  They are drawn as logarithms,
    log Gamma(α) = log Gamma(α+1) + log(U)/α, so that α = 0.01 cannot underflow to 0/0.

    Args:
        num_states: The number of states X.
        num_actions: The number of actions A.
        concentration: α; small values give transitions that are nearly deterministic.
        rng: NumPy's generator.

    Returns:
        The MDP.

    Example:
        >>> mdp = random_mdp(4, 2, concentration=0.1, rng=np.random.default_rng(0))
        >>> mdp.num_states, mdp.num_actions
        (4, 2)

    Paper: fig:errors.
    """
    if num_states < 1 or num_actions < 1:
        raise ValueError(
            f"num_states={num_states!r}, num_actions={num_actions!r}: must both be at least 1"
        )
    if not (np.isfinite(concentration) and concentration > 0):
        raise ValueError(f"concentration={concentration!r}: must be positive and finite")
    shape = (num_states, num_actions, num_states)
    uniform = 1.0 - rng.random(shape)  # in (0, 1]
    log_gamma = np.log(rng.gamma(concentration + 1.0, size=shape)) + np.log(uniform) / concentration
    weight = np.exp(log_gamma - log_gamma.max(axis=-1, keepdims=True))
    return MDP(weight / weight.sum(axis=-1, keepdims=True), rng.random(shape[:2]))


def chain(mdp: MDP, policy: ArrayLike) -> tuple[Chain, FloatArray]:
    """Return the chain of a policy and its mean rewards.

        P^π(x, y) = Σ_a π(a|x) p(y|x, a),   r^π(x) = Σ_a π(a|x) r(x, a)

    Args:
        mdp: The MDP.
        policy: π(a|x); each row is a distribution over actions.

    Returns:
        P and r.  P is sparse where the MDP is.

    Example:
        >>> mdp = MDP([[[0, 1], [1, 0]], [[0, 1], [0, 1]]], reward=[[1, 3], [0, 0]])
        >>> P, r = chain(mdp, [[0.5, 0.5], [1.0, 0.0]])
        >>> P.tolist(), r.tolist()
        ([[0.5, 0.5], [0.0, 1.0]], [2.0, 0.0])

    Paper: eq:primal-lp, eq:primal-bellman.
    Shapes: policy (X, A) -> P (X, X), r (X,).
    """
    pi = as_rows("policy", policy, mdp.reward.shape)
    r = (pi * mdp.reward).sum(axis=1)
    if isinstance(mdp.transition, tuple):
        P = sum(sp.diags_array(pi[:, a]) @ P_a for a, P_a in enumerate(mdp.transition))
        return sp.csr_array(P), r
    return np.einsum("xa,xay->xy", pi, mdp.transition), r


def as_chain(P: Any, discount: float) -> Chain:
    """Return P as float64, dense or CSR, if it is square with rows that are distributions.

    A row whose sum is off by e changes values by up to e/(1−γ) of themselves.  Rows within
    VALUE_TOLERANCE of that, or within rounding errors, are divided by their sums; others are
    refused.
    """
    matrix = _as_square(P)
    rounding = np.finfo(np.float64).eps * max(64.0, math.sqrt(matrix.shape[0]))
    tolerance = max(rounding, min(ROW_SUM_TOLERANCE, VALUE_TOLERANCE * (1.0 - discount)))
    sums = _check_rows("P", matrix, tolerance, f" at discount {discount!r}")
    if (sums == 1.0).all():
        return matrix
    return (
        sp.csr_array(sp.diags_array(1.0 / sums) @ matrix)
        if sp.issparse(P)
        else matrix / sums[:, None]
    )


def _as_square(P: Any) -> Chain:
    matrix = sp.csr_array(P, dtype=np.float64) if sp.issparse(P) else _as_float64("P", P)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"P has shape {matrix.shape}: must be square (X, X) with X >= 1")
    return matrix


def as_finite(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return the array as float64, if it has this shape and is finite."""
    array = _as_float64(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}: must be {shape}")
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}{list(at)}={array[at]}: must be finite")
    return array


def as_rows(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return the array as float64, if it has this shape and its rows are distributions."""
    array = as_finite(name, value, shape)
    sums = _check_rows(name, array, ROW_SUM_TOLERANCE)
    return array / sums.reshape((*array.shape[:-1], 1))


def as_start(start: int | ArrayLike, num_states: int) -> FloatArray:
    """Return the start as a distribution over states, from a state's index or a distribution."""
    if isinstance(start, int | np.integer) and not isinstance(start, bool):
        if not 0 <= start < num_states:
            raise ValueError(f"start={start!r}: must be a state, 0 to {num_states - 1}")
        return np.eye(1, num_states, int(start))[0]
    if np.ndim(start) == 0:
        raise ValueError(f"start={start!r}: must be a state's index or a distribution over states")
    return as_rows("start", start, (num_states,))


def _as_kernel(transition: Any) -> FloatArray | tuple[Sparse, ...]:
    if isinstance(transition, Sequence) and any(sp.issparse(P_a) for P_a in transition):
        matrices = tuple(_as_square(P_a) for P_a in transition)
        for P_a in matrices:
            _check_rows("P", P_a, ROW_SUM_TOLERANCE)
        if len({P_a.shape for P_a in matrices}) > 1:
            shapes = [P_a.shape for P_a in matrices]
            raise ValueError(f"transition holds shapes {shapes}: must all be one (X, X)")
        return tuple(sp.csr_array(P_a) for P_a in matrices)
    array = _as_float64("transition", transition)
    if array.ndim != 3 or array.shape[0] != array.shape[2] or 0 in array.shape:
        raise ValueError(f"transition has shape {array.shape}: must be (X, A, X)")
    _check_rows("transition", array, ROW_SUM_TOLERANCE)
    return array


def _check_rows(name: str, array: Chain, tolerance: float, where: str = "") -> FloatArray:
    """Return the sums of the rows, if they are distributions.  A NaN fails the sum too."""
    entries: Any = array.data if sp.issparse(array) else array
    if entries.size and entries.min() < 0:
        raise ValueError(f"{name} has the entry {entries.min()}: must not be negative")
    sums = np.atleast_1d(np.asarray(array.sum(axis=-1)))
    wrong = ~(np.abs(sums - 1.0) <= tolerance)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        row = list(at) if np.ndim(array) > 1 else ""
        raise ValueError(
            f"{name}{row} sums to {sums[at]}: must sum to 1 within {tolerance:.0e}{where}"
        )
    return sums


def _as_float64(name: str, value: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} of type {type(value).__name__}: must be a real array") from None
