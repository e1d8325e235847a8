"""Plain loops in the style of CleanRL: advantages and ages as NumPy arrays or torch tensors.

In such loops ``dones[t]`` says that row t opens an episode, and ``next_done`` that the row after
the last one does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gammaprime.agents.advantages import GAE, TaylorQ
from gammaprime.agents.weightings import Uniform
from gammaprime.estimators.backend import namespace
from gammaprime.integrations.rollouts import Report, expand_rollout, read_slots, warn_of_tail
from gammaprime.typing import Array

_WARNED: set[TaylorQ] = set()
"""Slots whose `taylor/tail_share` has been warned of."""


def taylor_advantages(
    advantages: Array,
    values: Array,
    dones: Array,
    next_value: Array,
    next_done: Array,
    gamma: float,
    advantage: TaylorQ | GAE | Mapping[str, Any],
    *,
    truncated: Array | None = None,
    final_values: Array | None = None,
) -> Array:
    """Return advantages with an expansion towards γ' added.

    The critic's targets stay as they are: advantages + values, from before the expansion.

    Args:
        advantages: GAE at γ, as the loop has computed it.
        values: The critic's value of each state.
        dones: True in rows that open an episode.
        next_value: The critic's value of the state after the last row.
        next_done: True if that state opens an episode.
        gamma: The discount of the advantages.
        advantage: The slot `TaylorQ`, or a mapping of its settings.
        truncated: True in rows whose step was cut off by a time limit and did not terminate.
            Without it every end is taken for a termination, as CleanRL does.
        final_values: The critic's value of the true successor, read where ``truncated`` is True.

    Returns:
        The expanded advantages, an array of the same kind.

    Example:
        >>> advantages, values, never = np.ones((3, 1)), np.full((3, 1), 10.0), np.zeros((3, 1))
        >>> slot = TaylorQ(0.99, order=1)
        >>> taylor_advantages(advantages, values, never, values[0], never[0], 0.9, slot).round(3).T
        array([[1.171, 1.09 , 1.   ]])

    Shapes: next_value and next_done (N,), all others (T, N) -> (T, N).
    """
    ends, following = _read_ends(
        values, dones, next_value, next_done, truncated=truncated, final_values=final_values
    )
    slot = _read_slot(advantage)
    slot.check(gamma)
    if not isinstance(slot, TaylorQ):
        return advantages
    return expand_rollout(slot, advantages, values, following, ends, gamma)


def taylor_report(
    advantages: Array,
    expanded: Array,
    dones: Array,
    next_done: Array,
    gamma: float,
    advantage: TaylorQ | GAE | Mapping[str, Any],
    *,
    truncated: Array | None = None,
    weights: Array | None = None,
) -> dict[str, float]:
    """Return the numbers that the other adapters log, under the same names.

    ``expanded`` are the advantages after `taylor_advantages`, ``weights`` those of the rollout, if
    it is weighted; the other arguments are those of `taylor_advantages`.  Warns once for each slot
    if the tail rule decides more than half.  Shapes: next_done (N,), all others (T, N).
    """
    ends, _ = _read_ends(
        advantages, dones, next_done, next_done, truncated=truncated, final_values=advantages
    )
    slot = _read_slot(advantage)
    slot.check(gamma)
    numbers: dict[str, float] = {}
    if isinstance(slot, TaylorQ):
        report = Report.of(slot, advantages, expanded, ends, gamma)
        numbers = {f"taylor/{name}": number for name, number in report._asdict().items()}
        if report.tail_share > 0.5 and slot not in _WARNED:
            _WARNED.add(slot)
            warn_of_tail(report.tail_share, "num_steps")
    if weights is not None:
        numbers["taylor/mean_weight"] = float(weights.mean())
    return numbers


def _read_slot(advantage: Any) -> GAE | TaylorQ:
    """Return the slot as the other adapters read it; there is no second one to stand alone."""
    if advantage is None:
        raise ValueError("advantage=None: must be TaylorQ or a mapping of its settings")
    return read_slots(advantage, Uniform())[0]


def _read_ends(
    values: Array,
    dones: Array,
    next_value: Array,
    next_done: Array,
    *,
    truncated: Array | None,
    final_values: Array | None,
) -> tuple[tuple[Array, Array], Array]:
    """Return terminated and truncated of each row, and values of successors at cuts."""
    xp = namespace(values, dones)
    shape = tuple(values.shape)
    given = {"dones": dones, "truncated": truncated, "final_values": final_values}
    for name, array in given.items():
        if array is not None and tuple(array.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(array.shape)}: must be {shape}, as values")
    if truncated is not None and final_values is None:
        raise ValueError("final_values=None: must be given where truncated is")
    for name, array in {"next_value": next_value, "next_done": next_done}.items():
        if math.prod(array.shape) != math.prod(shape[1:]):
            raise ValueError(f"{name} has shape {tuple(array.shape)}: must be {shape[1:]}")
    done = xp.concat([dones[1:] != 0, xp.reshape(next_done, (1, *shape[1:])) != 0])
    following = xp.concat([xp.zeros_like(values[1:]), xp.reshape(next_value, (1, *shape[1:]))])
    if truncated is None:
        return (done, xp.zeros_like(done)), following
    cut = (truncated != 0) & done
    return (done & ~cut, cut), xp.where(cut, final_values, following)


class Ages:
    """Counter of the steps since each environment's reset, carried across rollouts.

    Example:
        >>> ages = Ages(2)
        >>> [ages.advance(done).tolist() for done in ([False, True], [False, False], [True, False])]
        [[0, 0], [1, 0], [2, 1]]
    """

    def __init__(self, num_envs: int):
        self.now = np.zeros(num_envs, dtype=np.int64)
        """Ages of the states to act in next."""

    def advance(self, done: Any) -> Array:
        """Count one step; return the ages of the states that it left.  Shapes: (N,) -> (N,)."""
        left = self.now.copy()
        ended = np.asarray(done, dtype=bool)
        if ended.shape != left.shape:
            raise ValueError(f"done has shape {ended.shape}: must be {left.shape}")
        self.now = np.where(ended, 0, left + 1)
        return left
