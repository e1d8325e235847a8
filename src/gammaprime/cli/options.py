"""The options of `gammaprime train`, which tyro makes from the agents themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from gammaprime.agents import PRESETS, Agent, OffPolicy
from gammaprime.cli.terminal import wide_enough
from gammaprime.runs.config import SLOTS as SLOT_NAMES
from gammaprime.runs.config import Evaluation, find_class
from gammaprime.types import unknown

SLOTS = {
    True: "weighting:density-ratio --weighting.inverse-temperature 0.2",
    False: "advantage:taylor-q --advantage.order 2 weighting:taylor-weight",
}
"""An example of slots, for an agent that learns off-policy or not."""
OWN_SLOT = re.compile(r"(\w+):([\w.]+:\w+)")
"""A slot of the user's own, such as advantage:my_package.my_module:Mine."""
CITATIONS = re.compile(r"\s*\b(Paper|Departs|Shapes): .*")


def _read_count(texts: list[str]) -> int:
    number = float(texts[0])
    if not number.is_integer():
        raise ValueError(f"{texts[0]} is not a whole number")
    return int(number)


Count = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=_read_count,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [f"{value}"],
    ),
]
"""An integer that may be written 1e6."""

EnvKwargs = Annotated[str, tyro.conf.arg(metavar="JSON")]


def read_env_kwargs(text: str) -> dict[str, Any]:
    """Return keyword arguments from '{"name": false}' or 'name=false,other=0.5'."""
    if text.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise ValueError(f"env_kwargs={text!r}: is not JSON: {error}") from None
        return found
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError(f"env_kwargs={text!r}: must be JSON or name=value,name=value")
    return {name.strip(): _read_value(value.strip()) for name, _, value in pairs}


def _read_value(text: str) -> Any:
    """Return a number, true, false or null, and anything else as a text."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


@dataclass(frozen=True)
class Command:
    """Options of `gammaprime train` besides those of the agent."""

    task: str
    """For instance HalfCheetah-v4, Hopper-v5, HalfCheetahBulletEnv-v0, any Gymnasium id."""
    steps: Count = 1_000_000
    """Environment steps, of all environments together; whole rollouts are trained, rounded down."""
    seed: int = 0
    """Seed of everything random."""
    out: Path | None = None
    """Folder of the run; results/runs/<agent>-<task>-s<seed>-<hash> by default."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    time_limit: int | None = None
    """Steps after which an episode is cut; the task's own limit by default."""
    env_kwargs: EnvKwargs = ""
    """Keyword arguments of the environment, as JSON or as name=value,name=value; the task then goes
    through Gymnasium."""
    time_feature: bool = False
    """Append the time to observations; the time limit then terminates."""
    stagger: bool = True
    """Cut first episodes early, so that several environments do not share one age."""
    init: Path | None = None
    """Folder of a run whose parameters to begin with; optimisers and replay begin anew."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints; 0 saves after every update."""
    tensorboard: bool = True
    """Write events for TensorBoard beside the metrics."""
    threads: int = 1
    """Threads that step the environments of a MuJoCo task; no number depends on it."""
    keep_replay: bool = False
    """Keep the replay buffer of a finished off-policy run, so that it can be lengthened."""
    keep_critic: bool = False
    """Store the critic in policy.npz too."""
    compilation_cache: bool = True
    """Keep compiled programs in the user's cache folder, so that the next start is quick."""


def parse(words: Sequence[str]) -> tuple[Agent, Command]:
    """Return the agent and the command that the words after `gammaprime train` ask for."""
    name, *rest = words
    agent = _find_agent(name)
    # One level of names is dropped, so that it is --gamma and --advantage.order.
    kind = _with_own_slots(agent, rest)
    flat: Any = Annotated[kind, tyro.conf.arg(name="")]
    whole: Any = make_dataclass(
        "Train",
        [("agent", flat, field(default_factory=lambda: kind(**vars(agent))))],
        bases=(Command,),
        frozen=True,
    )
    example = SLOTS[isinstance(agent, OffPolicy)]
    with _without_citations(type(agent)), wide_enough():
        whole.__doc__ = f"{type(agent).__doc__}\n\nSlots may stand anywhere: {example}"
        parsed = tyro.cli(
            whole,
            prog=f"gammaprime train {name}",
            args=rest,
            config=(tyro.conf.CascadeSubcommandArgs,),
        )
    return type(agent)(**vars(parsed.agent)), parsed


def _find_agent(name: str) -> Agent:
    """Return the agent of a preset, or of a class of the user's own, "module:Class"."""
    if ":" in name:
        own: Agent = find_class("agent", name)()
        return own
    key = name.replace("-", "_")
    if key not in PRESETS:
        raise ValueError(f"train: {unknown('agent', name, PRESETS)}")
    return PRESETS[key]


def _with_own_slots(agent: Agent, words: Sequence[str]) -> Any:
    """Return the type of an agent, which also takes the slots "module:Class" that words name."""
    hints, changed = get_type_hints(type(agent)), []
    for slot, kind in (found.groups() for word in words if (found := OWN_SLOT.fullmatch(word))):
        if slot not in hints:
            raise ValueError(f"train: {unknown('slot', slot, SLOT_NAMES)}")
        own: Any = Annotated[find_class(slot, kind), tyro.conf.subcommand(name=kind)]
        changed.append((slot, hints[slot] | own, field(default=vars(agent)[slot])))
    if not changed:
        return type(agent)
    return make_dataclass(type(agent).__name__, changed, bases=(type(agent),), frozen=True)


@contextmanager
def _without_citations(agent: type) -> Iterator[None]:
    """Take the lines that cite the paper out of the docstrings that tyro prints."""
    hints = get_type_hints(agent).values()
    classes = {agent, *(slot for hint in hints for slot in get_args(hint) if is_dataclass(slot))}
    before = {cls: cls.__doc__ for cls in classes}
    try:
        for cls, text in before.items():
            lines = cleandoc(text or "").splitlines()
            cls.__doc__ = "\n".join(CITATIONS.sub("", line) for line in lines).strip()
        yield
    finally:
        for cls, text in before.items():
            cls.__doc__ = text
