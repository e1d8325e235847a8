"""Stable-Baselines3, sb3-contrib and SBX's PPO: callbacks for their own trainers.

    model.learn(1_000_000, callback=Taylor(TaylorQ(0.999, order=1), TaylorWeight(0.999)))

The trainers compute advantages in ``RolloutBuffer.compute_returns_and_advantage`` and hand out
minibatches in ``RolloutBuffer.get``.  `Taylor` puts a class of its own above that of the model's
buffer while it trains, and takes it away afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gammaprime.agents.advantages import GAE, TaylorQ
from gammaprime.agents.weightings import WeightingSlot
from gammaprime.integrations.rollouts import (
    Slots,
    check_names,
    check_version,
    count_ages,
    missing,
)

try:
    import torch
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
    from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.policies import BaseModel

    from gammaprime.integrations.sb3_evaluation import Judge
    from gammaprime.integrations.sb3_off_policy import DensityRatio, check_parent
except ImportError as error:
    raise missing("sb3", error) from None

__all__ = ["DensityRatio", "Judge", "Taylor"]

OLDEST, NEWEST = "2.6.0", "2.9.2"
OLDEST_SBX, NEWEST_SBX = "0.28.0", "0.28.0"
check_version("stable_baselines3", OLDEST, NEWEST)
check_names(RolloutBuffer, "compute_returns_and_advantage", "get", "_get_samples", "reset")
check_names(BaseCallback, "_init_callback", "_on_training_start", "_on_rollout_start")
check_names(EvalCallback, "_log_success_callback")
check_names(ReplayBuffer, "_normalize_obs", "to_torch")
check_names(BaseModel, "extract_features")


class Taylor(BaseCallback):
    """Expansions in PPO, A2C, TRPO, MaskablePPO, RecurrentPPO and SBX's PPO.

    The trainer's γ stays the discount of its critic and of its advantages; γ' belongs to the
    slots.  Nothing remains in the model after ``learn``, nor in a model that is saved during it.

    Args:
        advantage: `TaylorQ`, or a mapping of its settings; None leaves the trainer's advantages.
        weighting: `TaylorWeight`, or a mapping of its settings; None weights every step by 1.
        verbose: verbosity of the callback, as in Stable-Baselines3.
    """

    def __init__(
        self,
        advantage: TaylorQ | GAE | Mapping[str, Any] | None = None,
        weighting: WeightingSlot | Mapping[str, Any] | None = None,
        verbose: int = 0,
    ):
        super().__init__(verbose)
        self.slots = Slots(advantage, weighting, "n_steps")
        self.rollout = Rollout((0, 0), None)
        """The rollout under way, or the last one."""
        self.started = False
        """True if the callback has seen the start of the rollout under way."""
        self.weighing = False
        """True while the trainer works on a weighted minibatch."""

    def _init_callback(self) -> None:
        model = self.model
        check_parent(self)
        if not isinstance(model, OnPolicyAlgorithm):
            raise ValueError(
                f"Taylor with {type(model).__name__}: must be an on-policy trainer (PPO, A2C, "
                "TRPO, MaskablePPO, RecurrentPPO); TD3, DDPG, SAC and TQC take DensityRatio"
            )
        if any(kind.__module__.startswith("sbx.") for kind in type(model).__mro__):
            check_version("sbx-rl", OLDEST_SBX, NEWEST_SBX)
        remove_hooks(model)
        self.slots.check(model.gamma)
        if isinstance(self.slots.advantage, TaylorQ) and model.gamma == 0.0:
            raise ValueError("gamma=0.0: must be above 0, or values at time limits cannot be read")
        if self.slots.weighs and "normalize_advantage" not in vars(model):
            raise ValueError(
                f"weighting={self.slots.weighting!r}: must be None with {type(model).__name__}, "
                "whose normalisation of advantages is not known"
            )
        self._clock = _read_clock(model)
        if self.slots.weighs and self._clock is None:
            raise ValueError(
                "reset_num_timesteps=False: the ages of the running episodes are not known, "
                "because Taylor has not seen their first steps; begin new ones with "
                "model.set_env(model.get_env()), or reset_num_timesteps=True"
            )

    def _on_training_start(self) -> None:
        check_parent(self)
        if isinstance(self.model.rollout_buffer, Hooked):
            raise ValueError("callback: must hold one Taylor, not two")
        self.started = self.weighing = False
        add_hooks(self.model, self)

    def _on_rollout_start(self) -> None:
        ages = None if self._clock is None else self._clock.ages.copy()
        buffer = self.model.rollout_buffer
        self.started = True
        self.rollout = Rollout((buffer.buffer_size, buffer.n_envs), ages)

    def _on_step(self) -> bool:
        dones = self.locals["dones"]
        self.rollout.see(
            self.locals["rewards"], np.asarray(dones, dtype=bool), self.locals["infos"]
        )
        if self._clock is not None:
            self._clock.advance(self.model, dones)
        return True

    def _on_training_end(self) -> None:
        remove_hooks(self.model)

    def receive(self, buffer: RolloutBuffer, last_values: torch.Tensor, dones: np.ndarray) -> None:
        """Change the advantages of a whole rollout, which the trainer has just computed."""
        rollout = self.rollout
        rollout.close(buffer, self.model.gamma, last_values, dones)
        ends = rollout.terminated, rollout.truncated
        arrays = buffer.advantages, buffer.values, rollout.next_value
        buffer.advantages = self.slots.expand(*arrays, ends, buffer.gamma)
        if self.slots.weighs:
            weights = self.slots.weigh(rollout.ages(buffer), buffer.gamma)
            rollout.weights = buffer.swap_and_flatten(weights)
        for name, number in self.slots.numbers.items():
            self.logger.record_mean(name, number)

    def weigh(self, buffer: RolloutBuffer, samples: Any, rows: np.ndarray) -> Any:
        """Return a minibatch whose advantages are standardised, as the trainer would, and weighted.

        Weights must come after the standardisation: before it, a weight near 0 would turn into
        −mean/deviation.  They are not negative, so they pass through the trainer's min and clip.
        """
        weights, advantages = self.rollout.weights[rows], samples.advantages
        if "mask" in samples._fields:  # recurrent: padded
            weights = buffer.pad_and_flatten(weights)
            counted = advantages[samples.mask > 1e-8]
        else:
            weights = buffer.to_torch(weights.flatten())
            # TRPO standardises what it has sub-sampled.
            counted = advantages[:: vars(self.model).get("sub_sampling_factor", 1)]
        if vars(self.model)["normalize_advantage"] and len(counted) > 1:
            # SBX divides by N, as JAX does, torch by N − 1; SBX's policy has no torch parameters.
            correction = int(any(True for _ in self.model.policy.parameters()))
            spread = counted.std(correction=correction)
            advantages = (advantages - counted.mean()) / (spread + 1e-8)
        return samples._replace(advantages=advantages * weights)


class Rollout:
    """Record of one rollout that the trainer's buffer does not hold."""

    def __init__(self, shape: tuple[int, int], first_ages: np.ndarray | None):
        self.seen = np.zeros(shape)
        """Rewards before the trainer adds γV(terminal) at truncations."""
        self.truncated = np.zeros(shape, dtype=bool)
        self.terminated = np.zeros(shape, dtype=bool)
        self.next_value = np.zeros(shape)
        """Values of true successors at cuts, 0 elsewhere."""
        self.weights = np.zeros((0, 1), dtype=np.float32)
        """(N·T, 1), in the order of minibatches."""
        self._first_ages = first_ages
        self._rows = 0

    def see(self, rewards: np.ndarray, dones: np.ndarray, infos: list[dict[str, Any]]) -> None:
        """Take one step, before the trainer changes its rewards."""
        self.seen[self._rows] = rewards
        if dones.any():
            for i in np.flatnonzero(dones):
                limit = infos[i].get("TimeLimit.truncated", False)
                self.truncated[self._rows, i] = limit and "terminal_observation" in infos[i]
        self._rows += 1

    def close(
        self, buffer: RolloutBuffer, gamma: float, last_values: torch.Tensor, dones: np.ndarray
    ) -> None:
        """Find out how every row ended, and the values of successors at cuts."""
        if self._rows != len(self.seen):
            raise ValueError(f"Taylor saw {self._rows} of {len(self.seen)} steps of a rollout")
        done = np.empty_like(self.truncated)
        done[:-1], done[-1] = buffer.episode_starts[1:] > 0.0, dones
        self.terminated = done & ~self.truncated
        added = buffer.rewards - self.seen
        same = buffer.rewards == self.seen.astype(buffer.rewards.dtype)
        if not same[~self.truncated].all():
            raise ValueError(
                "rewards were changed after Taylor had seen them: put Taylor behind the callback "
                "that changes them"
            )
        self.next_value[-1] = last_values.detach().cpu().numpy().reshape(-1)
        self.next_value[self.truncated] = added[self.truncated] / gamma

    def ages(self, buffer: RolloutBuffer) -> np.ndarray:
        """Age of every row inside its episode.  Shapes: (T, N)."""
        return count_ages(buffer.episode_starts > 0.0, self._first_ages)


