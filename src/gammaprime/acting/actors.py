"""The policies of on-policy agents: a Gaussian of one σ for all states, or logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gammaprime.acting.networks import (
    ACTIVATIONS,
    Network,
    Standardiser,
    apply_network,
    network_inputs,
    pack_network,
    unpack_network,
)


@dataclass(frozen=True, eq=False)
class Actor:
    """A policy that was learned, ready to act.  ``log_std`` is None where actions are discrete."""

    network: Network
    log_std: np.ndarray | None
    standardise: Standardiser | None
    activation: str

    def center(self, obs: np.ndarray) -> np.ndarray:
        """Means, or logits.  Shapes: (N, ...) -> (N, A) float32."""
        x = network_inputs(obs)
        if self.standardise is not None:
            x = self.standardise(x)
        # np.dot begins sooner than @, which arrays this small feel.
        return apply_network(self.network, x, ACTIVATIONS[self.activation], np.dot)

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

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"activation": np.array(self.activation)} | pack_network(self.network)
        if self.standardise is not None:
            mean, scale, limit = self.standardise
            arrays |= {"mean": mean, "scale": scale, "limit": np.array(limit)}
        return arrays if self.log_std is None else arrays | {"log_std": np.asarray(self.log_std)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Actor:
        standardise = None
        if "mean" in arrays:
            standardise = Standardiser(arrays["mean"], arrays["scale"], float(arrays["limit"]))
        network = unpack_network(arrays)
        return cls(network, arrays.get("log_std"), standardise, str(arrays["activation"]))
