"""Networks and policies: layers, initialisation, distributions, actors, the stored policy.

Acting is NumPy alone, so that a call costs microseconds and a stored policy needs no JAX.
Learning is JAX, on the same layers: `apply_network` serves both.  An actor needs only the
policy's mean or logits; values and likelihoods of a whole rollout are computed in the update.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gammaprime.lazy import jax, jnp, optax
from gammaprime.typing import Array, PyTree

Product: TypeAlias = Callable[[Array, Array], Array]
Activation: TypeAlias = Callable[[Array], Array]


# Layers.


class Layer(NamedTuple):
    """Affine map x ↦ xW + b."""

    weight: Array
    bias: Array


Network: TypeAlias = tuple[Layer, ...]


def apply_network(
    network: Network, x: Array, activation: Activation, multiply: Product = operator.matmul
) -> Array:
    """Output of the network, without an activation after its last layer; NumPy or JAX arrays.

    Shapes: (..., inputs) -> (..., outputs).
    """
    *hidden, last = network
    for layer in hidden:
        x = activation(_apply_layer(layer, x, multiply))
    return _apply_layer(last, x, multiply)


def _apply_layer(layer: Layer, x: Array, multiply: Product) -> Array:
    x = multiply(x, layer.weight)
    x += layer.bias  # in place with NumPy, where a new array takes longer than the sum
    return x


def multiply(x: Array, weight: Array) -> Array:
    """xW in JAX, with gradients that are fast on a CPU.

    The gradient xᵀg of a layer of few outputs is computed as (gᵀx)ᵀ: the same sums, which XLA
    adds up along the long side instead of the short one, in a third of the time.

    Shapes: (..., inputs), (inputs, outputs) -> (..., outputs); gradients where x is (B, inputs).
    """
    return _multiply()(x, weight)


@functools.cache
def _multiply() -> Any:
    def backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
        x, weight = saved
        inputs, outputs = weight.shape
        if outputs < inputs:
            # Without the barrier XLA would cancel the two transpositions.
            weight_slope = jax.lax.optimization_barrier(slope.T @ x).T
        else:
            weight_slope = x.T @ slope
        return slope @ weight.T, weight_slope

    product = jax.custom_vjp(operator.matmul)
    product.defvjp(lambda x, weight: (x @ weight, (x, weight)), backward)
    return product


def relu(x: Array) -> Array:
    """max(x, 0) in NumPy."""
    return np.maximum(x, 0.0)


ACTIVATIONS: dict[str, Activation] = {"tanh": np.tanh, "relu": relu}
"""Activations by the names that stored policies use."""


def init_network(key: Array, sizes: tuple[int, ...], last_scale: float) -> Network:
    """Orthogonal weights of gain √2, ``last_scale`` in the last layer; zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    gains = [math.sqrt(2.0)] * (len(sizes) - 2) + [last_scale]
    return tuple(
        Layer(jax.nn.initializers.orthogonal(gain)(k, (rows, columns)), jnp.zeros(columns))
        for k, gain, rows, columns in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    )


def init_uniform(key: Array, sizes: tuple[int, ...]) -> Network:
    """Weights and biases uniform in ±1/√inputs, the default of PyTorch's linear layers.

    Used by the off-policy agents, whose published scores were made with it.
    """
    shapes = list(pairwise(sizes))
    # One draw for all layers: each further draw would be compiled separately.
    draws = jax.random.uniform(
        key, (sum((rows + 1) * columns for rows, columns in shapes),), minval=-1.0
    )
    network = []
    for rows, columns in shapes:
        size = (rows + 1) * columns
        layer = draws[:size].reshape(rows + 1, columns) / math.sqrt(rows)
        network.append(Layer(layer[:-1], layer[-1]))
        draws = draws[size:]
    return tuple(network)


class Trained(NamedTuple):
    """Parameters with the state of their Adam optimiser."""

    params: PyTree
    moments: PyTree

    @classmethod
    def start(cls, params: PyTree) -> Trained:
        """Pair new parameters with a new optimiser state."""
        return cls(params, optax.adam(1.0).init(params))

    def descend(self, gradient: PyTree, learning_rate: float) -> Trained:
        """Take one step of Adam."""
        change, moments = optax.adam(learning_rate).update(gradient, self.moments)
        return Trained(optax.apply_updates(self.params, change), moments)


# Distributions over actions, in JAX.

