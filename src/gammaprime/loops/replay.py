"""Replay buffer: a ring of transitions, drawn uniformly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gammaprime.agents.off_policy import Batch
from gammaprime.agents.weightings import Recent
from gammaprime.types import Trajectory, check_count


class Replay:
    """Replay buffer of the latest ``size`` transitions: true successors, raw rewards, both flags.

    Transition number i, counted from the start of the run, is stored in place i mod ``size`` until
    number i + ``size`` replaces it.  Memory is reserved at once and used only as the ring fills.

    The arrays are NumPy's: one `take` for each field serves many updates, in less than a hundredth
    of the time that the updates take.

    Paper: algo:off.  Shapes: obs and next_obs (size, O), action (size, A), the rest (size,).
    """

    def __init__(self, size: int, num_inputs: int, num_actions: int) -> None:
        self.size = check_count("size", size)
        self.count = 0
        """Number of transitions added so far."""
        self.fields = {
            "obs": np.zeros((size, num_inputs), np.float32),
            "next_obs": np.zeros((size, num_inputs), np.float32),
            "action": np.zeros((size, num_actions), np.float32),
            "reward": np.zeros(size, np.float32),
            "terminated": np.zeros(size, np.bool_),
            "truncated": np.zeros(size, np.bool_),
            "step": np.zeros(size, np.int32),
        }

    def __len__(self) -> int:
        return min(self.count, self.size)

    @property
    def oldest(self) -> int:
        """The number of the oldest transition in the buffer."""
        return self.count - len(self)

    def add(self, trajectory: Trajectory) -> None:
        """Add T steps of N rows, the earlier ones first.  Shapes: (T, N, ...)."""
        length = np.size(trajectory.reward)
        columns = trajectory._asdict()
        flat = {
            name: np.reshape(columns[name], (length, *field.shape[1:]))
            for name, field in self.fields.items()
        }
        self.put(self.count, flat)
        self.count += length

    def put(self, start: int, transitions: Mapping[str, NDArray[Any]]) -> None:
        """Write transitions to the places of the numbers from ``start`` on; later ones win.

        Shapes: L transitions, each field (L, ...).
        """
        _check_fields(transitions, self.fields)
        length = len(transitions["reward"])
        skipped = max(0, length - self.size)
        places = np.arange(start + skipped, start + length) % self.size
        for name, field in self.fields.items():
            field[places] = transitions[name][skipped:]

    def take(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """Return copies of transitions.  Shapes: each field (stop − start, ...)."""
        if not self.oldest <= start < stop <= self.count:
            raise ValueError(
                f"start={start!r}, stop={stop!r}: must lie in [{self.oldest}, {self.count}]"
            )
        places = np.arange(start, stop) % self.size
        return {name: field[places] for name, field in self.fields.items()}

    def draw(self, rng: np.random.Generator, updates: int, batch_size: int) -> Batch:
        """Draw minibatches, each transition with the same probability.

        Shapes: obs, next_obs (U, B, O), action (U, B, A), the rest (U, B).
        """
        self._check_filled()
        places = rng.integers(len(self), size=(updates, batch_size))
        return Batch(**{name: self.fields[name].take(places, axis=0) for name in Batch._fields})

    def draw_recent(
        self, rng: np.random.Generator, updates: int, count: int, recent_size: int
    ) -> Recent:
        """Draw states of the latest ``recent_size`` transitions, each with the same probability.

        Shapes: obs (U, count, O), step (U, count).
        """
        self._check_filled()
        back = rng.integers(min(recent_size, len(self)), size=(updates, count))
        places = (self.count - 1 - back) % self.size
        return Recent(*(self.fields[name].take(places, axis=0) for name in Recent._fields))

    def _check_filled(self) -> None:
        if not self.count:
            raise ValueError("the replay is empty: must hold a transition before any is drawn")


def _check_fields(given: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> None:
    if given.keys() != wanted.keys():
        odd = sorted(given.keys() ^ wanted.keys())
        raise ValueError(f"transitions: {odd[0]!r} must be in both or in neither")
    length = len(given["reward"])
    for name, field in wanted.items():
        if np.shape(given[name]) != (length, *field.shape[1:]):
            raise ValueError(
                f"transitions hold {name} as {np.shape(given[name])}: "
                f"must be {(length, *field.shape[1:])}"
            )
