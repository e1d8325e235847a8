"""The training loop: collect a rollout, learn from it, report.

`OnPolicyLoop` is here, `OffPolicyLoop` beside it.  The whole state of a loop can be taken out as
named arrays and put back, also in another process.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gammaprime.agents import OnPolicyAgent
from gammaprime.agents.on_policy import standardiser
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.envs.generators import pack_generators, unpack_generator
from gammaprime.lazy import jax
from gammaprime.loops.replay import Replay
from gammaprime.loops.rollout import (
    BreakdownError,
    Episode,
    Returns,
    check_rollout,
    collect,
    name_fields,
)
from gammaprime.networks import (
    Categorical,
    Critic,
    Gaussian,
    LearnedActor,
    PolicyHead,
    UniformActor,
)
from gammaprime.types import Trajectory

Arrays = dict[str, NDArray[Any]]
Tree = TypeVar("Tree")


class Progress(NamedTuple):
    """The outcome of one rollout and the update after it."""

    steps: int
    """Environment steps so far, of all rows."""
    metrics: dict[str, float]
    """Losses and other numbers of the update."""
    episodes: list[Episode]
    """Whole episodes that ended in the rollout."""
    staggered: Sequence[Episode] = ()
    """First episodes that were cut early, so that the rows do not share one age."""


class Loop(ABC):
    """An agent, its environments and their generators, advanced one rollout at a time.

    Seeds of environments, acting, initialisation and learning are spawned from one seed.
    """

    state: Any
    replay: Replay | None = None
    """The replay buffer, if the agent learns from one."""
    parameters: tuple[str, ...]
    """Beginnings of the names of those leaves of the state that another run can start with."""

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
        """True after the last rollout."""
        return self.steps >= self.total_steps

    def actor(self) -> LearnedActor:
        """Return the policy as it is now."""
        return self.agent.actor(self.state)

    @abstractmethod
    def critic(self) -> Critic:
        """Return the critic as it is now."""

    @abstractmethod
    def explore(self) -> LearnedActor | UniformActor:
        """Return the actor of the next rollout."""

    @abstractmethod
    def learn(self, rollout: Trajectory) -> dict[str, float]:
        """Learn after a rollout, and return the metrics of the update."""

    def generator(self, number: int) -> np.random.Generator:
        """Return the random generator for learning after rollout ``number``.

        It is made from the seed and the number, so there is no state to save.
        """
        return np.random.default_rng(np.random.SeedSequence(self.learn_seed, spawn_key=(number,)))

    def advance(self) -> Progress:
        """Collect one rollout and learn; `BreakdownError` at the first NaN or infinity."""
        try:
            rollout, self.obs, episodes, staggered = collect(
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
        return Progress(self.steps, metrics, episodes, staggered)

    def snapshot(self) -> Arrays:
        """Return everything that the next rollout and update depend on, as named arrays."""
        return join_parts(
            {
                "agent": name_leaves(self.state),
                "env": self.env.snapshot(),
                "returns": self.returns.snapshot(),
                "rng": {"words": pack_generators([self.rng])},
            }
        )

    def restore(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a snapshot of a loop with the same agent and environment."""
        self.state = put_leaves(self.state, take_part(snapshot, "agent"))
        self.obs = self.env.restore(take_part(snapshot, "env"))
        # An environment that cannot be saved begins new episodes, whose returns begin at 0.
        if self.env.exact_resume:
            self.returns.restore(take_part(snapshot, "returns"))
        self.rng = unpack_generator(take_part(snapshot, "rng")["words"][0])

    def start_with(self, parameters: Mapping[str, NDArray[Any]]) -> None:
        """Begin with the parameters of another run, and with everything else anew."""
        own = name_leaves(self.state)
        anew = {name: x for name, x in own.items() if not name.startswith(self.parameters)}
        self.state = put_leaves(self.state, {**anew, **parameters})


def check_rows(env: VecEnv, num_envs: int) -> None:
    """Refuse an environment with another number of rows than the agent learns from."""
    if env.num_envs != num_envs:
        raise ValueError(f"env has {env.num_envs} rows: must be num_envs={num_envs} of the agent")


