"""TorchRL: `TaylorGAE` where ``GAE`` stood, and `DensityRatio` for SACLoss and TD3Loss.

advantages = TaylorGAE(TaylorQ(0.999, order=1), gamma=0.99, lmbda=0.95, value_network=critic)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gammaprime.agents import advantages, weightings
from gammaprime.agents.weightings import WeightingSlot
from gammaprime.integrations.rollouts import Slots, check_names, check_version, missing

try:
    import torch
    from tensordict.nn import dispatch
    from torchrl.data import ReplayBuffer
    from torchrl.data.replay_buffers.writers import RoundRobinWriter
    from torchrl.objectives import SACLoss, TD3Loss
    from torchrl.objectives.value import GAE

    from gammaprime.integrations.ratios import Ratio
except ImportError as error:
    raise missing("torchrl", error) from None

__all__ = ["DensityRatio", "TaylorGAE"]

OLDEST, NEWEST = "0.14.0", "0.14.1"
check_version("torchrl", OLDEST, NEWEST)
check_names(GAE, "forward", "_normalize_advantage", "_get_time_dim", "_group_ids")
check_names(SACLoss, "actor_loss", "_maybe_get_priority_weight", "_reduce_loss")
check_names(TD3Loss, "actor_loss", "_maybe_get_priority_weight", "_reduce_loss")
check_names(ReplayBuffer, "write_count", "storage", "writer")


class TaylorGAE(GAE):
    """GAE whose advantages are expanded towards γ' and weighted; the value target stays.

    Everything but the arguments below is as in ``torchrl.objectives.value.GAE``.  Weights are
    multiplied in after the standardisation of ``average_gae``.

    Args:
        advantage: `TaylorQ`, or a mapping of its settings; None leaves the advantages as they are.
        weighting: `TaylorWeight`, or a mapping of its settings; None weights every step by 1.
        step_key: entry with the age inside the episode, which the transform ``StepCounter`` writes.
        logger: a logger of ``torchrl.record`` to which every call logs `numbers`, or None.
        settings: arguments of GAE: gamma, lmbda, value_network, average_gae, ...
    """

    def __init__(
        self,
        advantage: advantages.TaylorQ | advantages.GAE | Mapping[str, Any] | None = None,
        weighting: WeightingSlot | Mapping[str, Any] | None = None,
        *,
        step_key: str | tuple[str, ...] = "step_count",
        logger: Any = None,
        **settings: Any,
    ):
        for name, reason in REFUSED.items():
            if settings.get(name):
                raise ValueError(f"{name}={settings[name]!r}: must be False, {reason}")
        super().__init__(**settings)
        if self.gamma.numel() != 1:
            raise ValueError(f"gamma={settings['gamma']!r}: must be one number")
        self.slots = Slots(advantage, weighting, "frames_per_batch")
        self.slots.check(self._read_gamma())
        self.step_key, self.logger = step_key, logger

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers of the last call: taylor/added, tail_share, survival, mean_weight."""
        return self.slots.numbers

    def _read_gamma(self) -> float:
        """Return γ as it was written: 0.99, and not the nearest float32."""
        return float(str(self.gamma.cpu().numpy()))

    @dispatch  # type: ignore[untyped-decorator]
    def forward(
        self,
        tensordict: Any,
        *,
        params: Any = None,
        target_params: Any = None,
        time_dim: int | None = None,
    ) -> Any:
        """Compute GAE and the value target, then expand and weight the advantages."""
        gamma = self._read_gamma()
        self.slots.check(gamma)
        time = self._get_time_dim(time_dim, tensordict)
        ages = self._read_ages(tensordict, time) if self.slots.weighs else None
        _check_layout(tensordict, self.tensor_keys.steps_to_next_obs)
        # Standardisation must come after the expansion and before the weights.
        standardise = bool(self.average_gae)  # type: ignore[has-type]
        self.average_gae = False
        try:
            super().forward(
                tensordict, params=params, target_params=target_params, time_dim=time_dim
            )
        finally:
            self.average_gae = standardise
        with torch.no_grad():
            advantage = self._expand(tensordict, time, gamma)
            if standardise:
                groups = self._group_ids(tensordict)
                advantage = self._normalize_advantage(advantage, None, groups=groups)
            if ages is not None:
                weights = np.moveaxis(self.slots.weigh(ages, gamma), 0, time)
                advantage = advantage * torch.as_tensor(weights).to(advantage)
        tensordict.set(self.tensor_keys.advantage, advantage)
        if self.logger is not None:
            for name, number in self.numbers.items():
                self.logger.log_scalar(name, number)
        return tensordict

    def _read_ages(self, tensordict: Any, time: int) -> np.ndarray:
        ages = tensordict.get(self.step_key, None)
        if ages is None:
            raise ValueError(
                f"step_key={self.step_key!r}: no such entry, and weights need ages; add the "
                "transform torchrl.envs.StepCounter() to the environment"
            )
        return np.moveaxis(ages.cpu().numpy(), time, 0)

    def _expand(self, tensordict: Any, time: int, gamma: float) -> torch.Tensor:
        """Return expanded advantages; time may be any dimension."""
        keys = self.tensor_keys
        advantage = tensordict.get(keys.advantage)
        done = tensordict.get(("next", keys.done))
        names = keys.value, ("next", keys.value), ("next", keys.terminated)
        value, following, terminated = (tensordict.get(name, None) for name in names)
        if value is None or following is None:
            tensordict.exclude(keys.advantage, keys.value_target, inplace=True)
            raise ValueError("next observations hold NaN: true successors must be known")
        terminated = done if terminated is None else terminated
        arrays = (advantage, value, following, terminated, done & ~terminated)
        before, *values, died, cut = (np.moveaxis(x.cpu().numpy(), time, 0) for x in arrays)
        after = self.slots.expand(before, values[0], values[1], (died, cut), gamma)
        if after is before:
            return advantage
        return torch.as_tensor(np.ascontiguousarray(np.moveaxis(after, 0, time))).to(advantage)


