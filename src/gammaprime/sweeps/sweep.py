"""Sweeps of training runs as data: variants of one agent, on tasks, over seeds.

    title, claim, paper     what it is, what the paper says of it, the labels there
    base                    an agent by name, or a table with its kind and what differs from it
    tasks, seeds, steps     shared by all variants, unless one has tasks or steps of its own
    [protocol]              how runs are cut and judged; a variant may add to it
    [[variants]]            a name, and what differs from the base: slots, settings, or the base
    [figure]                how it is shown, read by those who draw it

Infinity is written inf, the absence of a value "none".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from gammaprime.runs import store
from gammaprime.runs.options import AGENTS, Agent, Protocol, agent_from, agent_table, from_table
from gammaprime.runs.setup import Setup, configure, name_run, spell_out
from gammaprime.types import check_count, check_keys, unknown

Table = Mapping[str, Any]

REQUIRED = ("title", "base", "tasks", "seeds", "steps", "variants", "figure")
OPTIONAL = ("claim", "paper", "protocol")
OF_VARIANT = ("name", "base", "tasks", "steps", "protocol")
"""The keys of a variant that are not settings of its agent."""
FIGURES = ("curves", "ablation", "table")


@dataclass(frozen=True)
class Variant:
    """An agent under a name, and where it is trained."""

    name: str
    agent: Agent
    protocol: Protocol
    tasks: tuple[str, ...]
    steps: int


class Planned(NamedTuple):
    """One run of a sweep; two that resolve to the same configuration are one run on the disk."""

    variant: str
    task: str
    seed: int
    steps: int
    name: str
    config: dict[str, Any]
    replay_bytes: int = 0
    """Of what it keeps on the disk to learn from again, until it is done."""

    def path(self, root: Path) -> Path:
        """Its folder, which is that of `gammaprime train` with the same settings."""
        return store.run_path(root, self.name, self.config)


@dataclass(frozen=True)
class Sweep:
    """A figure or table of training runs, ready to be run or drawn."""

    name: str
    title: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int
    variants: tuple[Variant, ...]
    figure: Table
    claim: str = ""
    paper: tuple[str, ...] = ()
    changed: Table = field(default_factory=dict)
    """What the command line asked for in the place of the spec: steps, seeds, tasks."""

    def runs(self, known: Mapping[str, float] | None = None) -> list[Planned]:
        """Every (variant, task, seed), in the order of the spec, with all defaults resolved.

        A task whose simulator is missing need not be made where its own γ' is ``known``.
        """
        pairs = [(variant, task) for variant in self.variants for task in variant.tasks]
        return [run for pair in pairs for run in self._plan(*pair, known or {})]

    def _plan(self, variant: Variant, task: str, known: Mapping[str, float]) -> Iterator[Planned]:
        try:
            setup = Setup(variant.agent, task, variant.steps, 0, variant.protocol)
        except ImportError:
            if task not in known:
                raise
            yield from self._plan_unmade(variant, task, known[task])
            return
        try:
            for seed in self.seeds:
                setup.seed = seed
                about = (variant.name, task, seed, setup.steps)
                yield Planned(*about, setup.name, setup.config, setup.replay_bytes)
        finally:
            setup.close()

    def _plan_unmade(self, variant: Variant, task: str, gamma_prime: float) -> Iterator[Planned]:
        agent, steps, protocol = variant.agent, variant.steps, variant.protocol
        if protocol.time_limit is None and protocol.eval_gamma_prime is None:
            protocol = replace(protocol, eval_gamma_prime=gamma_prime)
        protocol = spell_out(protocol, agent, steps, protocol.time_limit)
        for seed in self.seeds:
            about = (variant.name, task, seed, steps, name_run(agent, task, seed))
            yield Planned(*about, configure(agent, task, steps, seed, protocol))

    def change(
        self,
        steps: int | None = None,
        seeds: Sequence[int] | None = None,
        tasks: Sequence[str] | None = None,
    ) -> Sweep:
        """The same sweep, cheaper or elsewhere; what changed is remembered.

        ``tasks`` replaces those of the sweep; variants with tasks of their own keep those that
        are among them, or are left out.
        """
        asked = {"steps": steps, "seeds": seeds, "tasks": tasks}
        changed = {name: value for name, value in asked.items() if value is not None}
        if not changed:
            return self
        wanted = _texts("tasks", tasks) if tasks is not None else self.tasks
        variants = []
        for variant in self.variants:
            own = wanted if variant.tasks == self.tasks else variant.tasks
            kept = tuple(task for task in own if tasks is None or task in wanted)
            if kept:
                variants.append(replace(variant, tasks=kept, steps=steps or variant.steps))
        if not variants:
            raise ValueError(f"tasks={list(wanted)!r}: must be among those of a variant")
        return replace(
            self,
            tasks=wanted,
            seeds=_seeds(seeds) if seeds is not None else self.seeds,
            steps=check_count("steps", steps) if steps is not None else self.steps,
            variants=tuple(variants),
            changed={**self.changed, **changed},
        )


def parse(table: Table, name: str) -> Sweep:
    """The sweep that a TOML table describes; `ValueError` names what it should not hold."""
    check_keys(table, REQUIRED, OPTIONAL)
    tasks = _texts("tasks", table["tasks"])
    steps = _steps(table["steps"])
    protocol = _protocol(Protocol(), table.get("protocol", {}))
    variants = [
        _variant(entry, table["base"], tasks, steps, protocol)
        for entry in _tables("variants", table["variants"])
    ]
    names = [variant.name for variant in variants]
    for name_ in names:
        if names.count(name_) > 1:
            raise ValueError(f"variants: {name_!r} is there {names.count(name_)} times")
    return Sweep(
        name,
        str(table["title"]),
        tasks,
        _seeds(table["seeds"]),
        steps,
        tuple(variants),
        _figure(table["figure"]),
        str(table.get("claim", "")),
        _texts("paper", table["paper"]) if "paper" in table else (),
    )


def _variant(
    entry: Table, base: Any, tasks: tuple[str, ...], steps: int, protocol: Protocol
) -> Variant:
    if not isinstance(entry.get("name"), str) or not entry["name"]:
        raise ValueError(f"variants: {dict(entry)!r} has no name")
    name = entry["name"]
    settings = {key: value for key, value in entry.items() if key not in OF_VARIANT}
    try:
        return Variant(
            name,
            _agent(entry.get("base", base), settings),
            _protocol(protocol, entry.get("protocol", {})),
            _texts("tasks", entry["tasks"]) if "tasks" in entry else tasks,
            _steps(entry["steps"]) if "steps" in entry else steps,
        )
    except ValueError as error:
        raise ValueError(f"variant {name!r}: {error}") from None


def _agent(base: Any, settings: Table) -> Agent:
    """An agent by name, with what the base table and then the variant say otherwise."""
    changes = dict(base) if isinstance(base, Mapping) else {"kind": base}
    kind = changes.pop("kind", None)
    if not isinstance(kind, str) or kind not in AGENTS:
        raise ValueError(unknown("base", kind, AGENTS))
    for table in (changes, settings):
        if "kind" in table:
            raise ValueError("unknown key 'kind': did you mean 'base'?")
    return agent_from(agent_table(AGENTS[kind]) | _without_none({**changes, **settings}))


def _without_none(value: Any) -> Any:
    """TOML has no null: "none" stands for it."""
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items()}
    return None if value == "none" else value


def _protocol(base: Protocol, table: Any) -> Protocol:
    if not isinstance(table, Mapping):
        raise ValueError(f"protocol={table!r}: must be a table")
    return from_table(Protocol, asdict(base) | _without_none(table))


def _figure(table: Any) -> Table:
    if not isinstance(table, Mapping) or "kind" not in table:
        raise ValueError(f"figure={table!r}: must be a table with a kind: {', '.join(FIGURES)}")
    if table["kind"] not in FIGURES:
        raise ValueError(unknown("kind of figure", table["kind"], FIGURES))
    return table


def _tables(key: str, value: Any) -> list[Table]:
    if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
        raise ValueError(f"{key}: must be tables, at least one: [[{key}]]")
    return value


def _texts(key: str, value: Any) -> tuple[str, ...]:
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items or not all(isinstance(item, str) and item for item in items):
        raise ValueError(f"{key}={value!r}: must be a list of names")
    if len(set(items)) < len(items):
        raise ValueError(f"{key}={value!r}: must name each once")
    return tuple(items)


def _seeds(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"seeds={value!r}: must be a list of integers")
    for seed in value:
        if type(seed) is not int or seed < 0:
            raise ValueError(f"seeds: {seed!r} must be an integer >= 0")
    if len(set(value)) < len(value):
        raise ValueError(f"seeds={value!r}: must name each once")
    return tuple(value)


def _steps(value: Any) -> int:
    if type(value) not in (int, float) or not float(value).is_integer():
        raise ValueError(f"steps={value!r}: must be a whole number")
    return check_count("steps", int(value))