class Clock:
    """Ages of a model's running episodes, as of its step ``num_timesteps``."""

    def __init__(self, model: BaseAlgorithm):
        self.ages = np.zeros(model.n_envs, dtype=np.int64)
        self.num_timesteps = model.num_timesteps
        self._flags = [model._last_episode_starts]
        """The arrays of which the model holds one, unless its episodes went on unseen."""

    def advance(self, model: BaseAlgorithm, dones: np.ndarray) -> None:
        """Count one step of every environment."""
        self.ages += 1
        self.ages[np.asarray(dones, dtype=bool)] = 0
        self.num_timesteps = model.num_timesteps
        # The trainer keeps the second one next, or still the first one if it stops at this step.
        self._flags = [model._last_episode_starts, dones]

    def has_seen(self, model: BaseAlgorithm) -> bool:
        """Return True if the flags that the model holds are those of the last steps."""
        # Identity: a reset makes new arrays, and steps may be counted from 0 again.
        return any(flags is model._last_episode_starts for flags in self._flags)


_CLOCKS: WeakKeyDictionary[BaseAlgorithm, Clock] = WeakKeyDictionary()
"""One for each model, so that ages outlive a callback: learn may be called again with another."""


def _read_clock(model: BaseAlgorithm) -> Clock | None:
    """Return the clock of a model's running episodes, or None if their ages are not known."""
    clock = _CLOCKS.get(model)
    if clock is not None and clock.has_seen(model):
        return clock if clock.num_timesteps == model.num_timesteps else None
    if not np.all(model._last_episode_starts):
        return None
    _CLOCKS[model] = clock = Clock(model)
    return clock