LOG_2PI = math.log(2.0 * math.pi)


class PolicyParams(NamedTuple):
    """Parameters of an on-policy policy."""

    network: Network
    log_std: Array | None
    """(A,) log standard deviation of each action; None for discrete actions."""


class Distribution(NamedTuple):
    """Distributions over the actions of a batch of observations."""

    center: Array
    """(..., A) means or logits."""
    log_std: Array
    """(A,) for a Gaussian, None for a categorical distribution."""


@dataclass(frozen=True)
class Gaussian:
    """a ~ N(μ(x), σ²) with one σ for each action, whatever the state.  Paper: appendix:exp."""

    num_actions: int
    """Number of action components."""
    initial_log_std: float = 0.0
    """log σ before any update."""

    def init(self, key: Array, sizes: tuple[int, ...]) -> PolicyParams:
        """Initial parameters for these sizes of the inputs and the hidden layers."""
        network = init_network(key, (*sizes, self.num_actions), 0.01)
        # An explicit type: a weak one would turn strong in the first update and compile it twice.
        log_std = jnp.full(self.num_actions, self.initial_log_std, jnp.float32)
        return PolicyParams(network, log_std)

    def log_prob(self, distribution: Distribution, action: Array) -> Array:
        """Shapes: (..., A) -> (...)."""
        center, log_std = distribution
        z = (action - center) * jnp.exp(-log_std)
        return -0.5 * jnp.sum(z**2 + 2.0 * log_std + LOG_2PI, axis=-1)

    def entropy(self, distribution: Distribution) -> Array:
        """Shapes: (..., A) -> (...)."""
        entropy = jnp.sum(distribution.log_std + 0.5 * (1.0 + LOG_2PI))
        return jnp.broadcast_to(entropy, distribution.center.shape[:-1])

    def divergence(self, old: Distribution, new: Distribution) -> Array:
        """KL(old ‖ new).  Shapes: (..., A) -> (...)."""
        log_ratio = new.log_std - old.log_std
        spread = jnp.exp(-2.0 * log_ratio) + ((old.center - new.center) / jnp.exp(new.log_std)) ** 2
        return jnp.sum(log_ratio + 0.5 * (spread - 1.0), axis=-1)


@dataclass(frozen=True)
class Categorical:
    """a ~ softmax of the network's logits."""

    num_actions: int
    """Number of actions to choose from."""

    def init(self, key: Array, sizes: tuple[int, ...]) -> PolicyParams:
        """Initial parameters for these sizes of the inputs and the hidden layers."""
        return PolicyParams(init_network(key, (*sizes, self.num_actions), 0.01), None)

    def log_prob(self, distribution: Distribution, action: Array) -> Array:
        """Shapes: action (...) int -> (...)."""
        logits = jax.nn.log_softmax(distribution.center)
        return jnp.take_along_axis(logits, action[..., None], axis=-1)[..., 0]

    def entropy(self, distribution: Distribution) -> Array:
        """Shapes: (..., A) -> (...)."""
        logits = jax.nn.log_softmax(distribution.center)
        return -jnp.sum(jnp.exp(logits) * logits, axis=-1)

    def divergence(self, old: Distribution, new: Distribution) -> Array:
        """KL(old ‖ new).  Shapes: (..., A) -> (...)."""
        old_logits, new_logits = (jax.nn.log_softmax(d.center) for d in (old, new))
        return jnp.sum(jnp.exp(old_logits) * (old_logits - new_logits), axis=-1)


PolicyHead: TypeAlias = Gaussian | Categorical


def evaluate_policy(params: PolicyParams, obs: Array) -> Distribution:
    """Distributions of an on-policy policy.  Shapes: (..., O) -> (..., A)."""
    return Distribution(apply_network(params.network, obs, jnp.tanh, multiply), params.log_std)


def evaluate_critic(critic: Network, obs: Array) -> Array:
    """Values of an on-policy critic with H heads.  Shapes: (..., O) -> (..., H)."""
    return apply_network(critic, obs, jnp.tanh, multiply)


class SquashedParams(NamedTuple):
    """Parameters of SAC's policy."""

    network: Network
    std_network: Network | None
    """Network of log σ; None where the first network gives both μ and log σ."""


LOG_STD_LIMITS = (-20.0, 2.0)


