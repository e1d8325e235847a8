"""Tianshou 2: `TaylorPPO`, `TaylorA2C`, `TaylorTRPO` and `TaylorNPG` where PPO, A2C, ... stood.

    algorithm = TaylorPPO(advantage=TaylorQ(0.999, order=1), policy=policy, critic=critic, ...)

The algorithms call ``compute_episodic_return`` and ``_preprocess_batch`` through ``self``: a mixin
adds the expansion in the one and the weights in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
    from tianshou.algorithm import A2C, NPG, PPO, TRPO
    from tianshou.algorithm.modelfree.a2c import ActorCriticOnPolicyAlgorithm
    from tianshou.data import Batch, ReplayBuffer, ReplayBufferManager
except ImportError as error:
    raise missing("tianshou", error) from None

__all__ = ["Taylor", "TaylorA2C", "TaylorNPG", "TaylorPPO", "TaylorTRPO"]

OLDEST, NEWEST = "2.0.0", "2.0.1"
check_version("tianshou", OLDEST, NEWEST)
for _kind in (A2C, NPG, PPO, TRPO):
    check_names(_kind, "compute_episodic_return", "_preprocess_batch", "_update_with_batch")
check_names(ReplayBuffer, "unfinished_index", "subbuffer_edges", "sample_indices")


class Taylor(ActorCriticOnPolicyAlgorithm):
    """Mixin of expansions and weights, to stand before an algorithm of Tianshou.

    Args:
        advantage: `TaylorQ`, or a mapping of its settings; None leaves the advantages as they are.
        weighting: `TaylorWeight`, or a mapping of its settings; None weights every step by 1.
        settings: arguments of the algorithm: policy, critic, optim, gamma, ...
    """

    def __init__(
        self,
        *,
        advantage: TaylorQ | GAE | Mapping[str, Any] | None = None,
        weighting: WeightingSlot | Mapping[str, Any] | None = None,
        **settings: Any,
    ):
        super().__init__(**settings)
        self.slots = Slots(advantage, weighting, "collection_step_num_env_steps")
        self.slots.check(self.gamma)
        self._check_order()
        self.clock = Clock()

    def _check_order(self) -> None:
        """Refuse an algorithm that would standardise or recompute weighted advantages."""
        if not (isinstance(self, PPO) and self.slots.weighs) or isinstance(self, TaylorPPO):
            return
        if self.advantage_normalization or self.recompute_adv:
            name = type(self).__name__
            raise ValueError(
                f"{name}: PPO standardises or recomputes advantages after the weights; derive "
                f"{name} from TaylorPPO in the place of Taylor"
            )

    def compute_episodic_return(
        self,
        batch: Any,
        buffer: ReplayBuffer,
        indices: np.ndarray,
        v_s_: Any = None,
        v_s: Any = None,
        **discounts: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute returns and advantages as the algorithm does, then expand the advantages."""
        returns, advantage = super().compute_episodic_return(
            batch, buffer, indices, v_s_, v_s, **discounts
        )
        terminated = np.asarray(batch.terminated, dtype=bool)
        cut = np.asarray(batch.truncated, dtype=bool) | np.isin(indices, buffer.unfinished_index())
        ends = terminated, cut & ~terminated
        return returns, self.slots.expand(advantage, v_s, v_s_, ends, self.gamma)

    def _preprocess_batch(self, batch: Any, buffer: ReplayBuffer, indices: np.ndarray) -> Any:
        """Add what the algorithm adds, then the weights: after the advantages are standardised."""
        _check_buffer(buffer)
        self.slots.check(self.gamma)
        ages = self.clock.count(batch, buffer, indices) if self.slots.weighs else None
        batch = super()._preprocess_batch(batch, buffer, indices)
        return batch if ages is None else self._weigh(batch, self.slots.weigh(ages, self.gamma))

    def _weigh(self, batch: Any, weights: np.ndarray) -> Any:
        batch.adv = batch.adv * torch.as_tensor(weights).to(batch.adv)
        return batch

    def _update_with_batch(self, batch: Any, batch_size: int | None, repeat: int) -> Any:
        stats = super()._update_with_batch(batch=batch, batch_size=batch_size, repeat=repeat)
        vars(stats).update(self.slots.numbers)
        return stats


