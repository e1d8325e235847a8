"""Finite MDPs, the chain a policy makes of them, and the checks at the door of this room.

Everything is float64.  A transition kernel is a dense (X, A, X) array or A sparse (X, X)
matrices; a chain is a dense or a sparse (X, X) matrix.
"""

from __future__ import annotations

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


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite MDP with mean rewards r(x, a) and transitions p(y | x, a).

    Shapes: transition (X, A, X), or a list of A sparse (X, X); reward (X, A).
    """

    transition: FloatArray | tuple[Sparse, ...]
    reward: FloatArray

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
        """E[V(y) | x, a], one step ahead.  Shapes: (X,) -> (X, A)."""
        if isinstance(self.transition, tuple):
            return np.stack([P_a @ V for P_a in self.transition], axis=1)
        return self.transition @ V


def random_mdp(
    num_states: int, num_actions: int, concentration: float, rng: np.random.Generator
) -> MDP:
    """Dirichlet transitions and Uniform(0, 1) mean rewards: the paper's toy family.

    A Dirichlet row is a normalised row of Gamma(α) draws.  They are drawn as logarithms,
    log Gamma(α) = log Gamma(α+1) + log(U)/α, so that α = 0.01 cannot underflow to 0/0.

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
    """P^π(x, y) = Σ_a π(a|x) p(y|x, a) and r^π(x) = Σ_a π(a|x) r(x, a).

    Paper: eq:primal-lp, eq:primal-bellman.
    Shapes: policy (X, A) -> P (X, X), sparse where the MDP is; r (X,).
    """
    pi = as_rows("policy", policy, mdp.reward.shape)
    r = (pi * mdp.reward).sum(axis=1)
    if isinstance(mdp.transition, tuple):
        P = sum(sp.diags_array(pi[:, a]) @ P_a for a, P_a in enumerate(mdp.transition))
        return sp.csr_array(P), r
    return np.einsum("xa,xay->xy", pi, mdp.transition), r


def as_chain(P: Any) -> Chain:
    """P as float64, dense or CSR, if it is square with rows that are distributions."""
    matrix = sp.csr_array(P, dtype=np.float64) if sp.issparse(P) else _as_float64("P", P)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"P has shape {matrix.shape}: must be square (X, X) with X >= 1")
    _check_rows("P", matrix)
    return matrix


def as_finite(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """The array as float64, if it has this shape and no NaN or infinity."""
    array = _as_float64(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}: must be {shape}")
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}{list(at)}={array[at]}: must be finite")
    return array


def as_rows(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """The array as float64, if it has this shape and its rows are distributions."""
    array = as_finite(name, value, shape)
    _check_rows(name, array)
    return array


def as_start(start: int | ArrayLike, num_states: int) -> FloatArray:
    """The start as a distribution over states, from a state's index or a distribution."""
    if isinstance(start, int | np.integer) and not isinstance(start, bool):
        if not 0 <= start < num_states:
            raise ValueError(f"start={start!r}: must be a state, 0 to {num_states - 1}")
        return np.eye(1, num_states, int(start))[0]
    if np.ndim(start) == 0:
        raise ValueError(f"start={start!r}: must be a state's index or a distribution over states")
    return as_rows("start", start, (num_states,))


def _as_kernel(transition: Any) -> FloatArray | tuple[Sparse, ...]:
    if isinstance(transition, Sequence) and any(sp.issparse(P_a) for P_a in transition):
        matrices = tuple(as_chain(P_a) for P_a in transition)
        if len({P_a.shape for P_a in matrices}) > 1:
            shapes = [P_a.shape for P_a in matrices]
            raise ValueError(f"transition holds shapes {shapes}: must all be one (X, X)")
        return tuple(sp.csr_array(P_a) for P_a in matrices)
    array = _as_float64("transition", transition)
    if array.ndim != 3 or array.shape[0] != array.shape[2] or 0 in array.shape:
        raise ValueError(f"transition has shape {array.shape}: must be (X, A, X)")
    _check_rows("transition", array)
    return array


def _check_rows(name: str, array: Chain) -> None:
    """Rows must be distributions; a NaN fails the sum, so one pass finds it too."""
    entries: Any = array.data if sp.issparse(array) else array
    if entries.size and entries.min() < 0:
        raise ValueError(f"{name} has the entry {entries.min()}: must not be negative")
    sums = np.atleast_1d(np.asarray(array.sum(axis=-1)))
    wrong = ~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        row = list(at) if np.ndim(array) > 1 else ""
        raise ValueError(f"{name}{row} sums to {sums[at]}: must sum to 1, without NaN")


def _as_float64(name: str, value: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} of type {type(value).__name__}: must be a real array") from None
