"""RLlib's PPO on its new API stack: a learner, and the connector that it adds to its pipeline.

    config.learners(learner_class=TaylorPPOLearner, learner_config_dict={"advantage": TaylorQ()})

``GeneralAdvantageEstimation`` puts standardised advantages and value targets in the batch.  The
connector stands behind it: it asks the critic once more, expands the advantages, standardises
them in the same way and multiplies the weights in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gammaprime.agents.advantages import GAE, TaylorQ
from gammaprime.agents.weightings import WeightingSlot
from gammaprime.integrations.rollouts import Slots, check_names, check_version, missing

try:
    import torch
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.core.columns import Columns
    from ray.rllib.evaluation.postprocessing import Postprocessing
    from ray.rllib.utils.numpy import convert_to_numpy
except ImportError as error:
    raise missing("rllib", error) from None

__all__ = ["TaylorAdvantages", "TaylorPPOLearner"]

OLDEST, NEWEST = "2.60.0", "2.60.0"
check_version("ray", OLDEST, NEWEST)
check_names(PPOTorchLearner, "build", "after_gradient_based_update")
check_names(ConnectorV2, "single_agent_episode_iterator")
check_names(Columns, "LOSS_MASK", "TERMINATEDS", "TRUNCATEDS")


class TaylorAdvantages(ConnectorV2):
    """Learner connector that expands and weights advantages; stands behind GAE's connector.

    Args:
        input_observation_space: as in every connector.
        input_action_space: as in every connector.
        advantage: `TaylorQ`, or a mapping of its settings; None leaves the advantages as they are.
        weighting: `TaylorWeight`, or a mapping of its settings; None weights every step by 1.
        gamma: the discount of the advantages.
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        advantage: TaylorQ | GAE | Mapping[str, Any] | None = None,
        weighting: WeightingSlot | Mapping[str, Any] | None = None,
        gamma: float,
    ):
        super().__init__(input_observation_space, input_action_space)
        self.gamma = gamma
        self._given = advantage, weighting
        self._make_slots().check(gamma)
        self.slots: dict[str, Slots] = {}
        """Slots of every module, with the numbers of its last batch."""

    def _make_slots(self) -> Slots:
        return Slots(*self._given, "train_batch_size_per_learner")

    def __call__(
        self, *, rl_module: Any, episodes: Sequence[Any], batch: dict[str, Any], **kwargs: Any
    ) -> Any:
        """Change the advantages of every module's batch."""
        parts = list(self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False))
        for module_id, columns in batch.items():
            if Postprocessing.ADVANTAGES in columns:
                check_module(rl_module[module_id])
                own = [part for part in parts if part.module_id in (None, module_id)]
                slots = self.slots.setdefault(module_id, self._make_slots())
                self._change(slots, rl_module[module_id], columns, own)
        return batch

    def _change(self, slots: Slots, module: Any, columns: Any, episodes: list[Any]) -> None:
        """Expand, standardise and weight the advantages of one module."""
        given = columns[Postprocessing.ADVANTAGES]
        # Every chunk ends in a row of its own, which holds the successor of its last step.
        lengths = [len(episode) for episode in episodes]
        real = convert_to_numpy(columns[Columns.LOSS_MASK]).astype(bool)
        if sum(lengths) != len(given) or int(real.sum()) != len(given) - len(lengths):
            raise ValueError(
                f"batch of {len(given)} rows: must hold the steps of the episodes and one more "
                "row each, as AddOneTsToEpisodesAndTruncate makes them"
            )
        advantages = self._expand(slots, module, columns, real)
        if slots.weighs:
            first = [episode.t_started for episode in episodes]
            ages = [start + np.arange(n - 1) for start, n in zip(first, lengths, strict=True)]
            weights = np.ones(len(given), dtype=np.float32)
            weights[real] = slots.weigh(np.concatenate(ages), self.gamma)
            advantages = advantages * torch.as_tensor(weights).to(given)
        columns[Postprocessing.ADVANTAGES] = advantages

    def _expand(self, slots: Slots, module: Any, columns: Any, real: np.ndarray) -> torch.Tensor:
        given = columns[Postprocessing.ADVANTAGES]
        if not isinstance(slots.advantage, TaylorQ):
            return given
        with torch.no_grad():
            values = convert_to_numpy(module.compute_values(columns))
        advantage = convert_to_numpy(columns[Postprocessing.VALUE_TARGETS]) - values
        following = np.append(values[1:], np.float32(0.0))
        names = Columns.TERMINATEDS, Columns.TRUNCATEDS
        died, cut = (convert_to_numpy(columns[name]).astype(bool)[real] for name in names)
        before = advantage[real]
        ends = died, cut & ~died
        after = slots.expand(before, values[real], following[real], ends, self.gamma)
        if np.array_equal(after, before):
            return given
        advantage[real] = after
        # As GeneralAdvantageEstimation does, over all rows.
        standard = (advantage - advantage.mean()) / max(1e-4, advantage.std())
        return torch.as_tensor(standard).to(given)


def check_module(module: Any) -> None:
    """Refuse recurrent modules, whose batches are padded."""
    if module.is_stateful():
        raise ValueError(
            f"{type(module).__name__} is stateful: padded recurrent batches cannot be expanded"
        )


class TaylorPPOLearner(PPOTorchLearner):
    """PPO's learner with the slots ``advantage`` and ``weighting`` of its learner_config_dict."""

    def build(self) -> None:
        """Build the learner, and put `TaylorAdvantages` at the end of its pipeline."""
        settings = self.config.learner_config_dict
        self.taylor = TaylorAdvantages(
            advantage=settings.get("advantage"),
            weighting=settings.get("weighting"),
            gamma=self.config.gamma,
        )
        if not self.config.add_default_connectors_to_learner_pipeline:
            raise ValueError(
                "add_default_connectors_to_learner_pipeline=False: must be True, or put "
                "TaylorAdvantages behind GeneralAdvantageEstimation yourself"
            )
        super().build()
        self.module.foreach_module(lambda module_id, module: check_module(module))
        if self._learner_connector is not None:
            self._learner_connector.append(self.taylor)

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Log the numbers of the last batch beside the losses."""
        super().after_gradient_based_update(timesteps=timesteps)
        for module_id, slots in self.taylor.slots.items():
            for name, number in slots.numbers.items():
                self.metrics.log_value((module_id, name), number, window=1)
