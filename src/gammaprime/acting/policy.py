"""A trained policy, as it is stored and used."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from gammaprime.acting.actors import Actor
from gammaprime.acting.bounded import NoisyActor, SquashedActor
from gammaprime.acting.networks import ACTIVATIONS

LearnedActor: TypeAlias = Actor | NoisyActor | SquashedActor

# Format 1 is that of `Actor`, the only one when it was made; from 2 on a file tells its kind.
POLICY_FORMATS = (1, 2)
KINDS = {"noisy": NoisyActor, "squashed": SquashedActor}


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained policy: observations in, actions out, clipped to their bounds.

    ``low`` and ``high`` are None where actions are discrete: the integers from ``start`` on.
    """

    actor: LearnedActor
    low: np.ndarray | None
    high: np.ndarray | None
    start: int = 0

    @classmethod
    def load(cls, run: str | Path) -> Policy:
        """The newest policy of a run directory, or the one in a ``policy.npz``."""
        path = Path(run)
        path = path / "policy.npz" if path.is_dir() else path
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no policy here (a run writes it with a checkpoint)")
        content = io.BytesIO(path.read_bytes())
        try:
            with np.load(content, allow_pickle=False) as arrays:
                return cls.from_arrays(dict(arrays))
        except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path}: not a policy, or damaged: {error}") from None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Policy:
        """The policy of named arrays, as `to_arrays` gives them."""
        if (number := int(arrays["format"])) not in POLICY_FORMATS:
            raise ValueError(f"format {number} is not of this version, which knows 1 and 2")
        kind: type[LearnedActor] = Actor if number == 1 else KINDS[str(arrays["kind"])]
        actor, activation = kind.from_arrays(arrays), str(arrays["activation"])
        if not actor.network or activation not in ACTIVATIONS:
            raise ValueError(f"{len(actor.network)} layers with activation {activation!r}")
        return cls(actor, arrays.get("low"), arrays.get("high"), int(arrays.get("start", 0)))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All of the policy as named arrays, none of which needs pickling."""
        arrays = {"format": np.array(1)}
        for kind, actors in KINDS.items():
            if isinstance(self.actor, actors):
                arrays = {"format": np.array(2), "kind": np.array(kind)}
        arrays |= self.actor.to_arrays()
        if self.start:
            arrays["start"] = np.array(self.start)
        bounds = {"low": self.low, "high": self.high}
        return arrays | {name: np.asarray(x) for name, x in bounds.items() if x is not None}

    def __call__(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The most likely action, or one drawn with ``rng``, for one observation or for a batch.

        Shapes: (O,) -> (A,) or an integer; (N, O) -> (N, A) or (N,) integers.
        """
        obs = np.asarray(obs)
        num_inputs = len(self.actor.network[0].weight)
        if obs.ndim not in (1, 2) or obs.shape[-1] != num_inputs:
            raise ValueError(
                f"obs has shape {obs.shape}: must be ({num_inputs},) or (N, {num_inputs})"
            )
        batch = obs.reshape(-1, num_inputs)
        action = self.actor(batch) if rng is None else self.actor.sample(batch, rng)
        action = action + self.start if self.low is None else action.clip(self.low, self.high)
        return action[0] if obs.ndim == 1 else action
