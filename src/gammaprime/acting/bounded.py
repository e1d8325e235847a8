"""The policies of off-policy agents: actions inside a box, with noise to explore it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gammaprime.acting.networks import (
    Network,
    apply_network,
    network_inputs,
    pack_network,
    relu,
    unpack_network,
)

Array: TypeAlias = Any


class Bounds(NamedTuple):
    """The box of the actions, which networks see as [−1, 1] in every direction."""

    low: Array
    high: Array

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Bounds:
        """In single precision, whatever the space itself has: as it was learned with."""
        return cls(*(arrays[name].astype(np.float32) for name in cls._fields))

    def to_unit(self, action: Array) -> Array:
        """Shapes: (..., A) -> (..., A)."""
        return (2.0 * action - (self.high + self.low)) / (self.high - self.low)

    def from_unit(self, unit: Array) -> Array:
        """Shapes: (..., A) -> (..., A), never outside the box."""
        action = 0.5 * ((self.high + self.low) + (self.high - self.low) * unit)
        return action.clip(self.low, self.high)


@dataclass(frozen=True, eq=False)
class BoundedActor(ABC):
    """A policy with actions inside a box, and with noise of its own."""

    network: Network
    bounds: Bounds

    @abstractmethod
    def perturb(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        """The action that standard normal noise makes of an observation; None for no noise."""

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """The action without noise.  Shapes: (N, ...) -> (N, A)."""
        return self.perturb(obs, None)

    def sample(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action to explore with.  Shapes: (N, ...) -> (N, A)."""
        return self.sampler(1, len(obs), rng)(obs)

    def sampler(
        self, num_steps: int, num_rows: int, rng: np.random.Generator
    ) -> Callable[[np.ndarray], np.ndarray]:
        """`sample` for so many calls, bit for bit; their noise is drawn at once."""
        shape = (num_steps, num_rows, len(self.bounds.low))
        noise = iter(rng.standard_normal(shape, dtype=np.float32))
        return lambda obs: self.perturb(obs, next(noise))

    def to_arrays(self) -> dict[str, np.ndarray]:
        bounds = {name: np.asarray(x) for name, x in self.bounds._asdict().items()}
        return {"activation": np.array("relu")} | pack_network(self.network) | bounds


@dataclass(frozen=True, eq=False)
class NoisyActor(BoundedActor):
    """tanh of a network, and noise of ``act_noise`` half-widths of the box to explore."""

    act_noise: float

    def perturb(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        unit = np.tanh(apply_network(self.network, network_inputs(obs), relu))
        return self.bounds.from_unit(unit if noise is None else unit + self.act_noise * noise)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return super().to_arrays() | {"act_noise": np.array(self.act_noise)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NoisyActor:
        return cls(unpack_network(arrays), Bounds.from_arrays(arrays), float(arrays["act_noise"]))


LOG_STD_LIMITS = (-20.0, 2.0)


def mean_and_log_std(
    network: Network, std_network: Network | None, x: Array, activation: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """μ(x) and log σ(x), the latter from a network of its own or from the same; JAX or NumPy.

    Shapes: (..., inputs) -> (..., A) twice.
    """
    mean = apply_network(network, x, activation)
    if std_network is None:
        num_actions = mean.shape[-1] // 2
        mean, log_std = mean[..., :num_actions], mean[..., num_actions:]
    else:
        log_std = apply_network(std_network, x, activation)
    return mean, log_std.clip(*LOG_STD_LIMITS)


@dataclass(frozen=True, eq=False)
class SquashedActor(BoundedActor):
    """tanh of a Gaussian whose μ and σ depend on the state.

    ``std_network`` is None where the network's second half of outputs is log σ.
    """

    std_network: Network | None

    def perturb(self, obs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        x = network_inputs(obs)
        mean, log_std = mean_and_log_std(self.network, self.std_network, x, relu)
        return self.bounds.from_unit(
            np.tanh(mean if noise is None else mean + np.exp(log_std) * noise)
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        own = {} if self.std_network is None else pack_network(self.std_network, "std_")
        return super().to_arrays() | own

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> SquashedActor:
        own = unpack_network(arrays, "std_") or None
        return cls(unpack_network(arrays), Bounds.from_arrays(arrays), own)


@dataclass(frozen=True, eq=False)
class UniformActor:
    """Any action of the box is as likely as any other, whatever is seen."""

    low: np.ndarray
    high: np.ndarray

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """The middle.  Shapes: (N, ...) -> (N, A)."""
        unit = np.zeros((len(obs), *np.shape(self.low)), np.float32)
        return Bounds(self.low, self.high).from_unit(unit)

    def sample(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Shapes: (N, ...) -> (N, A)."""
        unit = rng.random((len(obs), *np.shape(self.low)), dtype=np.float32)
        return Bounds(self.low, self.high).from_unit(2.0 * unit - 1.0)

    def sampler(
        self, num_steps: int, num_rows: int, rng: np.random.Generator
    ) -> Callable[[np.ndarray], np.ndarray]:
        """`sample`, under the name that rollouts know."""
        return lambda obs: self.sample(obs, rng)
