"""The off-policy loop: some steps, then some updates from minibatches of the replay buffer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gammaprime.agents import OffPolicyAgent
from gammaprime.agents.off_policy import Batch
from gammaprime.agents.weightings import DensityRatio, Recent
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.lazy import jax
from gammaprime.loops.loop import Arrays, Loop, check_update, join_parts
from gammaprime.loops.replay import Replay
from gammaprime.networks import Bounds, Critic, LearnedActor, UniformActor
from gammaprime.types import Trajectory


class OffPolicyLoop(Loop):
    """A rollout into the replay buffer, then several updates in one compiled call.

    The actions of the first ``random_steps`` are uniform, and nothing is learned before
    ``learning_starts``; both are counted in whole rollouts.  A snapshot holds the number of
    transitions, not the transitions: `Replay.take` and `Replay.put` move them, so that each can
    be stored once.

    Paper: algo:off.
    """

    agent: OffPolicyAgent
    replay: Replay
    parameters = (
        *(".learned.policy.params", ".learned.critics.params"),
        *(".learned.target_policy", ".learned.target_critics", ".learned.log_entropy_coef.params"),
    )

    def __init__(
        self, agent: OffPolicyAgent, env: VecEnv, total_steps: int, seed: int, gamma_prime: float
    ) -> None:
        space = continuous_actions(env)
        super().__init__(agent, env, total_steps, seed, gamma_prime)
        num_inputs, bounds = int(np.prod(env.observation.shape)), Bounds(space.low, space.high)
        self.state = agent.init(jax.random.key(self.init_seed), bounds, num_inputs)
        self.learn_key = jax.random.key(self.learn_seed)
        self.uniform = UniformActor(space.low, space.high)
        self._warn_if_too_short()
        # A ring that is never filled need not be larger than what fills it.
        size = min(agent.replay_size, self.total_steps)
        self.replay = Replay(size, num_inputs, int(np.prod(space.shape)))

    def _warn_if_too_short(self) -> None:
        agent = self.agent
        what: dict[str, tuple[int, str]] = {}
        if isinstance(agent.weighting, DensityRatio):
            what["recent_size"] = agent.weighting.recent_size, "weighs every state alike"
        what["learning_starts"] = agent.learning_starts - 1, "learns nothing"
        what["random_steps"] = agent.random_steps, "never acts with its policy"
        for name, (least, effect) in what.items():
            if self.total_steps <= least:
                warnings.warn(
                    f"steps={self.total_steps}: a run that is over by {name} {effect}", stacklevel=4
                )

    @property
    def steps(self) -> int:
        """Environment steps so far, of all rows."""
        return self.replay.count

    def critic(self) -> Critic:
        """Return the critics as they are now."""
        networks = jax.tree.map(np.asarray, self.state.learned.critics.params)
        return Critic(networks, "relu", None, 1.0, jax.tree.map(np.asarray, self.state.bounds))

    def explore(self) -> LearnedActor | UniformActor:
        """Return uniform actions at first, then the policy with its noise."""
        return self.uniform if self.steps < self.agent.random_steps else self.actor()

    def learn(self, rollout: Trajectory) -> dict[str, float]:
        """Add the rollout to the buffer, update, and return the metrics."""
        number = self.steps // self.agent.rollout_size
        self.replay.add(rollout)
        if self.steps < self.agent.learning_starts:
            return {}
        batch, recent = self.draw(number)
        key = jax.random.fold_in(self.learn_key, number)
        state, metrics = self.agent.update(self.state, batch, recent, key)
        numbers = {name: float(value) for name, value in metrics.items()}
        parts = {"batch": batch._asdict(), "recent": {} if recent is None else recent._asdict()}
        check_update(numbers, state, join_parts(parts))
        self.state = state
        return numbers

    def draw(self, number: int) -> tuple[Batch, Recent | None]:
        """Return the minibatches of the updates after rollout ``number``.

        Agents that differ in their weighting learn from the same minibatches.  While the buffer
        holds nothing but the latest transitions, their density ratio is 1 and is not learned.
        """
        agent = self.agent
        rng = self.generator(number)
        batch = self.replay.draw(rng, agent.updates, agent.batch_size)
        weighting = agent.weighting
        if not isinstance(weighting, DensityRatio) or len(self.replay) <= weighting.recent_size:
            return batch, None
        count = weighting.batch_size or agent.batch_size
        latest = (agent.updates, count, weighting.recent_size)
        return batch, self.replay.draw_recent(rng, *latest)

    def snapshot(self) -> Arrays:
        """Return everything but the transitions of the buffer, as named arrays."""
        return super().snapshot() | {"replay/count": np.array(self.replay.count)}

    def restore(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a snapshot; the transitions are put back by `Replay.put`."""
        super().restore(snapshot)
        self.replay.count = int(snapshot["replay/count"])


def continuous_actions(env: VecEnv) -> Box:
    """Return the action space if it is a bounded box, which off-policy agents need."""
    space = env.action
    if not isinstance(space, Box):
        raise ValueError(
            f"action space Discrete({space.n}) is not supported by off-policy agents: "
            "must be a Box (PPO, TRPO and PG take both)"
        )
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    if not (np.isfinite([low, high]).all() and (low < high).all()):
        raise ValueError(
            f"action space Box(low={space.low}, high={space.high}) is not supported by off-policy "
            "agents: must have finite bounds, low below high"
        )
    return space
