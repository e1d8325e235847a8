"""The on-policy loop: collect, learn, report; all of its state can be taken out and put back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from gammaprime.agents.on_policy import OnPolicy, State
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.envs.generators import pack_generators, unpack_generator
from gammaprime.nets import Categorical, Gaussian, Policy
from gammaprime.train.rollout import (
    BreakdownError,
    Episode,
    Returns,
    check_rollout,
    collect,
    name_fields,
)
from gammaprime.types import Trajectory

Arrays = dict[str, np.ndarray]


class Progress(NamedTuple):
    """What one iteration gave."""

    steps: int
    """Environment steps so far, of all rows."""
    metrics: dict[str, float]
    episodes: list[Episode]


def policy_for(env: VecEnv, initial_log_std: float) -> Policy:
    """The policy that this environment's actions ask for."""
    if isinstance(env.action, Box):
        return Gaussian(int(np.prod(env.action.shape)), initial_log_std)
    return Categorical(env.action.n)


class OnPolicyLoop:
    """An agent, its environments and their generators, advanced one rollout at a time.

    Seeds of environments, acting, initialisation and minibatches are spawned from one seed.
    """

    def __init__(
        self, agent: OnPolicy, env: VecEnv, total_steps: int, seed: int, gamma_prime: float
    ) -> None:
        if total_steps < agent.rollout_size:
            raise ValueError(
                f"steps={total_steps!r}: must be at least one rollout, {agent.rollout_size}"
            )
        if env.num_envs != agent.num_envs:
            raise ValueError(
                f"env has {env.num_envs} rows: must be num_envs={agent.num_envs} of the agent"
            )
        self.agent, self.env = agent, env
        self.num_updates = total_steps // agent.rollout_size
        env_seed, act_seed, init_seed, learn_seed = (
            int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(4)
        )
        self.policy = policy_for(env, agent.initial_log_std)
        num_inputs = int(np.prod(env.observation.shape))
        self.state = agent.init(jax.random.key(init_seed), self.policy, num_inputs)
        self.learn_key = jax.random.key(learn_seed)
        self.rng = np.random.default_rng(act_seed)
        self.returns = Returns(env.num_envs, agent.gamma, gamma_prime)
        self.obs = env.reset(env_seed)

    @property
    def steps(self) -> int:
        return self.state.num_updates * self.agent.rollout_size

    @property
    def done(self) -> bool:
        return self.state.num_updates >= self.num_updates

    def advance(self) -> Progress:
        """Collect one rollout and learn from it; `BreakdownError` where numbers are none."""
        agent, before = self.agent, self.state
        number = before.num_updates
        try:
            rollout, self.obs, episodes = collect(
                self.env,
                agent.actor(before),
                self.obs,
                agent.num_steps,
                self.rng,
                self.returns,
                self.steps,
            )
            check_rollout(rollout)
            key = jax.random.fold_in(self.learn_key, number)
            remaining = 1.0 - number / self.num_updates
            state, metrics = agent.update(before, self.policy, rollout, key, remaining)
            numbers = {name: float(value) for name, value in metrics.items()}
            check_update(numbers, state, rollout)
        except BreakdownError as broken:
            broken.arrays |= {f"agent/{k}": x for k, x in _name_leaves(before).items()}
            raise
        self.state = state
        return Progress(self.steps, numbers, episodes)

    def snapshot(self) -> Arrays:
        """Everything that the next iteration depends on, as named arrays."""
        parts = {
            "agent": _name_leaves(self.state),
            "env": self.env.snapshot(),
            "returns": self.returns.snapshot(),
            "rng": {"words": pack_generators([self.rng])},
        }
        return {f"{part}/{name}": x for part, arrays in parts.items() for name, x in arrays.items()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot of a loop with the same agent and environment."""

        def part(name: str) -> Arrays:
            prefix = f"{name}/"
            return {k.removeprefix(prefix): x for k, x in snapshot.items() if k.startswith(prefix)}

        self.state = _put_leaves(self.state, part("agent"))
        self.obs = self.env.restore(part("env"))
        self.returns.restore(part("returns"))
        self.rng = unpack_generator(part("rng")["words"][0])


def check_update(metrics: Mapping[str, float], state: State, rollout: Trajectory) -> None:
    """Stop at the first metric or parameter that is no number."""
    odd = [name for name, value in metrics.items() if not math.isfinite(value)]
    if not odd:
        leaves = _name_leaves(state)
        odd = [f"state{name}" for name, x in leaves.items() if not np.isfinite(x).all()]
    if odd:
        raise BreakdownError(f"{odd[0]} is not finite after the update", name_fields(rollout))


def _name_leaves(tree: Any) -> Arrays:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _put_leaves(tree: State, arrays: Mapping[str, np.ndarray]) -> State:
    """The tree with these leaves, if names, shapes and types are its own."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise ValueError(f"checkpoint and agent differ in {odd[0]!r}: another configuration")
    put = []
    for name, (_, leaf) in zip(names, leaves, strict=True):
        old, new = np.asarray(leaf), arrays[name]
        if old.shape != new.shape or old.dtype != new.dtype:
            raise ValueError(
                f"checkpoint holds {name} as {new.dtype}{new.shape}: must be {old.dtype}{old.shape}"
            )
        put.append(type(leaf)(new) if isinstance(leaf, int) else new)
    return jax.tree_util.tree_unflatten(structure, put)