class TaylorA2C(Taylor, A2C):
    """A2C with the slots ``advantage`` and ``weighting``."""


class TaylorNPG(Taylor, NPG):
    """NPG with the slots ``advantage`` and ``weighting``."""


class TaylorTRPO(Taylor, TRPO):
    """TRPO with the slots ``advantage`` and ``weighting``."""


class TaylorPPO(Taylor, PPO):
    """PPO with the slots ``advantage`` and ``weighting``.

    PPO standardises every minibatch.  Weights must come after that, so weighted minibatches are
    standardised where they are made, in the same way, and not again.
    """

    _working = False

    @property
    def advantage_normalization(self) -> bool:
        """The algorithm's own setting; False while it works on weighted minibatches."""
        return self._standardise and not (self._working and self.slots.weighs)

    @advantage_normalization.setter
    def advantage_normalization(self, value: bool) -> None:
        self._standardise = value

    def _weigh(self, batch: Any, weights: np.ndarray) -> Any:
        batch.taylor_weight = torch.as_tensor(weights).to(batch.adv)
        kind = _Standardised if self._standardise else _Weighted
        object.__setattr__(batch, "__class__", kind)  # a Batch makes every attribute an entry
        return batch

    def _update_with_batch(self, batch: Any, batch_size: int | None, repeat: int) -> Any:
        self._working = True
        try:
            return super()._update_with_batch(batch, batch_size, repeat)
        finally:
            self._working = False


class _Weighted(Batch):
    """Batch whose minibatches hold weighted advantages."""

    def split(self, size: int, shuffle: bool = True, merge_last: bool = False) -> Iterator[Any]:
        """Yield minibatches, as the batch would."""
        for part in super().split(size, shuffle, merge_last):
            part.adv = self.standardise(part.adv) * part.taylor_weight
            yield part

    @staticmethod
    def standardise(advantage: torch.Tensor) -> torch.Tensor:
        """Return advantages as they are."""
        return advantage


class _Standardised(_Weighted):
    """Batch whose minibatches hold standardised and weighted advantages."""

    @staticmethod
    def standardise(advantage: torch.Tensor) -> torch.Tensor:
        """Return advantages as PPO would standardise them."""
        return (advantage - advantage.mean()) / (advantage.std() + 1e-8)


class Clock:
    """Ages of the episodes that go on from one rollout to the next, one for each environment."""

    def __init__(self) -> None:
        self._ages: dict[int, int] = {}
        self._states: dict[int, Any] = {}

    def count(self, batch: Any, buffer: ReplayBuffer, indices: np.ndarray) -> np.ndarray:
        """Return the age of every row of a rollout, which is the whole buffer.

        An episode goes on if a rollout begins in the state in which the last one ended; otherwise
        the environment was reset in between.
        """
        ages = np.zeros(len(indices), dtype=np.int64)
        done = np.asarray(batch.terminated, dtype=bool) | np.asarray(batch.truncated, dtype=bool)
        for i, (low, high) in enumerate(
            zip(buffer.subbuffer_edges[:-1], buffer.subbuffer_edges[1:], strict=True)
        ):
            rows = np.flatnonzero((indices >= low) & (indices < high))
            if not len(rows):
                continue
            first = batch.obs[rows[0]]
            goes_on = i in self._ages and _equal(first, self._states[i])
            starts = np.concatenate([[True], done[rows[:-1]]])
            own = count_ages(starts, np.asarray(self._ages[i] if goes_on else 0))
            ages[rows] = own
            self._ages.pop(i, None)
            if not done[rows[-1]]:
                self._ages[i], self._states[i] = int(own[-1]) + 1, batch.obs_next[rows[-1]]
        return ages


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Batch):
        return all(_equal(one[key], other[key]) for key in one.get_keys())
    return bool(np.array_equal(one, other))


def _check_buffer(buffer: ReplayBuffer) -> None:
    """Refuse buffers without true successors, or that have lost the beginning of a rollout."""
    if not buffer._save_obs_next:
        raise ValueError("ignore_obs_next=True: must be False, or true successors are not known")
    for part in buffer.buffers if isinstance(buffer, ReplayBufferManager) else [buffer]:
        if len(part) == part.maxsize and part._insertion_idx != 0:
            raise ValueError(
                f"buffer of {part.maxsize} steps: must hold a whole rollout of each environment"
            )
