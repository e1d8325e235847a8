"""What a training run is made of, as values, as plain tables (JSON, TOML) and back.

A dataclass becomes a table with its ``kind``: ``PPO(advantage=TaylorQ(order=2))`` is
``{"kind": "ppo", "advantage": {"kind": "taylor_q", "order": 2, ...}, ...}``.  Infinity is written
"inf".  Keys that a table leaves out keep their defaults, keys that do not exist are refused.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from gammaprime.agents import PG, PPO, PRESETS, SAC, TD3, TRPO, Agent
from gammaprime.types import unknown

Table = dict[str, Any]


def kind_of(cls: type) -> str:
    """The name of a class in tables: PPO is ppo, TaylorQ is taylor_q."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()


KINDS: dict[str, type[Agent]] = {kind_of(cls): cls for cls in (PPO, TRPO, PG, TD3, SAC)}
AGENTS = PRESETS

OF_DDPG = ("num_critics", "policy_delay", "target_noise")
"""The settings by which DDPG differs from TD3; its learning rate is a matter of taste."""


def name_of(agent: Agent) -> str:
    """What an agent is called, by its settings alone: equal ones share a name and a folder."""
    if isinstance(agent, TD3) and all(
        vars(agent)[key] == vars(PRESETS["ddpg"])[key] for key in OF_DDPG
    ):
        return "ddpg"
    return kind_of(type(agent))


@dataclass(frozen=True)
class Protocol:
    """What decides the numbers of a run, beside its agent, task, steps and seed."""

    time_limit: int | None = None
    """Steps after which an episode is cut; the task's own limit by default."""
    stagger: bool = True
    """Cut first episodes early, so that several environments do not share one age."""
    time_feature: bool = False
    """Show the age to the agent, and make the time limit the end of the task."""
    eval_every: int | None = None
    """Steps between evaluations, 0 for none; by default a tenth of all steps, off-policy 5,000."""
    eval_episodes: int | None = None
    """Episodes of an evaluation; 5 by default, off-policy 10."""
    eval_gamma_prime: float | None = None
    """The γ' of the returns that are reported; 1 − 1/time_limit by default."""

    def __post_init__(self) -> None:
        if self.eval_every is not None and self.eval_every < 0:
            raise ValueError(f"eval_every={self.eval_every!r}: must be 0 (never) or more")
        if self.eval_episodes is not None and self.eval_episodes < 1:
            raise ValueError(f"eval_episodes={self.eval_episodes!r}: must be at least 1")
        discount = self.eval_gamma_prime
        if discount is not None and not 0.0 <= discount <= 1.0:
            raise ValueError(f"eval_gamma_prime={discount!r}: must lie in [0, 1]")


@dataclass(frozen=True)
class Upkeep:
    """What a run does beside its numbers; none of it changes them."""

    checkpoint_seconds: float = 30.0
    """At most so much work is lost when a run is killed; 0 saves after every update."""
    tensorboard: bool = True
    """Write events for TensorBoard beside the metrics."""

    def __post_init__(self) -> None:
        if not self.checkpoint_seconds >= 0.0:
            raise ValueError(f"checkpoint_seconds={self.checkpoint_seconds!r}: must be 0 or more")


def agent_table(agent: Agent) -> Table:
    """An agent as a table, with every setting in it."""
    return to_table(agent)


def agent_from(table: Mapping[str, Any]) -> Agent:
    """The agent that a table describes."""
    return _from_kinds("agent", table, KINDS)


def to_table(value: Any) -> Any:
    """A dataclass, and all that it holds, in the words of JSON and TOML."""
    if is_dataclass(value):
        settings = {field.name: to_table(vars(value)[field.name]) for field in fields(value)}
        return {"kind": kind_of(type(value))} | settings
    if isinstance(value, tuple):
        return [to_table(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def from_table(cls: type, table: Mapping[str, Any]) -> Any:
    """The dataclass with these settings; what is not named keeps its default."""
    hints, names = get_type_hints(cls), [field.name for field in fields(cls)]
    for key in table:
        if key not in names:
            raise ValueError(unknown("key", key, names))
    return cls(**{key: _typed(key, value, hints[key]) for key, value in table.items()})


def _typed(key: str, value: Any, hint: Any) -> Any:
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    slots = [option for option in options if is_dataclass(option)]
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
    if table["kind"] not in kinds:
        raise ValueError(unknown(f"kind of {key}", table["kind"], kinds))
    rest = {name: value for name, value in table.items() if name != "kind"}
    return from_table(kinds[table["kind"]], rest)


def _fit(key: str, value: Any, kind: Any) -> Any:
    """The value as this type, or None where it is not of it."""
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            return None
        return tuple(_typed(f"{key}[{i}]", item, get_args(kind)[0]) for i, item in enumerate(value))
    if kind is float:
        if value == "inf":
            return math.inf
        return float(value) if type(value) in (int, float) else None
    return value if type(value) is kind else None


def _spell(options: Iterable[Any]) -> str:
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    return " or ".join(
        "none" if option is type(None) else words.get(option, "a list") for option in options
    )