def policy_for(env: VecEnv, initial_log_std: float) -> PolicyHead:
    """Return the kind of policy that fits the actions of an environment."""
    if isinstance(env.action, Box):
        return Gaussian(int(np.prod(env.action.shape)), initial_log_std)
    return Categorical(env.action.n)


class OnPolicyLoop(Loop):
    """One rollout, then one update from it alone."""

    agent: OnPolicyAgent
    # The critic's values are in units of the scaled rewards.
    parameters = (".params", ".obs_statistics", ".return_statistics")

    def __init__(
        self, agent: OnPolicyAgent, env: VecEnv, total_steps: int, seed: int, gamma_prime: float
    ) -> None:
        super().__init__(agent, env, total_steps, seed, gamma_prime)
        self.policy = policy_for(env, agent.initial_log_std)
        num_inputs = int(np.prod(env.observation.shape))
        self.state = agent.init(jax.random.key(self.init_seed), self.policy, num_inputs)

    @property
    def steps(self) -> int:
        """Environment steps so far, of all rows."""
        return self.state.num_updates * self.agent.rollout_size

    def restore(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a snapshot of a loop with the same agent and environment."""
        super().restore(snapshot)
        if not self.env.exact_resume:
            start = np.zeros_like(self.state.running_return)
            self.state = self.state._replace(running_return=start)

    def critic(self) -> Critic:
        """Return the critic as it is now."""
        agent, state = self.agent, self.state
        network = jax.tree.map(np.asarray, state.params.critic)
        unit = 1.0 / float(state.return_statistics.scale) if agent.scale_rewards else 1.0
        return Critic((network,), "tanh", standardiser(agent, state), unit, None)

    def explore(self) -> LearnedActor:
        """Return the policy: it explores by itself."""
        return self.actor()

    def learn(self, rollout: Trajectory) -> dict[str, float]:
        """Update from the rollout, and return the metrics."""
        number = self.state.num_updates
        rng = self.generator(number)
        remaining = 1.0 - number / self.num_rollouts
        state, metrics = self.agent.update(self.state, self.policy, rollout, rng, remaining)
        # Through NumPy: float of a JAX array takes four times as long.
        numbers = {name: float(np.asarray(value)) for name, value in metrics.items()}
        check_update(numbers, state, name_fields(rollout))
        self.state = state
        return numbers


def name_leaves(tree: Any) -> Arrays:
    """Return every leaf of a state under its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def put_leaves(tree: Tree, arrays: Mapping[str, NDArray[Any]]) -> Tree:
    """Return the tree with other leaves; names, shapes and dtypes must be the same."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise ValueError(f"checkpoint and agent differ in {odd[0]!r}")
    put = []
    for name, (_, leaf) in zip(names, leaves, strict=True):
        old, new = np.asarray(leaf), arrays[name]
        if old.shape != new.shape or old.dtype != new.dtype:
            raise ValueError(
                f"checkpoint holds {name} as {new.dtype}{new.shape}: must be {old.dtype}{old.shape}"
            )
        put.append(type(leaf)(new) if isinstance(leaf, int) else new)
    return jax.tree_util.tree_unflatten(structure, put)


def join_parts(parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> Arrays:
    """Return the arrays of several parts in one flat dictionary: part/name."""
    return {f"{part}/{name}": x for part, arrays in parts.items() for name, x in arrays.items()}


def take_part(snapshot: Mapping[str, NDArray[Any]], part: str) -> Arrays:
    """Return the arrays of one part of what `join_parts` returned."""
    prefix = f"{part}/"
    return {k.removeprefix(prefix): x for k, x in snapshot.items() if k.startswith(prefix)}


def check_update(metrics: Mapping[str, float], state: Any, learned_from: Arrays) -> None:
    """Raise `BreakdownError` at the first metric or parameter that is NaN or infinite."""
    odd = [name for name, value in metrics.items() if not math.isfinite(value)]
    # Names take longer than the check itself, so they are made only for the error.
    if not (odd or all(np.isfinite(x).all() for x in jax.tree.leaves(state))):
        leaves = name_leaves(state)
        odd = [f"state{name}" for name, x in leaves.items() if not np.isfinite(x).all()]
    if odd:
        raise BreakdownError(f"{odd[0]} is not finite after the update", learned_from)
