"""Networks as they act and learn: layers, and what goes into the first of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = Any


class Layer(NamedTuple):
    """One affine map x ↦ xW + b."""

    weight: Array
    bias: Array


Network: TypeAlias = tuple[Layer, ...]


def apply_network(
    network: Network,
    x: Array,
    activation: Callable[[Array], Array],
    multiply: Callable[[Array, Array], Array] = operator.matmul,
) -> Array:
    """The network's output, without an activation after its last layer; JAX or NumPy arrays.

    Shapes: (..., inputs) -> (..., outputs).
    """
    *hidden, last = network
    for layer in hidden:
        x = activation(_apply_layer(layer, x, multiply))
    return _apply_layer(last, x, multiply)


def _apply_layer(layer: Layer, x: Array, multiply: Callable[[Array, Array], Array]) -> Array:
    x = multiply(x, layer.weight)
    x += layer.bias  # in place with NumPy, where a new array takes longer than the sum
    return x


class Standardiser(NamedTuple):
    """Observations as networks see them: clip((x − mean)·scale, ±limit)."""

    mean: Array
    scale: Array
    limit: float

    def __call__(self, obs: Array) -> Array:
        return ((obs - self.mean) * self.scale).clip(-self.limit, self.limit)


def network_inputs(obs: np.ndarray) -> np.ndarray:
    """Shapes: (N, ...) -> (N, O) float32."""
    return np.asarray(obs, dtype=np.float32).reshape(len(obs), -1)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


ACTIVATIONS = {"tanh": np.tanh, "relu": relu}


def pack_network(network: Network, prefix: str = "") -> dict[str, np.ndarray]:
    """The layers as named arrays."""
    return {
        f"{prefix}{name}_{i}": np.asarray(x)
        for i, layer in enumerate(network)
        for name, x in layer._asdict().items()
    }


def unpack_network(arrays: Mapping[str, np.ndarray], prefix: str = "") -> Network:
    """The layers of named arrays, () where there are none."""
    count = sum(name.startswith(f"{prefix}weight_") for name in arrays)
    return tuple(
        Layer(arrays[f"{prefix}weight_{i}"], arrays[f"{prefix}bias_{i}"]) for i in range(count)
    )
