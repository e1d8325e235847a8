"""How a policy acts: NumPy alone, so that a call costs microseconds and deployment needs no JAX.

Actions need only the policy's mean or logits; values and likelihoods of a whole rollout are
computed in the update.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = Any


class Layer(NamedTuple):
    """One affine map x ↦ xW + b."""

    weight: Array
    bias: Array


Network: TypeAlias = tuple[Layer, ...]


def apply_network(network: Network, x: Array, activation: Callable[[Array], Array]) -> Array:
    """The network's output, without an activation after its last layer; JAX or NumPy arrays.

    Shapes: (..., inputs) -> (..., outputs).
    """
    *hidden, last = network
    for layer in hidden:
        x = activation(x @ layer.weight + layer.bias)
    return x @ last.weight + last.bias


class Standardiser(NamedTuple):
    """Observations as networks see them: clip((x − mean)·scale, ±limit)."""

    mean: Array
    scale: Array
    limit: float

    def __call__(self, obs: Array) -> Array:
        return ((obs - self.mean) * self.scale).clip(-self.limit, self.limit)


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


ACTIVATIONS = {"tanh": np.tanh, "relu": _relu}


@dataclass(frozen=True, eq=False)
class Actor:
    """A policy that was learned, ready to act.  ``log_std`` is None where actions are discrete."""

    network: Network
    log_std: np.ndarray | None
    standardise: Standardiser | None
    activation: str

    def center(self, obs: np.ndarray) -> np.ndarray:
        """Means, or logits.  Shapes: (N, ...) -> (N, A) float32."""
        x = np.asarray(obs, dtype=np.float32).reshape(len(obs), -1)
        if self.standardise is not None:
            x = self.standardise(x)
        return apply_network(self.network, x, ACTIVATIONS[self.activation])

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """The most likely action.  Shapes: (N, ...) -> (N, A), or (N,) integers."""
        center = self.center(obs)
        return center.argmax(axis=-1) if self.log_std is None else center

    def sample(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action as the policy draws it.  Shapes: (N, ...) -> (N, A), or (N,) integers."""
        center = self.center(obs)
        if self.log_std is None:
            return (center + rng.gumbel(size=center.shape)).argmax(axis=-1)
        noise = rng.standard_normal(center.shape, dtype=np.float32)
        return center + np.exp(self.log_std) * noise

    def sampler(
        self, num_steps: int, num_rows: int, rng: np.random.Generator
    ) -> Callable[[np.ndarray], np.ndarray]:
        """`sample` for so many calls, bit for bit; their noise is drawn at once."""
        if self.log_std is None:
            return lambda obs: self.sample(obs, rng)
        shape = (num_steps, num_rows, len(self.log_std))
        noise = iter(np.exp(self.log_std) * rng.standard_normal(shape, dtype=np.float32))
        return lambda obs: self.center(obs) + next(noise)


POLICY_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Policy:
    """A trained policy: observations in, actions out, clipped to their bounds.

    ``low`` and ``high`` are None where actions are discrete.
    """

    actor: Actor
    low: np.ndarray | None
    high: np.ndarray | None

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
        if int(arrays["format"]) != POLICY_FORMAT:
            raise ValueError(
                f"format {arrays['format']} is not the {POLICY_FORMAT} of this version"
            )
        count = sum(name.startswith("weight_") for name in arrays)
        network = tuple(Layer(arrays[f"weight_{i}"], arrays[f"bias_{i}"]) for i in range(count))
        standardise = None
        if "mean" in arrays:
            standardise = Standardiser(arrays["mean"], arrays["scale"], float(arrays["limit"]))
        actor = Actor(network, arrays.get("log_std"), standardise, str(arrays["activation"]))
        if not network or actor.activation not in ACTIVATIONS:
            raise ValueError(f"{count} layers with activation {actor.activation!r}")
        return cls(actor, arrays.get("low"), arrays.get("high"))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All of the policy as named arrays, none of which needs pickling."""
        actor = self.actor
        arrays = {"format": np.array(POLICY_FORMAT), "activation": np.array(actor.activation)}
        for i, (weight, bias) in enumerate(actor.network):
            arrays |= {f"weight_{i}": np.asarray(weight), f"bias_{i}": np.asarray(bias)}
        if actor.standardise is not None:
            mean, scale, limit = actor.standardise
            arrays |= {"mean": mean, "scale": scale, "limit": np.array(limit)}
        optional = {"log_std": actor.log_std, "low": self.low, "high": self.high}
        return arrays | {name: np.asarray(x) for name, x in optional.items() if x is not None}

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
        if self.low is not None:
            action = np.clip(action, self.low, self.high)
        return action[0] if obs.ndim == 1 else action