REFUSED = {
    "shifted": "a single call of the critic does not see the true successors",
    "auto_reset_env": "the true successors of truncated steps are not there",
    "differentiable": "no gradient passes through the expansion",
}


def _check_layout(tensordict: Any, steps_key: Any) -> None:
    """Refuse padded trajectories and steps that are not one step."""
    if tensordict.get(steps_key, None) is not None:
        raise ValueError(f"{steps_key}: steps of several steps (MultiStep) cannot be expanded")
    mask = tensordict.get(("collector", "mask"), None)
    if mask is not None and not bool(mask.all()):
        raise ValueError(
            "padded trajectories hide where rollouts are cut: make the collector with "
            "split_trajs=False"
        )


class DensityRatio:
    """Weights w̃ ∝ (f/μ)^τ on the actor's loss; f the latest states, μ the whole replay.

    SAC(γ) and TD3(γ) are ``SACLoss`` and ``TD3Loss`` with ``DensityRatio(loss, replay_buffer)``.
    The ratio learns whenever the actor's loss is computed.  `remove` gives the loss back.

    Args:
        loss: a SACLoss or a TD3Loss, whose reduction is "mean".
        replay_buffer: the replay buffer of the loss, which overwrites its oldest entries.
        weighting: `gammaprime.DensityRatio`, or a mapping of its settings.
        learning_rate: of the ratio, where the slot has none.
        hidden: sizes of the ratio's hidden layers.
        seed: of the ratio's network and of its recent states.
        logger: a logger of ``torchrl.record`` to which every call logs `numbers`, or None.
    """

    def __init__(
        self,
        loss: SACLoss | TD3Loss,
        replay_buffer: ReplayBuffer,
        weighting: weightings.DensityRatio | Mapping[str, Any] | None = None,
        *,
        learning_rate: float = 3e-4,
        hidden: Sequence[int] = (256, 256),
        seed: int = 0,
        logger: Any = None,
    ):
        self.weighting = _read_weighting(weighting)
        _check_loss(loss)
        _check_replay(replay_buffer, self.weighting.recent_size)
        self.loss, self.replay_buffer, self.logger = loss, replay_buffer, logger
        self.ratio: Ratio | None = None
        self._hidden, self._learning_rate = tuple(hidden), learning_rate
        self._rng = np.random.default_rng(seed)
        self._actor_loss = loss.actor_loss
        loss.actor_loss = self._weighted_loss

    @property
    def numbers(self) -> dict[str, float]:
        """Loss and effective share of the last step of the ratio."""
        return {} if self.ratio is None else self.ratio.numbers

    def remove(self) -> None:
        """Give the loss its own actor_loss back."""
        vars(self.loss).pop("actor_loss", None)

    def _weighted_loss(self, tensordict: Any) -> tuple[torch.Tensor, Any]:
        scale = self._learn(tensordict)
        if self.weighting.inverse_temperature == 0.0:
            loss, extra = self._actor_loss(tensordict)
        else:
            key = self.loss.tensor_keys.priority_weight
            weighted = tensordict.copy()
            given = tensordict.get(key, None)
            weighted.set(key, scale if given is None else scale * given.reshape(scale.shape))
            loss, extra = self._actor_loss(weighted)
        return (loss if self.weighting.scale == "sum" else loss / len(scale)), extra

    def _learn(self, tensordict: Any) -> torch.Tensor:
        """Take one step towards the ratio; return B·w̃.  Shapes: -> (B,)."""
        replayed = self._read_states(tensordict)
        if self.ratio is None:
            seed = int(self._rng.integers(2**62))
            shape = replayed.shape[-1], self._hidden
            self.ratio = Ratio(self.weighting, *shape, seed, replayed.device)
        count = self.weighting.batch_size or len(replayed)
        buffer = self.replay_buffer
        rows = self._rng.integers(min(len(buffer), self.weighting.recent_size), size=count)
        size = buffer.storage.max_size
        recent = buffer[torch.as_tensor((buffer.write_count - 1 - rows) % size)]
        with torch.enable_grad():
            scale = self.ratio.learn(
                self._read_states(recent).to(replayed.device), replayed, self._learning_rate
            )
        if self.logger is not None:
            for name, number in self.numbers.items():
                self.logger.log_scalar(name, number)
        return scale[:, 0]

    def _read_states(self, tensordict: Any) -> torch.Tensor:
        """Return what the actor sees, one row for each sample.  Shapes: -> (B, F)."""
        parts = [tensordict.get(key) for key in self.loss.actor_network.in_keys]
        for key, part in zip(self.loss.actor_network.in_keys, parts, strict=True):
            if part.ndim != 2:
                raise ValueError(f"{key} has shape {tuple(part.shape)}: must be (batch, features)")
        return torch.cat([part.detach().float() for part in parts], -1)


