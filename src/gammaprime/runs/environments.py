"""The environments of a run: those it is trained on, and those its policy is evaluated on."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gammaprime import envs
from gammaprime.agents import Agent, OffPolicy
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.loops import evaluate as evaluation_loop
from gammaprime.loops.off_policy_loop import continuous_actions
from gammaprime.loops.rollout import Episode
from gammaprime.networks import LearnedActor
from gammaprime.runs.config import Evaluation, RunConfig

Task = str | Callable[[], Any] | VecEnv

EVALUATION_KEY = 4
"""Child of a run's seed for its evaluations; the loop spawns the children 0 to 3."""


class Environments:
    """The environments of a run, each made once, when it is first needed.

    An environment that was already made is trained on as it is, and not evaluated: there is no
    second one to evaluate on.
    """

    def __init__(
        self,
        task: Task,
        agent: Agent,
        time_limit: int | None,
        time_feature: bool,
        stagger: bool,
        threads: int = 1,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._source, self._agent, self._threads = task, agent, threads
        self._kwargs = env_kwargs
        self._limit, self._feature, self._stagger = time_limit, time_feature, stagger
        self._is_given = not (isinstance(task, str) or callable(task))
        self._env: VecEnv | None = None
        self._judge: VecEnv | None = None

    @property
    def env(self) -> VecEnv:
        """The environment that is trained on."""
        if self._env is None:
            settings = (self._agent.num_envs, self._stagger, self._threads)
            self._env = self._given() if self._is_given else self._make(*settings)
        return self._env

    @property
    def task(self) -> str | dict[str, Any]:
        """The id of the task; of an object, all that is known of it."""
        if isinstance(self._source, str):
            return self._source
        space = self.env.action
        return {
            "object": _qualified_name(self._source),
            "observation": list(self.env.observation.shape),
            "action": list(space.shape) if isinstance(space, Box) else space.n,
            "time_limit": self.env.time_limit,
        }

    def limit(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluations that are possible: none on an environment that was made."""
        if not self._is_given:
            return evaluation
        asked = (self._limit is not None, self._feature, evaluation.every, self._threads != 1)
        if any(asked) or self._kwargs:
            raise ValueError(
                "time_limit, time_feature, evaluation.every, threads and env_kwargs need a task or "
                "a constructor, not an environment that was already made"
            )
        return replace(evaluation, every=0)

    def check(self) -> None:
        """Refuse an environment that the agent cannot learn in."""
        envs_wanted = self._agent.num_envs
        if self.env.num_envs != envs_wanted:
            raise ValueError(
                f"env has {self.env.num_envs} rows: must be num_envs={envs_wanted} of the agent"
            )
        if isinstance(self._agent, OffPolicy):
            continuous_actions(self.env)

    def check_evaluations(self, evaluation: Evaluation) -> None:
        """Refuse evaluations of episodes that may never end."""
        if evaluation.every and self.env.time_limit is None:
            raise ValueError(
                f"time_limit=None: {task_name(self._source)} has no time limit, so an evaluation "
                "might never end; set time_limit (--time-limit), for instance 1000, or "
                "evaluation.every to 0 for none"
            )

    def evaluate(self, actor: LearnedActor, config: RunConfig, step: int) -> list[Episode]:
        """Return whole episodes, seeded by the run's seed and the step.

        Nothing of it outlives the evaluation, so nothing of it needs to be saved.
        """
        asked = config.evaluation
        assert asked.episodes is not None
        assert asked.gamma_prime is not None
        if self._judge is None:
            threads = min(self._threads, asked.episodes)
            self._judge = self._make(asked.episodes, stagger=False, threads=threads)
        sequence = np.random.SeedSequence(config.seed, spawn_key=(EVALUATION_KEY, step))
        seed = int(sequence.generate_state(1)[0])
        discounts = (config.agent.gamma, asked.gamma_prime)
        return evaluation_loop.evaluate(actor, self._judge, asked.episodes, seed, *discounts)

    def close(self) -> None:
        """Close what was made here; an environment that was given stays open."""
        for env in (self._env, self._judge):
            if env is not None and not self._is_given:
                env.close()

    def _make(self, num_envs: int, stagger: bool, threads: int) -> VecEnv:
        return envs.make(
            self._source,
            num_envs,
            time_limit=self._limit,
            stagger=stagger,
            time_feature=self._feature,
            threads=threads,
            env_kwargs=self._kwargs,
        )

    def _given(self) -> VecEnv:
        """Return the environment that was handed over, under the contract."""
        from gammaprime.envs.gym import is_environment, refuse_vector

        refuse_vector(self._source)
        if is_environment(self._source):
            return envs.make(self._source)
        if not isinstance(self._source, VecEnv):
            raise ValueError(
                f"env_or_task={self._source!r}: must be the name of a task, a Gymnasium "
                "environment, a constructor of one, or what gammaprime.make returns"
            )
        return self._source


def task_name(task: Any) -> str:
    return task if isinstance(task, str) else _qualified_name(task)


def _qualified_name(task: Any) -> str:
    """Return the name of a function or class, or that of an object's class."""
    if isinstance(task, functools.partial):
        given = [*map(_show, task.args)]
        given += [f"{name}={_show(x)}" for name, x in task.keywords.items()]
        return f"{_qualified_name(task.func)}({', '.join(given)})"
    named = isinstance(task, type | types.FunctionType | types.MethodType)
    return str((task if named else type(task)).__qualname__)


def _show(argument: Any) -> str:
    """Return an argument as text; an address in it would be another one in the next process."""
    text = repr(argument)
    return _qualified_name(argument) if re.search(r" at 0x[0-9a-f]+>", text) else text
