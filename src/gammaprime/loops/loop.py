"""The loops: collect, learn, report; all of their state can be taken out and put back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from gammaprime.agents.on_policy import OnPolicy
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.envs.generators import pack_generators, unpack_generator
from gammaprime.loops.replay import Replay
from gammaprime.loops.rollout import (
    BreakdownError,
    Episode,
    Returns,
    check_rollout,
    collect,
    name_fields,
)
from gammaprime.loops.state import (
    Arrays,
    check_update,
    join_parts,
    name_leaves,
    put_leaves,
    take_part,
)
from gammaprime.networks import Actor, Categorical, Gaussian, PolicyHead
from gammaprime.types import Trajectory


class Progress(NamedTuple):
    """What one iteration gave."""

    steps: int
    """Environment steps so far, of all rows."""
    metrics: dict[str, float]
    episodes: list[Episode]


class Loop(ABC):
    """An agent, its environments and their generators, advanced one rollout at a time.

    Seeds of environments, acting, initialisation and learning are spawned from one seed.
    """

    state: Any
    replay: Replay | None = None
    """The replay buffer, if the agent learns from one."""

    def __init__(
        self, agent: Any, env: VecEnv, total_steps: int, seed: int, gamma_prime: float
    ) -> None:
        if total_steps < agent.rollout_size:
            raise ValueError(
                f"steps={total_steps!r}: must be at least one rollout, {agent.rollout_size}"
            )
        check_rows(env, agent.num_envs)
        self.agent, self.env = agent, env
        self.num_rollouts = total_steps // agent.rollout_size
        env_seed, act_seed, self.init_seed, self.learn_seed = (
            int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(4)
        )
        self.rng = np.random.default_rng(act_seed)
        self.returns = Returns(env.num_envs, agent.gamma, gamma_prime)
        self.obs = env.reset(env_seed)

    @property
    @abstractmethod
    def steps(self) -> int:
        """Environment steps so far, of all rows."""

    @property
    def total_steps(self) -> int:
        """Environment steps at the end: whole rollouts."""
        return self.num_rollouts * self.agent.rollout_size

    @property
    def done(self) -> bool:
        return self.steps >= self.total_steps

    def actor(self) -> Actor:
        """The policy as it is now."""
        return self.agent.actor(self.state)

    @abstractmethod
    def explore(self) -> Actor:
        """Who acts in the next rollout."""

    @abstractmethod
    def learn(self, rollout: Trajectory) -> dict[str, float]:
        """Learn after a rollout, and tell what there is to tell."""

    def generator(self, number: int) -> np.random.Generator:
        """What learning after rollout ``number`` draws with.

        Made from the seed and the number alone: there is none to save.
        """
        return np.random.default_rng(np.random.SeedSequence(self.learn_seed, spawn_key=(number,)))

    def advance(self) -> Progress:
        """Collect one rollout and learn; `BreakdownError` where numbers are none."""
        try:
            rollout, self.obs, episodes = collect(
                self.env,
                self.explore(),
                self.obs,
                self.agent.num_steps,
                self.rng,
                self.returns,
                self.steps,
            )
            check_rollout(rollout)
            metrics = self.learn(rollout)
        except BreakdownError as broken:
            broken.arrays |= {f"agent/{k}": x for k, x in name_leaves(self.state).items()}
            raise
        return Progress(self.steps, metrics, episodes)

    def snapshot(self) -> Arrays:
        """Everything that the next iteration depends on, as named arrays."""
        return join_parts(
            {
                "agent": name_leaves(self.state),
                "env": self.env.snapshot(),
                "returns": self.returns.snapshot(),
                "rng": {"words": pack_generators([self.rng])},
            }
        )

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot of a loop with the same agent and environment."""
        self.state = put_leaves(self.state, take_part(snapshot, "agent"))
        self.obs = self.env.restore(take_part(snapshot, "env"))
        # An environment that cannot be saved begins new episodes, whose returns begin at 0.
        if self.env.exact_resume:
            self.returns.restore(take_part(snapshot, "returns"))
        self.rng = unpack_generator(take_part(snapshot, "rng")["words"][0])


def check_rows(env: VecEnv, num_envs: int) -> None:
    """An agent learns from as many rows as it says."""
    if env.num_envs != num_envs:
        raise ValueError(f"env has {env.num_envs} rows: must be num_envs={num_envs} of the agent")


def policy_for(env: VecEnv, initial_log_std: float) -> PolicyHead:
    """The policy that this environment's actions ask for."""
    if isinstance(env.action, Box):
        return Gaussian(int(np.prod(env.action.shape)), initial_log_std)
    return Categorical(env.action.n)


class OnPolicyLoop(Loop):
    """One rollout, one update from it alone."""

    agent: OnPolicy

    def __init__(
        self, agent: OnPolicy, env: VecEnv, total_steps: int, seed: int, gamma_prime: float
    ) -> None:
        super().__init__(agent, env, total_steps, seed, gamma_prime)
        self.policy = policy_for(env, agent.initial_log_std)
        num_inputs = int(np.prod(env.observation.shape))
        self.state = agent.init(jax.random.key(self.init_seed), self.policy, num_inputs)

    @property
    def steps(self) -> int:
        return self.state.num_updates * self.agent.rollout_size

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        super().restore(snapshot)
        if not self.env.exact_resume:
            start = np.zeros_like(self.state.running_return)
            self.state = self.state._replace(running_return=start)

    def explore(self) -> Actor:
        return self.actor()

    def learn(self, rollout: Trajectory) -> dict[str, float]:
        number = self.state.num_updates
        rng = self.generator(number)
        remaining = 1.0 - number / self.num_rollouts
        state, metrics = self.agent.update(self.state, self.policy, rollout, rng, remaining)
        # Through NumPy: float of a JAX array takes four times as long.
        numbers = {name: float(np.asarray(value)) for name, value in metrics.items()}
        check_update(numbers, state, name_fields(rollout))
        self.state = state
        return numbers
