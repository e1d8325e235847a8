"""The resolvent R = (I − γP)⁻¹, factorised once and used for every order and right-hand side.

Dense chains are factorised with LU.  So are sparse chains that are small, or whose states can be
numbered so that the factors stay in a narrow band.  Otherwise each solve is iterative and its
error is bounded before it is returned: since ‖R‖_∞ = ‖Rᵀ‖_1 = 1/(1−γ), a residual e proves a
relative error of at most ‖e‖ / ((1−γ)‖x‖).  If that does not fall below ``TOLERANCE``, the solve
raises.

γ = 1 means the chain absorbs (assumption A.1 of the paper): R is then (I − P̃)⁻¹ on the
transient states and 0 on the absorbing ones.  Its norm is the longest mean time to absorption,
which is solved for and bounded in the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg

from gammaprime.tabular.mdp import Chain, Sparse
from gammaprime.typing import FloatArray

TOLERANCE = 1e-10
"""Certified relative error of an iterative solve, in the max norm (transposed: 1-norm)."""

DIRECT_STATES = 2_000
"""Sparse chains up to this size are always factorised."""

DIRECT_FILL = 30_000_000
"""Larger sparse chains are factorised if a banded numbering needs fewer entries than this."""

KRYLOV_SIZE = 20
MAX_CYCLES = 2_000
STALL_CYCLES = 50

Solve = Callable[[FloatArray], FloatArray]


class NotConvergedError(ArithmeticError):
    """Raised when an iterative solve does not reach its tolerance."""


@dataclass(frozen=True, eq=False)
class Resolvent:
    """The map x ↦ (I − γP)⁻¹x from rewards to values, and its transpose.

    Paper: eq:primal-start-expansion; γ = 1: lemma:1.
    """

    P: Chain
    gamma: float
    solve: Solve
    solve_transpose: Solve

    def next_term(self, term: FloatArray, gamma_prime: float) -> FloatArray:
        """Return the next term, δ R P D_{k−1}: the last term, one step ahead, as the reward.

        Where γ is large enough not to lose digits, R P = (R − I)/γ saves the product.

        Paper: eq:primal-k-order.  Shapes: (X,) -> (X,).
        """
        delta = gamma_prime - self.gamma
        if isinstance(self.P, np.ndarray) and self.gamma >= 0.5:
            return (delta / self.gamma) * (self.solve(term) - term)
        return delta * self.solve(self.P @ term)

    def terms(self, first: FloatArray, gamma_prime: float, order: int) -> Iterator[FloatArray]:
        """Yield first, M first, .., M^K first.  M = (γ'−γ)(I−γP)⁻¹P.  Paper: eq:primal-k-order."""
        term = first
        yield term
        for _ in range(order):
            term = self.next_term(term, gamma_prime)
            yield term

    def partial_sums(
        self, first: FloatArray, gamma_prime: float, order: int
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield (V_{k−1}, V_k) for k = 0..K, with V_{−1} = 0.  Paper: eq:kth-order-primal."""
        lower = total = np.zeros_like(first)
        for term in self.terms(first, gamma_prime, order):
            lower, total = total, total + term
            yield lower, total

    def terms_transpose(
        self, first: FloatArray, gamma_prime: float, order: int
    ) -> Iterator[FloatArray]:
        """Yield first, Mᵀ first, .., (Mᵀ)^K first.  Paper: pro:rho.  Departs: P13 (transposes)."""
        term = first
        yield term
        for _ in range(order):
            term = (gamma_prime - self.gamma) * self.solve_transpose(self.P.T @ term)
            yield term


def resolvent(P: Chain, gamma: float) -> Resolvent:
    """Factorise (or prepare to iterate) I − γP; at γ = 1, I − P̃ on the transient states."""
    if gamma < 1.0:
        return Resolvent(P, gamma, *_solvers(P, gamma))
    transient = ~absorbing_states(P)
    forward, backward = _solvers(P[transient][:, transient], 1.0)
    return Resolvent(P, gamma, _extended(forward, transient), _extended(backward, transient))


def absorbing_states(P: Chain) -> np.ndarray:
    """Return the mask of the states that cannot be left, if every state can reach one.

    Paper: assumption A.1 of prop:taylor-expansion.  Shapes: (X, X) -> (X,) bool.
    """
    absorbing = np.asarray(P.diagonal()) >= 1.0 - 1e-12
    stuck = np.flatnonzero(~_can_reach(P, absorbing))
    if stuck.size:
        raise ValueError(
            f"gamma_prime=1 (or gamma=1) on a chain that does not absorb: from state {stuck[0]} "
            f"no absorbing state can be reached ({stuck.size} such states)"
        )
    return absorbing


def check_absorption(P: Chain, reward: FloatArray) -> None:
    """Refuse γ' = 1 unless the chain absorbs (A.1) and pays nothing from then on (A.2)."""
    absorbing = absorbing_states(P)
    paid = absorbing & (reward if reward.ndim == 1 else reward.any(axis=1)).astype(bool)
    if paid.any():
        x = int(np.flatnonzero(paid)[0])
        raise ValueError(
            f"gamma_prime=1 (or gamma=1) with reward {reward[x]} in the absorbing state {x}: "
            "must be 0 there"
        )


def _can_reach(P: Chain, goal: np.ndarray) -> np.ndarray:
    """Return the mask of the states from which a path leads to the goal."""
    edges = sp.coo_array(P)
    live = edges.data > 0
    source = P.shape[0]  # one extra node that leads to every goal
    goals = np.flatnonzero(goal)
    tails = np.concatenate([edges.col[live], np.full(goals.size, source)])
    heads = np.concatenate([edges.row[live], goals])
    graph = sp.csr_array((np.ones(tails.size), (tails, heads)), shape=(source + 1, source + 1))
    found = sp.csgraph.breadth_first_order(graph, source, return_predecessors=False)
    reached = np.zeros(source + 1, dtype=bool)
    reached[found] = True
    return reached[:source]


def _extended(solve: Solve, transient: np.ndarray) -> Solve:
    """Return the solve on transient states as a function of vectors over all states."""

    def extended(b: FloatArray) -> FloatArray:
        x = np.zeros_like(b)
        x[transient] = solve(b[transient])
        return x

    return extended


def _solvers(P: Chain, gamma: float) -> tuple[Solve, Solve]:
    """Return x ↦ (I − γP)⁻¹x and its transpose, by the cheapest method that is accurate."""
    size = P.shape[0]
    if isinstance(P, np.ndarray):
        solvers = _dense(P, gamma)
    elif size <= DIRECT_STATES:
        solvers = _sparse_direct(P, gamma, np.arange(size), "COLAMD")
    else:
        numbering = sp.csgraph.reverse_cuthill_mckee(P, symmetric_mode=False)
        if size * (2 * _bandwidth(P, numbering) + 1) > DIRECT_FILL:
            return _iterative(P, gamma)
        solvers = _sparse_direct(P, gamma, numbering, "NATURAL")
    if gamma == 1.0:
        _check_steps_to_absorption(P, solvers[0](np.ones(size)))
    return solvers


def _dense(P: FloatArray, gamma: float) -> tuple[Solve, Solve]:
    A = P * -gamma
    A.flat[:: A.shape[0] + 1] += 1.0
    # The transpose of a row-major matrix is column-major: LAPACK works on it in place, without
    # a copy, and I − γPᵀ needs no pivoting, being diagonally dominant by columns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)  # only at γ = 1, checked there
        factors = scipy.linalg.lu_factor(A.T, overwrite_a=True, check_finite=False)
    return (
        lambda b: scipy.linalg.lu_solve(factors, b, trans=1, check_finite=False),
        lambda b: scipy.linalg.lu_solve(factors, b, trans=0, check_finite=False),
    )


def _sparse_direct(
    P: Sparse, gamma: float, numbering: np.ndarray, ordering: str
) -> tuple[Solve, Solve]:
    A = sp.csc_array(sp.eye_array(P.shape[0]) - gamma * P[numbering][:, numbering])
    try:
        # Rows are diagonally dominant: pivots may stay on the diagonal, and so in the band.
        factors = sp.linalg.splu(A, permc_spec=ordering, diag_pivot_thresh=0.0)
    except RuntimeError:  # exactly singular, which only γ = 1 can be
        raise NotConvergedError(_TOO_LONG) from None
    place = np.argsort(numbering)
    return (
        lambda b: factors.solve(b[numbering])[place],
        lambda b: factors.solve(b[numbering], trans="T")[place],
    )


def _bandwidth(P: Sparse, numbering: np.ndarray) -> int:
    place = np.argsort(numbering)
    entries = P.tocoo()
    return int(np.abs(place[entries.row] - place[entries.col]).max(initial=0))


def _iterative(P: Sparse, gamma: float) -> tuple[Solve, Solve]:
    A = sp.csr_array(sp.eye_array(P.shape[0], format="csr") - gamma * P)
    A_transposed = sp.csr_array(A.T)
    if gamma < 1.0:
        inverse_norm = 1.0 / (1.0 - gamma)
    else:
        # (I − P̃)u ≥ ½ proves (I − P̃)⁻¹1 ≤ 2u: the inverse has no negative entry.
        steps = _iterate(A, np.ones(P.shape[0]), np.inf, lambda _: 0.5)
        inverse_norm = 2.0 * float(steps.max())

    def allowed(size: float) -> float:
        return TOLERANCE * size / inverse_norm

    return (
        lambda b: _iterate(A, b, np.inf, allowed),
        lambda b: _iterate(A_transposed, b, 1, allowed),
    )


def _iterate(
    A: Sparse, b: FloatArray, norm: float, allowed: Callable[[float], float]
) -> FloatArray:
    """Run GMRES in short cycles until the norm of b − Ax is allowed for an x of its norm."""
    if b.ndim == 2:
        return np.stack([_iterate(A, column, norm, allowed) for column in b.T], axis=1)
    x = np.zeros_like(b)
    sizes: list[float] = []
    for _ in range(MAX_CYCLES):
        residual = b - A @ x
        sizes.append(float(np.linalg.norm(residual, norm)))
        goal = allowed(float(np.linalg.norm(x, norm)))
        if sizes[-1] <= goal:
            return x
        if len(sizes) > STALL_CYCLES and not sizes[-1] <= 0.5 * sizes[-1 - STALL_CYCLES]:
            break
        step, _ = sp.linalg.gmres(A, residual, rtol=1e-4, restart=KRYLOV_SIZE, maxiter=1)
        x = x + step
    raise NotConvergedError(
        f"I - gamma*P with {A.shape[0]} states: after {len(sizes)} cycles of {KRYLOV_SIZE} steps "
        f"the residual is {sizes[-1]:.1e}, and a certified answer needs {goal:.1e}"
    )


_TOO_LONG = (
    "gamma_prime=1 (or gamma=1) on a chain whose mean time to absorption is too long for "
    "double precision"
)


def _check_steps_to_absorption(inner: Chain, steps: FloatArray) -> None:
    """Refuse factors with which the mean times u to absorption do not solve (I − P̃)u = 1."""
    solved = np.isfinite(steps).all() and np.allclose(steps - inner @ steps, 1.0, rtol=0, atol=1e-4)
    if not solved:
        raise NotConvergedError(_TOO_LONG)
