"""What a training run is set up from: its environments, its evaluations, its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gammaprime import envs
from gammaprime.agents.off_policy import OffPolicy
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.loops.evaluate import evaluate
from gammaprime.loops.loop import check_rows
from gammaprime.loops.off_policy_loop import continuous_actions
from gammaprime.loops.replay import Replay
from gammaprime.loops.rollout import Episode
from gammaprime.networks import Actor
from gammaprime.runs.options import Agent, Protocol, agent_table, name_of, to_table
from gammaprime.types import check_whole

Task = str | Callable[[], Any] | VecEnv

DEFAULT_GAMMA_PRIME = 0.999
"""Where no time limit suggests another."""
EVALUATION_KEY = 4
"""The loop spawns the children 0 to 3 of a run's seed."""


class Setup:
    """An agent, a task, steps, a seed and a protocol, with every default resolved.

    An environment that was already made is trained on as it is, and not evaluated: there is no
    second one to evaluate on.
    """

    def __init__(
        self, agent: Agent, task: Task, steps: float, seed: int, protocol: Protocol
    ) -> None:
        self.agent, self.task, self.protocol = agent, task, protocol
        self.seed = check_whole("seed", seed)
        self.steps = _whole(steps)
        if self.steps < agent.rollout_size:
            raise ValueError(
                f"steps={steps!r}: must be at least one rollout, num_envs*num_steps="
                f"{agent.rollout_size}"
            )
        self._judge: VecEnv | None = None
        self._can_make = isinstance(task, str) or callable(task)
        self.env = self._make(agent.num_envs, protocol.stagger) if self._can_make else self._given()
        check_rows(self.env, agent.num_envs)
        if isinstance(agent, OffPolicy):
            continuous_actions(self.env)
        if not self._can_make:
            protocol = replace(protocol, eval_every=0)
        resolved = spell_out(protocol, agent, self.steps, self.env.time_limit)
        self.resolved = resolved
        self.gamma_prime = resolved.eval_gamma_prime
        self.eval_every, self.eval_episodes = resolved.eval_every, resolved.eval_episodes

    def _given(self) -> VecEnv:
        """The environment that was handed over, under the contract."""
        from gammaprime.envs.gym import is_environment

        asked = self.protocol
        if asked.time_limit is not None or asked.time_feature or asked.eval_every:
            raise ValueError(
                "protocol: time_limit, time_feature and eval_every need a task or a constructor, "
                "not an environment that was already made"
            )
        if is_environment(self.task):
            return envs.make(self.task)
        if not isinstance(self.task, VecEnv):
            raise ValueError(
                f"env_or_task={self.task!r}: must be the name of a task, a Gymnasium environment, "
                "a constructor of one, or what gammaprime.envs.make gives"
            )
        return self.task

    def _make(self, num_envs: int, stagger: bool) -> VecEnv:
        return envs.make(
            self.task,
            num_envs,
            time_limit=self.protocol.time_limit,
            stagger=stagger,
            time_feature=self.protocol.time_feature,
        )

    @property
    def config(self) -> dict[str, Any]:
        """What decides the numbers, and so the identity of the run."""
        task = self.task if isinstance(self.task, str) else self._describe()
        return configure(self.agent, task, self.steps, self.seed, self.resolved)

    def _describe(self) -> dict[str, Any]:
        """All that is known of an object: two that share it cannot be told apart."""
        env = self.env
        actions = list(env.action.shape) if isinstance(env.action, Box) else env.action.n
        inputs = list(env.observation.shape)
        spaces = {"observation": inputs, "action": actions, "time_limit": env.time_limit}
        return {"object": _name(self.task), **spaces}

    @property
    def name(self) -> str:
        """A name to find the run by, before the hash of its configuration."""
        task = self.task if isinstance(self.task, str) else _name(self.task)
        return name_run(self.agent, task, self.seed)

    @property
    def replay_bytes(self) -> int:
        """What the replay of the run holds at its end; 0 where it learns from rollouts alone."""
        if not isinstance(self.agent, OffPolicy):
            return 0
        shapes = (self.env.observation.shape, continuous_actions(self.env).shape)
        one = Replay(1, *(int(np.prod(shape)) for shape in shapes))
        size = min(self.agent.replay_size, self.steps)
        return size * sum(field.nbytes for field in one.fields.values())

    def is_due(self, before: int, now: int, done: bool) -> bool:
        """Whether the update that led from one step to another is followed by an evaluation."""
        every = self.eval_every
        return bool(every) and (done or before // every < now // every)

    def evaluate(self, actor: Actor, step: int) -> list[Episode]:
        """Whole episodes on an environment of its own, seeded by the run's seed and the step.

        Nothing of it outlives the evaluation, so nothing of it needs to be saved.
        """
        episodes = self.eval_episodes
        if self._judge is None:
            self._judge = self._make(episodes, stagger=False)
        sequence = np.random.SeedSequence(self.seed, spawn_key=(EVALUATION_KEY, step))
        seed = int(sequence.generate_state(1)[0])
        return evaluate(actor, self._judge, episodes, seed, self.agent.gamma, self.gamma_prime)

    def close(self) -> None:
        """Free what was made here; an environment that was given stays open."""
        made = (self.env, self._judge) if self._can_make else ()
        for env in made:
            if env is not None:
                env.close()


def spell_out(protocol: Protocol, agent: Agent, steps: int, time_limit: int | None) -> Protocol:
    """The protocol with every default of its evaluations in the place of None."""
    every, episodes = (5_000, 10) if isinstance(agent, OffPolicy) else (-(-steps // 10), 5)
    gamma_prime = 1.0 - 1.0 / time_limit if time_limit else DEFAULT_GAMMA_PRIME
    usual = {"eval_every": every, "eval_episodes": episodes, "eval_gamma_prime": gamma_prime}
    unsaid = {name: value for name, value in usual.items() if vars(protocol)[name] is None}
    return replace(protocol, **unsaid)


def configure(
    agent: Agent, task: str | dict[str, Any], steps: int, seed: int, protocol: Protocol
) -> dict[str, Any]:
    """The configuration of a run whose protocol is spelt out."""
    judged = {name: value for name, value in to_table(protocol).items() if name != "kind"}
    settings = {"agent": agent_table(agent), "task": task, "protocol": judged}
    return {"kind": "train", "settings": settings | {"steps": steps, "seed": seed}}


def name_run(agent: Agent, task: str, seed: int) -> str:
    """What the folder of a run is called, before the hash of its configuration."""
    return f"{name_of(agent)}-{task.replace('/', '-').replace(':', '-')}-s{seed}"


def _whole(steps: float) -> int:
    if not float(steps).is_integer() or steps < 1:
        raise ValueError(f"steps={steps!r}: must be a whole number of at least 1")
    return int(steps)


def _name(task: Any) -> str:
    """Of a function or class its own name, of an object its class's."""
    described = task if isinstance(task, type) or callable(task) else type(task)
    return described.__qualname__