def mean_and_log_std(
    params: SquashedParams, x: Array, activation: Activation
) -> tuple[Array, Array]:
    """μ(x) and log σ(x) of SAC's policy; NumPy or JAX arrays.

    Shapes: (..., inputs) -> (..., A) twice.
    """
    mean = apply_network(params.network, x, activation)
    if params.std_network is None:
        num_actions = mean.shape[-1] // 2
        mean, log_std = mean[..., :num_actions], mean[..., num_actions:]
    else:
        log_std = apply_network(params.std_network, x, activation)
    return mean, log_std.clip(*LOG_STD_LIMITS)


def squash(mean: Array, log_std: Array, noise: Array) -> tuple[Array, Array]:
    """a = tanh(u), u = μ + σε, and its log-likelihood.

        log π(a|x) = Σ_j −½ε_j² − log σ_j − ½log 2π − log(1 − tanh² u_j)

    The last term is written 2(log 2 − u − softplus(−2u)), which neither overflows nor needs a
    small number inside the logarithm, however close to its bounds the action is.

    Shapes: (..., A) -> (..., A), (...).
    """
    pre_squash = mean + jnp.exp(log_std) * noise
    log_slope = 2.0 * (math.log(2.0) - pre_squash - jax.nn.softplus(-2.0 * pre_squash))
    log_prob = -0.5 * (noise**2 + LOG_2PI) - log_std - log_slope
    return jnp.tanh(pre_squash), jnp.sum(log_prob, axis=-1)


# Actors, in NumPy.


class Standardiser(NamedTuple):
    """Scaling of observations before a network: clip((x − mean)·scale, ±limit)."""

    mean: Array
    scale: Array
    limit: float

    def __call__(self, obs: Array) -> Array:
        return ((obs - self.mean) * self.scale).clip(-self.limit, self.limit)


def flatten_obs(obs: Array) -> Array:
    """Shapes: (N, ...) -> (N, O) float32."""
    return np.asarray(obs, dtype=np.float32).reshape(len(obs), -1)


Sampler: TypeAlias = Callable[[Array], Array]
"""Observations -> actions, with noise drawn in advance."""


