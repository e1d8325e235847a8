"""Trained policies as torch modules, for programs that deploy with torch or ONNX."""

from __future__ import annotations

import torch

from gammaprime.networks import Actor, Layer, Policy, SquashedActor
from gammaprime.typing import Array

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class TorchPolicy(torch.nn.Module):
    """The most likely action of a policy, for a batch of observations.

    Its parameters are those of the network, so that it can be trained further in torch; scales and
    bounds are buffers.
    """

    mean: torch.Tensor
    scale: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        actor = policy.actor
        self._on_policy = isinstance(actor, Actor)
        self._discrete = policy.low is None
        self._start = policy.start
        self._activation = actor.activation if isinstance(actor, Actor) else "relu"
        self._halves = isinstance(actor, SquashedActor) and actor.std_network is None
        self.layers = torch.nn.ModuleList(_linear(layer) for layer in actor.network)
        scaling = actor.standardise if isinstance(actor, Actor) else None
        self._limit = None if scaling is None else float(scaling.limit)
        self._keep("mean", None if scaling is None else scaling.mean)
        self._keep("scale", None if scaling is None else scaling.scale)
        self._keep("low", policy.low)
        self._keep("high", policy.high)

    def _keep(self, name: str, array: Array | None) -> None:
        self.register_buffer(name, None if array is None else torch.as_tensor(array.copy()).float())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Actions within their bounds, or integers.  Shapes: (N, O) -> (N, A) or (N,)."""
        x = obs.float()
        if self._limit is not None:
            x = ((x - self.mean) * self.scale).clamp(-self._limit, self._limit)
        *hidden, last = self.layers
        for layer in hidden:
            x = ACTIVATIONS[self._activation](layer(x))
        x = last(x)
        if self._discrete:
            return x.argmax(-1) + self._start
        if not self._on_policy:
            center = x[..., : x.shape[-1] // 2] if self._halves else x
            unit = torch.tanh(center)
            x = 0.5 * ((self.high + self.low) + (self.high - self.low) * unit)
        return torch.minimum(torch.maximum(x, self.low), self.high)


def to_torch(policy: Policy) -> TorchPolicy:
    """Return a torch module that acts as the policy does without noise.

    Example:
        >>> module = to_torch(gp.load_policy("results/runs/hopper"))  # doctest: +SKIP
        >>> torch.onnx.export(module, torch.zeros(1, 11), "hopper.onnx")  # doctest: +SKIP
    """
    return TorchPolicy(policy)


def _linear(layer: Layer) -> torch.nn.Linear:
    inputs, outputs = layer.weight.shape
    linear = torch.nn.Linear(inputs, outputs)
    with torch.no_grad():
        linear.weight.copy_(torch.as_tensor(layer.weight.T.copy()))
        linear.bias.copy_(torch.as_tensor(layer.bias.copy()))
    return linear
