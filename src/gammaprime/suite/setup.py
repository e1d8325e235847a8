"""What a training run is set up from: its environments, its evaluations, its configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gammaprime import envs
from gammaprime.acting import Actor
from gammaprime.agents.off_policy import OffPolicy
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.suite.options import Agent, Protocol, agent_table, to_table
from gammaprime.train.evaluate import evaluate
from gammaprime.train.off_policy_loop import continuous_actions
from gammaprime.train.rollout import Episode

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
        self.agent, self.task, self.seed, self.protocol = agent, task, seed, protocol
        self.steps = _whole(steps)
        if self.steps < agent.rollout_size:
            raise ValueError(
                f"steps={steps!r}: must be at least one rollout, num_envs*num_steps="
                f"{agent.rollout_size}"
            )
        self._judge: VecEnv | None = None
        self._can_make = isinstance(task, str) or callable(task)
        self.env = self._make(agent.num_envs, protocol.stagger) if self._can_make else self._given()
        if isinstance(agent, OffPolicy):
            continuous_actions(self.env)
        limit = self.env.time_limit
        self.gamma_prime = protocol.eval_gamma_prime
        if self.gamma_prime is None:
            self.gamma_prime = 1.0 - 1.0 / limit if limit else DEFAULT_GAMMA_PRIME
        self.eval_every, self.eval_episodes = self._evaluations()

    def _evaluations(self) -> tuple[int, int]:
        """Steps between evaluations and episodes of each: as asked, or as the agent's kind has."""
        every, episodes = self.protocol.eval_every, self.protocol.eval_episodes
        usual = (-(-self.steps // 10), 5)
        if isinstance(self.agent, OffPolicy):
            usual = (5_000, 10)
        if every is None:
            every = usual[0] if self._can_make else 0
        return every, usual[1] if episodes is None else episodes

    def _given(self) -> VecEnv:
        """The environment that was handed over, under the contract."""
        from gammaprime.envs.gym import is_environment

        asked = self.protocol
        if asked.time_limit is not None or asked.time_feature or asked.eval_every:
            raise ValueError(
                "protocol: time_limit, time_feature and eval_every need a task or a constructor, "
                "not an environment that was already made"
            )
        return envs.make(self.task) if is_environment(self.task) else self.task

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
        resolved = {
            "eval_every": self.eval_every,
            "eval_episodes": self.eval_episodes,
            "eval_gamma_prime": self.gamma_prime,
        }
        protocol = {k: v for k, v in to_table(self.protocol).items() if k != "kind"} | resolved
        settings = {"agent": agent_table(self.agent), "task": task, "protocol": protocol}
        return {"kind": "train", "settings": settings | {"steps": self.steps, "seed": self.seed}}

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
        kind = self.config["settings"]["agent"]["kind"]
        return f"{kind}-{task.replace('/', '-').replace(':', '-')}-s{self.seed}"

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


def _whole(steps: float) -> int:
    if not float(steps).is_integer() or steps < 1:
        raise ValueError(f"steps={steps!r}: must be a whole number of at least 1")
    return int(steps)


def _name(task: Any) -> str:
    """Of a function or class its own name, of an object its class's."""
    described = task if isinstance(task, type) or callable(task) else type(task)
    return described.__qualname__
