"""The off-policy loop: some steps, then as many updates from all that was lived through."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import jax
import numpy as np

from gammaprime.agents.off_policy import Batch, OffPolicy
from gammaprime.agents.weightings import DensityRatio, Recent
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.loops.loop import Loop
from gammaprime.loops.replay import Replay
from gammaprime.loops.state import Arrays, check_update, join_parts
from gammaprime.networks import BoundedActor, UniformActor
from gammaprime.types import Trajectory


class OffPolicyLoop(Loop):
    """A rollout into the replay, then a burst of updates in one compiled call.

    The first ``random_steps`` are drawn uniformly from the action space, and nothing is learned
    before ``learning_starts``; both are counted in whole rollouts.
    A snapshot counts the replay's transitions and does not hold them: `Replay.take` and
    `Replay.put` move them, so that who stores them can store each of them once.

    Paper: algo:off.
    """

    agent: OffPolicy
    replay: Replay

    def __init__(
        self, agent: OffPolicy, env: VecEnv, total_steps: int, seed: int, gamma_prime: float
    ) -> None:
        space = continuous_actions(env)
        super().__init__(agent, env, total_steps, seed, gamma_prime)
        num_inputs = int(np.prod(env.observation.shape))
        self.state = agent.init(jax.random.key(self.init_seed), space, num_inputs)
        self.learn_key = jax.random.key(self.learn_seed)
        self.uniform = UniformActor(space.low, space.high)
        self._warn_of_what_will_not_happen()
        # A ring that is never filled need not be larger than what fills it.
        size = min(agent.replay_size, self.total_steps)
        self.replay = Replay(size, num_inputs, int(np.prod(space.shape)))

    def _warn_of_what_will_not_happen(self) -> None:
        agent, what = self.agent, {}
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
        return self.replay.count

    def explore(self) -> BoundedActor | UniformActor:
        return self.uniform if self.steps < self.agent.random_steps else self.actor()

    def learn(self, rollout: Trajectory) -> dict[str, float]:
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
        """What the burst after rollout ``number`` learns from.

        Agents that differ in their weighting learn from the same minibatches.  While the latest
        transitions are all there are, their ratio is known to be 1, and there is nothing to learn
        it from.
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
        return super().snapshot() | {"replay/count": np.array(self.replay.count)}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        super().restore(snapshot)
        self.replay.count = int(snapshot["replay/count"])


def continuous_actions(env: VecEnv) -> Box:
    """The action space, if it is a bounded box: these agents know no other."""
    space = env.action
    if not isinstance(space, Box):
        raise ValueError(
            f"action space Discrete({space.n}) is not supported by off-policy agents: "
            "must be a Box (PPO, TRPO and PG take both)"
        )
    bounded = np.isfinite(space.low).all() and np.isfinite(space.high).all()
    if not (bounded and (space.low < space.high).all()):
        raise ValueError(
            f"action space Box(low={space.low}, high={space.high}) is not supported by off-policy "
            "agents: must have finite bounds, low below high"
        )
    return space
