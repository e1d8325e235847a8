"""Density ratios in Stable-Baselines3's TD3, DDPG and SAC and sb3-contrib's TQC.

The whole of the policy's loss passes through the outputs of the actor's last layers, one row for
each sample.  Scaling the gradient of row i there by B·w̃_i turns the loss's mean into Σ w̃_i, and
leaves the critics, the entropy coefficient and the trainer's logs as they are.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback, EventCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from gammaprime.agents import weightings
from gammaprime.integrations.ratios import Ratio

TRAINERS = {"TD3": ("mu",), "SAC": ("mu", "log_std"), "TQC": ("mu", "log_std")}
"""Last layers of the actor by trainer; DDPG is a TD3."""

_HOOKS: WeakKeyDictionary[BaseAlgorithm, list[Any]] = WeakKeyDictionary()
"""Handles of the hooks in each model, so that those of a training that broke off are found."""


class DensityRatio(BaseCallback):
    """Weights w̃ ∝ (f/μ)^τ on the policy's term; f the latest states, μ the whole replay.

    TD3(γ), DDPG(γ), SAC(γ) and TQC(γ) are the trainer with ``callback=DensityRatio()``.  The
    ratio is a network on the actor's features; it learns whenever the policy does.

    Args:
        inverse_temperature: τ; 0 is the plain trainer, 1 is self-normalised importance sampling.
        scale: "sum" takes Σ w̃_i; "paper" divides by the size of the batch once more.
        recent_size: number of latest states that stand for f; below the size of the replay.
        batch_size: recent states in each step of the ratio; None takes the trainer's batch size.
        learning_rate: of the ratio; None takes the actor's.
        seed: of the ratio's network and of its recent states; None takes the model's.
        verbose: verbosity of the callback, as in Stable-Baselines3.
    """

    def __init__(
        self,
        inverse_temperature: float = 0.1,
        scale: str = "sum",
        recent_size: int = 10_000,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        seed: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(verbose)
        self.weighting = weightings.DensityRatio(
            inverse_temperature,
            scale,
            recent_size=recent_size,
            batch_size=batch_size,
            learning_rate=learning_rate,
        )
        self.seed = seed
        self.ratio: Ratio | None = None
        self._hooks: list[Any] = []
        self._scale: torch.Tensor | None = None

    def _init_callback(self) -> None:
        model = self.model
        _remove_hooks(self._hooks)
        _remove_hooks(_HOOKS.get(model, []))
        check_parent(self)
        self._layers = _find_layers(model)
        if model.use_sde:
            raise ValueError("use_sde=True: must be False, gSDE mixes the rows of a minibatch")
        if model.policy.share_features_extractor:
            raise ValueError(
                "share_features_extractor=True: must be False, or weights would reach the critics"
            )
        layers = dict(model.actor.named_children())
        for name in ("features_extractor", *self._layers):
            if name not in layers:
                raise ValueError(
                    f"actor of {type(model).__name__} has no layer {name}: must be the trainer's "
                    "own, or one with the same layers, where weights enter"
                )
        buffer = model.replay_buffer
        if isinstance(buffer, HerReplayBuffer) or not isinstance(buffer, ReplayBuffer):
            raise ValueError(
                f"replay buffer {type(buffer).__name__}: must be a ReplayBuffer or a "
                "DictReplayBuffer, whose stored states are those that are sampled"
            )
        if self.weighting.recent_size >= buffer.buffer_size * buffer.n_envs:
            raise ValueError(
                f"recent_size={self.weighting.recent_size}: must be below the size of the replay, "
                f"{buffer.buffer_size * buffer.n_envs}, or the two never differ"
            )

    def _on_training_start(self) -> None:
        check_parent(self)
        others = _HOOKS.get(self.model, [])
        if others:
            _remove_hooks(others)
            raise ValueError("callback: must hold one DensityRatio, not two")
        _HOOKS[self.model] = self._hooks
        actor = self.model.actor
        if self.ratio is None:
            self._start_ratio(actor)
        layers = dict(actor.named_children())
        self._hooks.append(layers["features_extractor"].register_forward_hook(self._see_features))
        for name in self._layers:
            self._hooks.append(layers[name].register_forward_hook(self._scale_gradient))

    def _start_ratio(self, actor: Any) -> None:
        """Make the network of the ratio, of the actor's size."""
        seed = self.model.seed if self.seed is None else self.seed
        self._rng = np.random.default_rng(seed)
        settings = actor.features_dim, list(actor.net_arch), int(self._rng.integers(2**62))
        self.ratio = Ratio(self.weighting, *settings, self.model.device)

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        _remove_hooks(self._hooks)

    def _see_features(self, module: torch.nn.Module, inputs: Any, features: torch.Tensor) -> None:
        """Train the ratio where the actor looks at a minibatch to learn from it."""
        if not torch.is_grad_enabled():
            return
        if self.num_timesteps != self.model.num_timesteps:
            _remove_hooks(self._hooks)
            self._scale = None
            warnings.warn(
                "DensityRatio is no longer among the callbacks: training goes on without it",
                stacklevel=2,
            )
            return
        self._scale = self._learn(features.detach())

    def _learn(self, features: torch.Tensor) -> torch.Tensor:
        """Take one step towards the ratio; return B·w̃ of the minibatch before that step.

        Shapes: (B, F) -> (B, 1).
        """
        assert self.ratio is not None
        count = self.weighting.batch_size or len(features)
        actor = self.model.actor
        with torch.no_grad():
            recent = actor.extract_features(self._draw(count), actor.features_extractor)
        rate = actor.optimizer.param_groups[0]["lr"]
        scale = self.ratio.learn(recent, features, rate)
        for name, number in self.ratio.numbers.items():
            self.logger.record_mean(name, number)
        return scale if self.weighting.scale == "sum" else scale / len(scale)

    def _draw(self, count: int) -> Any:
        """Return recent states, as the replay would hand them to the actor."""
        buffer = self.model.replay_buffer
        filled = buffer.buffer_size if buffer.full else buffer.pos
        rows = min(filled, max(self.weighting.recent_size // buffer.n_envs, 1))
        row = (buffer.pos - 1 - self._rng.integers(rows, size=count)) % buffer.buffer_size
        column = self._rng.integers(buffer.n_envs, size=count)
        normaliser = self.model.get_vec_normalize_env()
        if isinstance(buffer, DictReplayBuffer):
            obs = {name: array[row, column] for name, array in buffer.observations.items()}
            obs = buffer._normalize_obs(obs, normaliser)
            return {name: buffer.to_torch(array) for name, array in obs.items()}
        obs = buffer.observations[row, column, :]
        return buffer.to_torch(buffer._normalize_obs(obs, normaliser))

    def _scale_gradient(self, module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        if torch.is_grad_enabled() and self._scale is not None:
            scale = self._scale
            output.register_hook(lambda x: x * scale)  # type: ignore[no-untyped-call]


def check_parent(callback: BaseCallback) -> None:
    """Raise if a callback stands inside one that calls it at some steps only.

    A list inside such a callback tells its own callbacks so only after they are initialised.
    """
    if isinstance(callback.parent, EventCallback):
        raise ValueError(
            f"{type(callback).__name__} inside {type(callback.parent).__name__}: must see every "
            "step; give it to learn itself, alone or in a list"
        )


def _find_layers(model: Any) -> tuple[str, ...]:
    """Return the names of the actor's last layers, or raise with a trainer that is not known.

    SBX's trainers have the same names, but their updates are compiled as a whole.
    """
    if isinstance(model, OffPolicyAlgorithm):
        for kind in type(model).__mro__:
            known = kind.__module__.startswith(("stable_baselines3.", "sb3_contrib."))
            if known and kind.__name__ in TRAINERS:
                return TRAINERS[kind.__name__]
    raise ValueError(
        f"DensityRatio with {type(model).__module__}.{type(model).__name__}: must be TD3, "
        "DDPG, SAC or TQC of stable_baselines3 or sb3_contrib"
    )


def _remove_hooks(hooks: list[Any]) -> None:
    while hooks:
        hooks.pop().remove()