@dataclass(frozen=True, eq=False)
class Actor:
    """Policy of an on-policy agent, ready to act."""

    network: Network
    log_std: Array | None
    """(A,) log standard deviation of each action; None for discrete actions."""
    standardise: Standardiser | None
    activation: str

    def center(self, obs: Array) -> Array:
        """Means or logits.  Shapes: (N, ...) -> (N, A) float32."""
        x = flatten_obs(obs)
        if self.standardise is not None:
            x = self.standardise(x)
        # np.dot starts faster than @, which matters for arrays this small.
        return apply_network(self.network, x, ACTIVATIONS[self.activation], np.dot)

    def __call__(self, obs: Array) -> Array:
        """Most likely action.  Shapes: (N, ...) -> (N, A), or (N,) integers."""
        center = self.center(obs)
        return center.argmax(axis=-1) if self.log_std is None else center

    def sample(self, obs: Array, rng: np.random.Generator) -> Array:
        """Draw an action from the policy.  Shapes: (N, ...) -> (N, A), or (N,) integers."""
        center = self.center(obs)
        if self.log_std is None:
            return (center + rng.gumbel(size=center.shape)).argmax(axis=-1)
        noise = rng.standard_normal(center.shape, dtype=np.float32)
        return center + np.exp(self.log_std) * noise

    def sampler(self, num_steps: int, num_rows: int, rng: np.random.Generator) -> Sampler:
        """`sample` for ``num_steps`` calls, bit for bit; their noise is drawn at once."""
        if self.log_std is None:
            return lambda obs: self.sample(obs, rng)
        shape = (num_steps, num_rows, len(self.log_std))
        noise = iter(np.exp(self.log_std) * rng.standard_normal(shape, dtype=np.float32))
        center = self.repeat(num_rows).center
        return lambda obs: center(obs) + next(noise)

    def repeat(self, num_rows: int) -> Actor:
        """Return the policy with biases, means and scales written out for each row.

        Numbers are the same; NumPy adds arrays of equal shapes in half the time.
        """
        shape = (num_rows, 1)
        network = tuple(Layer(weight, np.tile(bias, shape)) for weight, bias in self.network)
        standardise = self.standardise
        if standardise is not None:
            mean, scale, limit = standardise
            standardise = Standardiser(np.tile(mean, shape), np.tile(scale, shape), limit)
        return replace(self, network=network, standardise=standardise)

    def to_arrays(self) -> dict[str, Array]:
        """Named arrays for a file."""
        arrays = {"activation": np.array(self.activation)} | pack_network(self.network)
        if self.standardise is not None:
            mean, scale, limit = self.standardise
            arrays |= {"mean": mean, "scale": scale, "limit": np.array(limit)}
        return arrays if self.log_std is None else arrays | {"log_std": np.asarray(self.log_std)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Actor:
        """Actor of the arrays that `to_arrays` gave."""
        standardise = None
        if "mean" in arrays:
            standardise = Standardiser(arrays["mean"], arrays["scale"], float(arrays["limit"]))
        network = unpack_network(arrays)
        return cls(network, arrays.get("log_std"), standardise, str(arrays["activation"]))


class Bounds(NamedTuple):
    """Box of the actions, which the networks see as [−1, 1] in every direction."""

    low: Array
    high: Array

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Bounds:
        """Bounds in single precision, as they were learned with."""
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
    """Policy of an off-policy agent, with actions inside a box and noise to explore it."""

    network: Network
    bounds: Bounds

    @abstractmethod
    def perturb(self, obs: Array, noise: Array | None) -> Array:
        """Action under standard normal noise; None for no noise."""

    def __call__(self, obs: Array) -> Array:
        """Action without noise.  Shapes: (N, ...) -> (N, A)."""
        return self.perturb(obs, None)

    def sample(self, obs: Array, rng: np.random.Generator) -> Array:
        """Action with noise.  Shapes: (N, ...) -> (N, A)."""
        return self.sampler(1, len(obs), rng)(obs)

    def sampler(self, num_steps: int, num_rows: int, rng: np.random.Generator) -> Sampler:
        """`sample` for ``num_steps`` calls, bit for bit; their noise is drawn at once."""
        shape = (num_steps, num_rows, len(self.bounds.low))
        noise = iter(rng.standard_normal(shape, dtype=np.float32))
        return lambda obs: self.perturb(obs, next(noise))

    def to_arrays(self) -> dict[str, Array]:
        """Named arrays for a file."""
        bounds = {name: np.asarray(x) for name, x in self.bounds._asdict().items()}
        return {"activation": np.array("relu")} | pack_network(self.network) | bounds


@dataclass(frozen=True, eq=False)
class NoisyActor(BoundedActor):
    """tanh of a network, explored with Gaussian noise."""

    act_noise: float
    """Standard deviation of the noise, in half-widths of the box."""

    def perturb(self, obs: Array, noise: Array | None) -> Array:
        unit = np.tanh(apply_network(self.network, flatten_obs(obs), relu))
        return self.bounds.from_unit(unit if noise is None else unit + self.act_noise * noise)

    def to_arrays(self) -> dict[str, Array]:
        return super().to_arrays() | {"act_noise": np.array(self.act_noise)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> NoisyActor:
        """Actor of the arrays that `to_arrays` gave."""
        return cls(unpack_network(arrays), Bounds.from_arrays(arrays), float(arrays["act_noise"]))


@dataclass(frozen=True, eq=False)
class SquashedActor(BoundedActor):
    """tanh of a Gaussian whose μ and σ depend on the state."""

    std_network: Network | None
    """None where the second half of the network's outputs is log σ."""

    def perturb(self, obs: Array, noise: Array | None) -> Array:
        params = SquashedParams(self.network, self.std_network)
        mean, log_std = mean_and_log_std(params, flatten_obs(obs), relu)
        return self.bounds.from_unit(
            np.tanh(mean if noise is None else mean + np.exp(log_std) * noise)
        )

    def to_arrays(self) -> dict[str, Array]:
        own = {} if self.std_network is None else pack_network(self.std_network, "std_")
        return super().to_arrays() | own

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> SquashedActor:
        """Actor of the arrays that `to_arrays` gave."""
        own = unpack_network(arrays, "std_") or None
        return cls(unpack_network(arrays), Bounds.from_arrays(arrays), own)


@dataclass(frozen=True, eq=False)
class UniformActor:
    """Actions drawn uniformly from the box, whatever the observation."""

    low: Array
    high: Array

    def __call__(self, obs: Array) -> Array:
        """Middle of the box.  Shapes: (N, ...) -> (N, A)."""
        unit = np.zeros((len(obs), *np.shape(self.low)), np.float32)
        return Bounds(self.low, self.high).from_unit(unit)

    def sample(self, obs: Array, rng: np.random.Generator) -> Array:
        """Shapes: (N, ...) -> (N, A)."""
        unit = rng.random((len(obs), *np.shape(self.low)), dtype=np.float32)
        return Bounds(self.low, self.high).from_unit(2.0 * unit - 1.0)

    def sampler(self, num_steps: int, num_rows: int, rng: np.random.Generator) -> Sampler:
        """`sample` under the name that rollouts call."""
        return lambda obs: self.sample(obs, rng)


# The stored policy.


def pack_network(network: Network, prefix: str = "") -> dict[str, Array]:
    """Layers as named arrays."""
    return {
        f"{prefix}{name}_{i}": np.asarray(x)
        for i, layer in enumerate(network)
        for name, x in layer._asdict().items()
    }


def unpack_network(arrays: Mapping[str, Array], prefix: str = "") -> Network:
    """Layers from named arrays; () if no name has the prefix."""
    count = sum(name.startswith(f"{prefix}weight_") for name in arrays)
    return tuple(
        Layer(arrays[f"{prefix}weight_{i}"], arrays[f"{prefix}bias_{i}"]) for i in range(count)
    )


LearnedActor: TypeAlias = Actor | NoisyActor | SquashedActor


@dataclass(frozen=True, eq=False)
class Critic:
    """Values of states, or off-policy of states and actions, as they were learned at γ."""

    networks: tuple[Network, ...]
    """On-policy one with an output for each head; off-policy one for each critic."""
    activation: str
    standardise: Standardiser | None
    unit: float
    """Reward by which learned values are multiplied: on-policy agents learn from scaled rewards."""
    bounds: Bounds | None
    """Box of the actions; None for values of states alone."""

    def __call__(self, obs: Array, action: Array | None = None) -> Array:
        """Values in units of reward.  Shapes: (N, O), (N, A) or None -> (N, heads or critics)."""
        if (action is None) != (self.bounds is None):
            raise ValueError(
                f"action={action!r}: must be {'None' if self.bounds is None else 'given'}, the "
                f"critic values states{'' if self.bounds is None else ' and actions'}"
            )
        x = flatten_obs(obs)
        if self.standardise is not None:
            x = self.standardise(x)
        if action is not None and self.bounds is not None:
            x = np.concatenate([x, self.bounds.to_unit(flatten_obs(action))], axis=-1)
        activation = ACTIVATIONS[self.activation]
        values = [apply_network(network, x, activation) for network in self.networks]
        return np.asarray(self.unit * np.concatenate(values, axis=-1))

    def to_arrays(self) -> dict[str, Array]:
        """Named arrays for the file of a policy."""
        arrays = {"critics": np.array(len(self.networks)), "critic_unit": np.array(self.unit)}
        arrays["critic_activation"] = np.array(self.activation)
        for i, network in enumerate(self.networks):
            arrays |= pack_network(network, f"critic_{i}_")
        if self.standardise is not None:
            arrays |= {f"critic_{k}": np.asarray(x) for k, x in self.standardise._asdict().items()}
        if self.bounds is not None:
            arrays |= {f"critic_{k}": np.asarray(x) for k, x in self.bounds._asdict().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Critic:
        """Critic of the arrays that `to_arrays` gave."""
        own = {name.removeprefix("critic_"): x for name, x in arrays.items()}
        standardise = None
        if "critic_mean" in arrays:
            standardise = Standardiser(own["mean"], own["scale"], float(own["limit"]))
        bounds = Bounds(own["low"], own["high"]) if "critic_low" in arrays else None
        count = int(arrays["critics"])
        networks = tuple(unpack_network(arrays, f"critic_{i}_") for i in range(count))
        unit, activation = float(own["unit"]), str(arrays["critic_activation"])
        return cls(networks, activation, standardise, unit, bounds)


# Format 1 holds an `Actor`, the only kind when it was made; from 2 on a file names its kind.
POLICY_FORMATS = (1, 2)
ACTOR_KINDS: dict[str, type[NoisyActor] | type[SquashedActor]] = {
    "noisy": NoisyActor,
    "squashed": SquashedActor,
}


SEAL = b"sha256="

BEST_POLICY = "policy_best.npz"
"""File of the policy that was evaluated best."""


def seal(packed: bytes) -> bytes:
    """Give an .npz file without a comment its hash as the comment of the zip file."""
    body = packed[:-2]  # a zip file ends with the length of its comment
    comment = SEAL + hashlib.sha256(body).hexdigest().encode()
    return body + len(comment).to_bytes(2, "little") + comment


def _check_seal(packed: bytes) -> None:
    """Refuse a file whose hash is not the one at its end; files of earlier versions have none."""
    body, mark, digest = packed.rpartition(SEAL)
    if mark and hashlib.sha256(body[:-2]).hexdigest().encode() != digest:
        raise ValueError("its hash is not the one at its end")


@dataclass(frozen=True, eq=False)
class Policy:
    """Trained policy: observations in, actions out, clipped to their bounds."""

    actor: LearnedActor
    low: Array | None
    """Smallest action; None for discrete actions."""
    high: Array | None
    start: int = 0
    """First of the discrete actions."""
    critic: Critic | None = None
    """The critic, if it was kept with the policy (`gammaprime.train`, keep_critic)."""

    def __repr__(self) -> str:
        sizes = [len(layer.weight) for layer in self.actor.network]
        actions = "discrete actions" if self.low is None else f"{len(self.low)} actions"
        hidden = ", ".join(map(str, sizes[1:]))
        return f"Policy({sizes[0]} observations, hidden layers of {hidden or 'none'}, {actions})"

    @classmethod
    def load(cls, run: str | Path, best: bool = False) -> Policy:
        """Load the newest policy of a run directory, or the one in a ``policy.npz``.

        ``best`` loads the one that was evaluated best.
        """
        path = Path(run)
        path = path / (BEST_POLICY if best else "policy.npz") if path.is_dir() else path
        if not path.is_file():
            when = "after an evaluation, " if best else ""
            raise FileNotFoundError(
                f"{path}: no policy here (a run writes it {when}with a checkpoint)"
            )
        packed = path.read_bytes()
        try:
            return cls.unpack(packed)
        except Exception as error:  # damaged bytes meet errors of every kind in zipfile and NumPy
            raise ValueError(f"{path}: not a policy, or damaged: {error!r}") from None

    @classmethod
    def unpack(cls, packed: bytes) -> Policy:
        """Policy in the bytes of a file, whose hash is checked."""
        _check_seal(packed)
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            return cls.from_arrays(dict(arrays))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Policy:
        """Policy of the arrays that `to_arrays` gave."""
        if (number := int(arrays["format"])) not in POLICY_FORMATS:
            raise ValueError(f"format {number} is not of this version, which knows 1 and 2")
        kind: type[LearnedActor] = Actor if number == 1 else ACTOR_KINDS[str(arrays["kind"])]
        actor, activation = kind.from_arrays(arrays), str(arrays["activation"])
        if not actor.network or activation not in ACTIVATIONS:
            raise ValueError(f"{len(actor.network)} layers with activation {activation!r}")
        critic = Critic.from_arrays(arrays) if "critics" in arrays else None
        bounds = (arrays.get("low"), arrays.get("high"))
        return cls(actor, *bounds, int(arrays.get("start", 0)), critic)

    def to_arrays(self) -> dict[str, Array]:
        """Named arrays for a file; none of them needs pickling."""
        arrays = {"format": np.array(1)}
        for kind, actors in ACTOR_KINDS.items():
            if isinstance(self.actor, actors):
                arrays = {"format": np.array(2), "kind": np.array(kind)}
        arrays |= self.actor.to_arrays()
        if self.start:
            arrays["start"] = np.array(self.start)
        if self.critic is not None:
            arrays |= self.critic.to_arrays()
        bounds = {"low": self.low, "high": self.high}
        return arrays | {name: np.asarray(x) for name, x in bounds.items() if x is not None}

    def __call__(self, obs: Array, rng: np.random.Generator | None = None) -> Array:
        """Most likely action, or one drawn with ``rng``, for one observation or a batch.

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

    def predict(self, obs: Array, deterministic: bool = False) -> tuple[Array, None]:
        """Action and None, as Stable-Baselines3's ``predict`` returns them.

        Unless it is deterministic, the action is drawn with fresh randomness; call the policy with
        a generator of your own to draw it again.
        """
        return self(obs, None if deterministic else np.random.default_rng()), None