class Hooked(RolloutBuffer):
    """Class above that of a rollout buffer: the trainer's methods, and then ours."""

    taylor: Taylor

    def reset(self) -> None:
        """Begin a rollout, which is expanded only if the callback sees its start."""
        self.taylor.started = False
        super().reset()

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: np.ndarray) -> None:
        """Compute advantages and returns, then change the advantages."""
        super().compute_returns_and_advantage(last_values, dones)
        if not self.taylor.started:
            remove_hooks(self.taylor.model)
            warnings.warn(
                "Taylor is no longer among the callbacks: training goes on without it",
                stacklevel=2,
            )
        else:
            self.taylor.receive(self, last_values, dones)

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Yield minibatches, weighted if the callback weighs."""
        self.taylor.weighing = self.taylor.slots.weighs
        try:
            yield from super().get(batch_size)
        finally:
            self.taylor.weighing = False

    def _get_samples(self, batch_inds: np.ndarray, *args: Any) -> Any:
        samples = super()._get_samples(batch_inds, *args)
        weighs = self.taylor.slots.weighs
        return self.taylor.weigh(self, samples, batch_inds) if weighs else samples


class Weighed(OnPolicyAlgorithm):
    """Class above that of a model: it does not standardise what is already standardised.

    The model's own setting stays where it is, so that a model saved at any time is plain.
    """

    @property
    def normalize_advantage(self) -> bool:
        """False while the trainer works on a weighted minibatch, else the model's own setting."""
        return self.__dict__["normalize_advantage"] and not self.rollout_buffer.taylor.weighing

    @normalize_advantage.setter
    def normalize_advantage(self, value: bool) -> None:
        self.__dict__["normalize_advantage"] = value


def add_hooks(model: OnPolicyAlgorithm, taylor: Taylor) -> None:
    """Put our classes above those of a model's buffer and, if it weighs, of the model."""
    model.rollout_buffer.taylor = taylor
    _put_above(model.rollout_buffer, Hooked)
    if taylor.slots.weighs:
        _put_above(model, Weighed)


def _put_above(thing: Any, ours: type) -> None:
    kind = type(thing)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    thing.__class__ = type(kind.__name__, (ours, kind), names)


def remove_hooks(model: OnPolicyAlgorithm) -> None:
    """Give a model and its buffer their own classes back; they may have them already."""
    for thing, ours in ((model, Weighed), (model.rollout_buffer, Hooked)):
        if isinstance(thing, ours):
            thing.__class__ = type(thing).__bases__[1]
    vars(model.rollout_buffer).pop("taylor", None)