def _read_weighting(weighting: Any) -> weightings.DensityRatio:
    if weighting is None:
        weighting = {}
    if isinstance(weighting, Mapping):
        try:
            weighting = weightings.DensityRatio(**weighting)
        except TypeError as error:
            raise ValueError(f"weighting={dict(weighting)!r}: {error}") from None
    if not isinstance(weighting, weightings.DensityRatio):
        raise ValueError(f"weighting={weighting!r}: must be DensityRatio or a mapping")
    if weighting.gamma_prime != 1.0:
        raise ValueError(
            f"gamma_prime={weighting.gamma_prime!r}: must be 1, a replay buffer has no ages"
        )
    return weighting


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, SACLoss | TD3Loss):
        raise ValueError(f"loss={type(loss).__name__}: must be SACLoss or TD3Loss")
    if loss.reduction != "mean":
        raise ValueError(f"reduction={loss.reduction!r}: must be 'mean'")
    if loss.use_prioritized_weights not in (True, "auto"):
        raise ValueError(
            f"use_prioritized_weights={loss.use_prioritized_weights!r}: must be True or 'auto', "
            "which is how the weights reach the actor's loss"
        )
    if "actor_loss" in vars(loss):
        raise ValueError("loss: must hold one DensityRatio, not two")


def _check_replay(replay_buffer: Any, recent_size: int) -> None:
    if not isinstance(replay_buffer, ReplayBuffer) or not isinstance(
        replay_buffer.writer, RoundRobinWriter
    ):
        raise ValueError(
            f"replay_buffer={type(replay_buffer).__name__}: must be a ReplayBuffer that "
            "overwrites its oldest entries (RoundRobinWriter)"
        )
    if replay_buffer.storage.ndim != 1:
        raise ValueError("replay_buffer: must store single steps (ndim=1)")
    if recent_size >= replay_buffer.storage.max_size:
        raise ValueError(
            f"recent_size={recent_size}: must be below the size of the replay, "
            f"{replay_buffer.storage.max_size}, or the two never differ"
        )
