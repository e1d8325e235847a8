"""The configuration of a run: what decides its numbers, as a value, as a table and as a hash.

A dataclass becomes a table of JSON or TOML with its ``kind``: ``PPO(advantage=TaylorQ(order=2))``
is ``{"kind": "ppo", "advantage": {"kind": "taylor_q", "order": 2, ...}, ...}``.  Infinity is
written "inf".  Keys that a table leaves out keep their defaults, unknown keys are refused.
A slot or an agent of the user's own is ``{"kind": "module:Class", ...}``.

No simulator is needed here: the time limits of tasks are data (`gammaprime.envs.time_limit`).
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pkgutil import resolve_name
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from gammaprime import envs
from gammaprime.agents import PRESETS, TD3, Agent, OffPolicy, OnPolicy
from gammaprime.runs.directory import folder_name
from gammaprime.types import check_steps, check_whole, unknown

Table = dict[str, Any]

DEFAULT_GAMMA_PRIME = 0.999
"""γ' of the reported returns of a task that has no time limit."""
SLOTS = ("advantage", "weighting")
ALLOW_IMPORTS = "GAMMAPRIME_ALLOW_IMPORTS"
"""Environment variable, also set by --allow-imports; see `check_imports`."""
SETTINGS = {"agent", "task", "protocol", "steps", "seed"}
_HINTS: dict[type, dict[str, Any]] = {}
"""Types of the fields of dataclasses, which take long to find."""
PLAIN = (int, float, bool, str, type(None))
"""Types that tables hold as they are."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluations during training, on environments of their own."""

    every: int | None = None
    """Steps between evaluations, 0 for none; default: a tenth of all steps, off-policy 5,000."""
    episodes: int | None = None
    """Episodes of one evaluation; default: 5, off-policy 10."""
    gamma_prime: float | None = None
    """γ' of the reported returns; default: that of the slots, or else 1 − 1/time_limit."""

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 0:
            raise ValueError(f"every={self.every!r}: must be 0 (never) or more")
        if self.episodes is not None and self.episodes < 1:
            raise ValueError(f"episodes={self.episodes!r}: must be at least 1")
        if self.gamma_prime is not None and not 0.0 <= self.gamma_prime <= 1.0:
            raise ValueError(f"gamma_prime={self.gamma_prime!r}: must lie in [0, 1]")

    def is_due(self, before: int, now: int, done: bool) -> bool:
        """Return whether the update from step ``before`` to ``now`` is followed by one."""
        every = self.every
        return every is not None and every > 0 and (done or before // every < now // every)


@dataclass(frozen=True)
class Origin:
    """The run that another one begins from."""

    taken: str
    """Part taken from it: its "state", to lengthen it, or its "parameters"."""
    steps: int
    """Steps that it had trained."""
    config_sha256: str
    """Hash of its configuration but for the seed: seeds of one experiment have it in common."""
    arrays_sha256: str
    """Hash of what is taken."""

    def __post_init__(self) -> None:
        if self.taken not in ("state", "parameters"):
            raise ValueError(f"taken={self.taken!r}: must be 'state' or 'parameters'")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the numbers of a run; its hash names the folder of the run."""

    agent: Agent
    """The agent with all its settings."""
    task: str | Table
    """An id; of an environment or a constructor, its name, spaces and time limit."""
    steps: int
    """Environment steps, of all environments together; whole rollouts are trained, rounded down."""
    seed: int = 0
    """Seed of everything random."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    """Schedule and γ' of the evaluations."""
    time_limit: int | None = None
    """Steps after which an episode is cut; default: the task's own limit."""
    time_feature: bool = False
    """Append the time to observations; the time limit then terminates."""
    stagger: bool = True
    """Cut first episodes early, so that several environments do not share one age."""
    origin: Origin | None = None
    """The run that it begins from, if it does."""
    env_kwargs: Table = field(default_factory=dict)
    """Keyword arguments of the environment that the task's id stands for."""

    def __post_init__(self) -> None:
        if not isinstance(self.agent, OnPolicy | OffPolicy):
            raise ValueError(
                f"agent={self.agent!r}: must be an agent with its settings, like PPO()"
            )
        hints = _hints(type(self))
        for name in ("agent", "evaluation", "time_limit", "time_feature", "stagger"):
            object.__setattr__(self, name, as_stored(name, vars(self)[name], hints[name]))
        if self.time_limit is not None and not 0 < self.time_limit < 2**31:
            raise ValueError(f"time_limit={self.time_limit!r}: must be at least 1 and below 2**31")
        check_env_kwargs(self.env_kwargs)
        object.__setattr__(self, "seed", check_whole("seed", self.seed))
        object.__setattr__(self, "steps", check_steps(self.steps))
        if self.steps < self.agent.rollout_size:
            raise ValueError(
                f"steps={self.steps!r}: must be at least one rollout, num_envs*num_steps="
                f"{self.agent.rollout_size}"
            )

    def resolve(self) -> RunConfig:
        """Return the configuration with every default of its evaluations filled in."""
        if None not in vars(self.evaluation).values():
            return self
        off_policy = isinstance(self.agent, OffPolicy)
        every, episodes = (5_000, 10) if off_policy else (-(-self.steps // 10), 5)
        given = self.evaluation
        gamma_prime = given.gamma_prime
        if gamma_prime is None:
            gamma_prime = gamma_prime_of(self.agent)
        if gamma_prime is None:
            limit = self.episode_limit
            gamma_prime = 1.0 - 1.0 / limit if limit else DEFAULT_GAMMA_PRIME
        evaluation = Evaluation(
            every if given.every is None else given.every,
            episodes if given.episodes is None else given.episodes,
            gamma_prime,
        )
        return replace(self, evaluation=evaluation)

    @property
    def episode_limit(self) -> int | None:
        """Steps after which an episode is cut: those asked for, or else the task's own."""
        if self.time_limit is not None:
            return self.time_limit
        if isinstance(self.task, str):
            return envs.time_limit(self.task)
        return self.task["time_limit"]

    @property
    def total_steps(self) -> int:
        """Steps that will be trained: whole rollouts, rounded down."""
        return self.steps // self.agent.rollout_size * self.agent.rollout_size

    @property
    def name(self) -> str:
        """Agent, task and seed: the readable part of the folder's name."""
        task = self.task if isinstance(self.task, str) else self.task["object"]
        return re.sub("[/:]", "-", f"{name_of(self.agent)}-{task}-s{self.seed}")

    @property
    def folder(self) -> str:
        """Name and hash of the resolved configuration: equal runs share one folder."""
        return folder_name(self.name, self.resolve().to_table())

    @property
    def flags(self) -> list[str]:
        """Options of every command that reads this configuration from its file."""
        code = code_names(to_table(self.agent), tasks=[self.task])
        return ["--allow-imports"] if code else []

    def to_table(self) -> Table:
        """Return the content of config.json."""
        judged = to_table(self.evaluation)
        protocol = {f"eval_{name}": judged[name] for name in ("every", "episodes", "gamma_prime")}
        for name in ("time_limit", "time_feature", "stagger"):
            protocol[name] = vars(self)[name]
        if self.env_kwargs:
            protocol["env_kwargs"] = self.env_kwargs
        settings = {"agent": to_table(self.agent), "task": self.task, "protocol": protocol}
        settings |= {"steps": self.steps, "seed": self.seed}
        if self.origin is not None:
            settings["origin"] = dict(vars(self.origin))
        return {"kind": "train", "settings": settings}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a config.json."""
        settings: Any = table.get("settings")
        is_run = table.get("kind") == "train" and isinstance(settings, Mapping)
        if not is_run or SETTINGS - set(settings):
            raise ValueError("is not the configuration of a training run")
        rest = dict(settings["protocol"])
        evaluation = {
            name: rest.pop(f"eval_{name}")
            for name in ("every", "episodes", "gamma_prime")
            if f"eval_{name}" in rest
        }
        _check_task(settings["task"])
        hints, env_kwargs = _hints(cls), rest.pop("env_kwargs", {})
        for name in rest:
            if name not in hints:
                raise ValueError(unknown("key", name, hints))
        if "origin" in settings:
            rest["origin"] = {"kind": "origin", **settings["origin"]}
        return cls(
            agent_from(settings["agent"]),
            settings["task"],
            settings["steps"],
            settings["seed"],
            from_table(Evaluation, evaluation),
            **{name: _typed(name, value, hints[name]) for name, value in rest.items()},
            env_kwargs=env_kwargs,
        )


def _check_task(task: Any) -> None:
    """Refuse what is neither an id nor the description of an object (`Environments.task`)."""
    if isinstance(task, str):
        if task.count(":") > 1:
            raise ValueError(f"task={task!r}: must be an id, or module:id")
        return
    known = isinstance(task, dict) and isinstance(task.get("object"), str)
    if not known or type(task.get("time_limit", 0)) not in (int, type(None)):
        raise ValueError(f"task={task!r}: must be an id, or the name and spaces of an object")


def gamma_prime_of(agent: Agent) -> float | None:
    """Return γ' of an on-policy agent's slots, the advantage's if both have one; else None.

    Off-policy, the γ' of `DensityRatio` weighs states: 1 there is a weight, not a return.
    """
    return None if isinstance(agent, OffPolicy) else next(iter(gamma_primes(agent).values()), None)


def gamma_primes(agent: Agent) -> dict[str, float]:
    """Return γ' of each slot that has one."""
    slots = {name: vars(agent)[name] for name in SLOTS if name in vars(agent)}
    found = {name: vars(slot).get("gamma_prime") for name, slot in slots.items()}
    return {name: float(value) for name, value in found.items() if value is not None}


def check_env_kwargs(kwargs: Any) -> None:
    """Refuse keyword arguments that JSON cannot hold, and those that have an option here."""
    try:
        if (
            not isinstance(kwargs, dict)
            or json.loads(json.dumps(kwargs, allow_nan=False)) != kwargs
        ):
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"env_kwargs={kwargs!r}: must be a table of JSON values") from None
    if "max_episode_steps" in kwargs:
        raise ValueError("env_kwargs: max_episode_steps is set by time_limit (--time-limit)")


def kind_of(cls: type) -> str:
    """Return the name of a class in tables: PPO is ppo, TaylorQ is taylor_q.

    A slot or an agent that was written outside of the package is "module:Class".
    """
    if not cls.__module__.startswith("gammaprime."):
        return f"{cls.__module__}:{cls.__qualname__}"
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()


KINDS: dict[str, type[Agent]] = {kind_of(type(agent)): type(agent) for agent in PRESETS.values()}


DDPG_MARKS = {"num_critics": 1, "policy_delay": 1, "target_noise": 0.0}
"""The settings by which DDPG differs from TD3."""


def name_of(agent: Agent) -> str:
    """Return the kind of an agent, or "ddpg" for a TD3 that has the settings of DDPG."""
    if isinstance(agent, TD3) and vars(agent).items() >= DDPG_MARKS.items():
        return "ddpg"
    return kind_of(type(agent))


def agent_from(table: Any) -> Agent:
    """Return the agent that a table describes."""
    return _from_kinds("agent", table, KINDS)


def to_table(value: Any) -> Any:
    """Return a dataclass, and all that it holds, in the types of JSON and TOML."""
    if is_dataclass(value):
        settings = {item.name: to_table(vars(value)[item.name]) for item in fields(value)}
        return {"kind": kind_of(type(value))} | settings
    if isinstance(value, tuple):
        return [to_table(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def as_stored(key: str, value: Any, hint: Any) -> Any:
    """Return a value as it will be read from its table: 1 is 1.0 where a float is meant.

    Equal settings then have one table, one hash and one folder, however they were written.
    Settings of types that no table holds are left as they are.
    """
    if is_dataclass(value):
        try:
            hints = _hints(type(value))
        except NameError:  # annotations of a user's class that cannot be evaluated
            return value
        given = {item.name: vars(value)[item.name] for item in fields(value) if item.init}
        stored = {name: as_stored(name, x, hints[name]) for name, x in given.items()}
        changed = {name: x for name, x in stored.items() if x is not given[name]}
        return replace(value, **changed) if changed else value  # type: ignore[type-var]
    options = _options(hint)
    if not all(option in PLAIN or get_origin(option) is tuple for option in options):
        return value
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is float and value.is_integer() and not {float, bool} & set(options):
        value = int(value)
    if type(value) is int and value in (0, 1) and not {int, float} & set(options):
        value = bool(value)
    fitted = _typed(key, value, hint)
    return value if type(fitted) is type(value) and fitted == value else fitted


def from_table(cls: type, table: Mapping[str, Any]) -> Any:
    """Return the dataclass with these settings; what is not named keeps its default."""
    hints, names = _hints(cls), [item.name for item in fields(cls)]
    for key in table:
        if key not in names:
            raise ValueError(unknown("key", key, names))
    return cls(**{key: _typed(key, value, hints[key]) for key, value in table.items()})


def _hints(cls: Any) -> dict[str, Any]:
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    return _HINTS[cls]


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _typed(key: str, value: Any, hint: Any) -> Any:
    options = _options(hint)
    slots: list[Any] = [option for option in options if is_dataclass(option)]
    if slots:
        return _from_kinds(key, value, {kind_of(slot): slot for slot in slots})
    if value is None and type(None) in options:
        return None
    for option in options:
        if (fitted := _fit(key, value, option)) is not None:
            return fitted
    raise ValueError(f"{key}={value!r}: must be {_spell(options)}")


def _from_kinds(key: str, table: Any, kinds: Mapping[str, type]) -> Any:
    if isinstance(table, str):
        table = {"kind": table}
    if not isinstance(table, Mapping) or "kind" not in table:
        raise ValueError(f"{key}={table!r}: must be a table with a kind: {', '.join(kinds)}")
    kind, rest = table["kind"], {name: x for name, x in table.items() if name != "kind"}
    if key in (*SLOTS, "agent") and ":" in str(kind):
        return from_table(find_class(key, kind), rest)
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(unknown(f"kind of {key}", kind, kinds))
    return from_table(kinds[kind], rest)


def check_imports(*tables: Any, tasks: Iterable[Any] = ()) -> None:
    """Refuse "module:Name" in a file: a task or a slot that would import and run that module.

    Modules that are already imported are taken, and all if `ALLOW_IMPORTS` is set.
    """
    allowed = os.environ.get(ALLOW_IMPORTS, "0") not in ("", "0")
    for name in code_names(*tables, tasks=tasks):
        module = name.partition(":")[0]
        if module not in sys.modules and not allowed:
            raise ValueError(
                f"{name!r} would import and run the module {module!r}; if you trust it: "
                "--allow-imports, or in Python import it before"
            )


def code_names(*tables: Any, tasks: Iterable[Any] = ()) -> list[str]:
    """Return each "module:Name" among tasks, agents and slots, given the tables of agents."""
    parts = [part for table in tables for part in _with_slots(table)]
    kinds = [part.get("kind") if isinstance(part, Mapping) else part for part in parts]
    return [name for name in (*tasks, *kinds) if isinstance(name, str) and ":" in name]


def _with_slots(table: Any) -> list[Any]:
    return [table, *(table.get(key) for key in SLOTS)] if isinstance(table, Mapping) else [table]


def find_class(key: str, kind: str) -> type:
    """Return a slot or an agent of the user's own, "module:Class"; its module is imported.

    It must be a dataclass, and as an agent a subclass of `OnPolicy` or `OffPolicy`, such as PPO.
    """
    try:
        found = resolve_name(kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{key}={kind!r}: must be an importable module:Class ({error}; the current folder is "
            "searched with PYTHONPATH=.)"
        ) from None
    if not (isinstance(found, type) and is_dataclass(found)):
        raise ValueError(f"{key}={kind!r}: must be a dataclass")
    if key == "agent" and not issubclass(found, OnPolicy | OffPolicy):
        raise ValueError(f"{key}={kind!r}: must be a subclass of an agent, such as PPO")
    return found


def _fit(key: str, value: Any, kind: Any) -> Any:
    """Return the value as this type, or None if it does not fit."""
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            return None
        return tuple(_typed(f"{key}[{i}]", item, get_args(kind)[0]) for i, item in enumerate(value))
    if kind is float:
        if value == "inf":
            return math.inf
        try:
            return float(value) if type(value) in (int, float) else None
        except OverflowError:
            return None
    return value if type(value) is kind else None


def _spell(options: Iterable[Any]) -> str:
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    return " or ".join(
        "none" if option is type(None) else words.get(option, "a list") for option in options
    )
