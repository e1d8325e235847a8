"""Experiments as data: from a TOML to a sweep of training runs, or to a computation.

A sweep of training runs:

    title, claim, paper     what it is, what the paper says of it, the labels there
    base                    an agent by name, or a table with its kind and what differs from it
    tasks, seeds, steps     shared by all variants; a variant may have its own.  Seeds may differ
                            by task: { "*-v4" = "0:10", "*Bullet*" = "0:5" }
    evaluation, time_limit, time_feature, stagger, env_kwargs
                            as in `RunConfig`; a variant may change them
    [[variants]]            a name, and what differs from the base: slots, settings, or the base
    [figure]                how it is shown

A computation has a title, a kind and a table of settings.  Infinity is written inf, the absence of
a value "none".
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gammaprime.experiments import toy, weights
from gammaprime.runs import directory, provenance
from gammaprime.sweeps import FIGURES, RUNS
from gammaprime.types import check_count, check_keys, check_steps, unknown

if TYPE_CHECKING:
    from gammaprime.agents import Agent
    from gammaprime.runs.config import RunConfig
    from gammaprime.runs.results import Result, Stored
    from gammaprime.sweeps.driver import Job, Watcher

Table = Mapping[str, Any]

KINDS = {"toy": toy, "weights": weights}
"""The modules of computations: each has ``Settings`` and ``run(settings, report) -> arrays``."""
REQUIRED = ("title", "base", "tasks", "seeds", "steps", "variants", "figure")
RUN_KEYS = ("evaluation", "time_limit", "time_feature", "stagger", "env_kwargs")
"""Keys of a sweep and of a variant that are fields of `RunConfig`."""
OPTIONAL = ("claim", "paper", *RUN_KEYS)
VARIANT_KEYS = ("name", "base", "tasks", "seeds", "steps", *RUN_KEYS)
"""The keys of a variant that are not settings of its agent."""
MAX_SEEDS = 10_000


@dataclass(frozen=True)
class Variant:
    """An agent and its run settings under a name, and the tasks and seeds it is trained on."""

    name: str
    config: RunConfig
    """On the first task, with the first seed; those of the other runs differ in these alone."""
    tasks: tuple[str, ...]
    seeds: tuple[tuple[int, ...], ...]
    """Seeds of each task."""


@dataclass(frozen=True)
class Sweep:
    """A figure or table of training runs, ready to be run or drawn."""

    name: str
    title: str
    tasks: tuple[str, ...]
    steps: int
    variants: tuple[Variant, ...]
    figure_table: Table
    """The table [figure] of the spec."""
    claim: str = ""
    paper: tuple[str, ...] = ()
    changed: Table = field(default_factory=dict)
    """Steps, seeds and tasks that replace those of the spec."""
    text: str = field(default="", repr=False)
    """The TOML of a spec that does not ship with the package."""
    source: str = field(default="", compare=False)
    """The name or the file that it was loaded from."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of all variants, in increasing order."""
        lists = (own for variant in self.variants for own in variant.seeds)
        return tuple(sorted(set().union(*lists)))

    def change(
        self,
        steps: float | None = None,
        seeds: Sequence[int] | str | None = None,
        tasks: Sequence[str] | None = None,
    ) -> Sweep:
        """Return the sweep with other steps, seeds or tasks; figures tell what was changed.

        Variants with tasks of their own keep those that are among ``tasks``, or are left out.
        Tasks that are not in the spec take the seeds of the first that is.
        """
        changed: dict[str, Any] = {}
        if steps is not None:
            changed["steps"] = check_steps(steps, text_allowed=True)
        if seeds is not None:
            changed["seeds"] = list(read_seeds(seeds))
        if tasks is not None:
            from gammaprime.figures import options

            options.read(self)  # on other tasks it may lack variants that [figure] names
            changed["tasks"] = list(_names("tasks", tasks))
        if not changed:
            return self
        wanted = tuple(changed.get("tasks", self.tasks))
        variants = []
        for variant in self.variants:
            own = wanted if variant.tasks == self.tasks else variant.tasks
            kept = tuple(task for task in own if tasks is None or task in wanted)
            if kept:
                number = changed.get("steps", variant.config.steps)
                config = replace(variant.config, task=kept[0], steps=number)
                known = dict(zip(variant.tasks, variant.seeds, strict=True))
                own_seeds = (changed.get("seeds", known.get(t, variant.seeds[0])) for t in kept)
                variants.append(Variant(variant.name, config, kept, tuple(map(tuple, own_seeds))))
        if not variants:
            raise ValueError(f"tasks={list(wanted)!r}: must be among those of a variant")
        return replace(
            self,
            tasks=wanted,
            steps=changed.get("steps", self.steps),
            variants=tuple(variants),
            changed={**self.changed, **changed},
        )

    def configs(self) -> list[tuple[str, RunConfig]]:
        """Return the variant and the configuration of every run, in the order of the spec."""
        return [
            (variant.name, replace(variant.config, task=task, seed=seed).resolve())
            for variant in self.variants
            for task, seeds in zip(variant.tasks, variant.seeds, strict=True)
            for seed in seeds
        ]

    def jobs(self, out: str | Path = RUNS) -> list[Job]:
        """Return the runs of the sweep in a folder, each once, with what is known of them there."""
        from gammaprime.sweeps.driver import plan

        return plan(self.configs(), Path(out))

    def run(
        self,
        out: str | Path = RUNS,
        workers: int | None = None,
        ray: str | None = None,
        checkpoint_seconds: float = 30.0,
        watcher: Watcher | None = None,
    ) -> list[Job]:
        """Train every run that is not done, in processes of this machine or on a Ray cluster.

        Args:
            out: folder of the runs; several drivers may share it.
            workers: runs at a time; by default as many as there are cores.
            ray: address of a Ray cluster, or "local" for a new one.
            checkpoint_seconds: at most so much work is lost when a run is killed.
            watcher: called with the plan, the forecast and the progress.

        Returns:
            The jobs, whose states are "done" or "failed".  Ctrl-C saves all runs and raises
            `gammaprime.runs.interrupts.Interrupted`.
        """
        from gammaprime.figures import options
        from gammaprime.sweeps import driver

        options.read(self)  # what could not be drawn is not trained
        watcher = watcher or driver.Watcher()
        return driver.run(self, Path(out), workers, ray, checkpoint_seconds, watcher)

    def results(
        self,
        out: str | Path = RUNS,
        leave_out: Callable[[Path, Exception], None] | None = None,
        stored: dict[Path, Stored] | None = None,
    ) -> list[Result]:
        """Return what the runs in a folder have stored, one for each variant, task and seed.

        Args:
            out: folder of the runs.
            leave_out: called with a run that cannot be read, which then counts as not begun;
                without it such a run is an error.
            stored: runs that another sweep on the folder has read; those of this one are added.
        """
        from gammaprime.runs.results import read_results

        return read_results(self.configs(), Path(out), leave_out, stored)

    def figure(
        self,
        runs: str | Path = RUNS,
        out: str | Path = FIGURES,
        band: str | None = None,
        formats: Sequence[str] = (),
    ) -> list[Path]:
        """Draw what the runs in a folder have stored; return the files, pictures first.

        Args:
            runs: Folder of the runs.
            out: Folder of the files.
            band: "median_std" or "iqm"; the spec's by default.
            formats: "pdf" for pictures and "tex" for tables, besides PNG, SVG, Markdown and CSV.
        """
        from gammaprime.figures import draw_sweep, options

        shown = options.read(self, band, formats)
        if band is not None and shown.kind == "table":
            raise ValueError(f"band: is for curves and ablations, {self.name} is a table")
        results = self.results(runs)
        if not any(result.reached for result in results):
            raise FileNotFoundError(
                f"{runs}: no run of {self.name} has begun here with these steps, seeds and tasks; "
                f"first: gammaprime run {self.source}"
            )
        return draw_sweep(shown, results, Path(out))


@dataclass(frozen=True)
class Computation:
    """An experiment that is computed, not trained."""

    name: str
    title: str
    kind: str
    settings: toy.Settings | weights.Settings
    source: str = field(default="", compare=False)
    """The name or the file that it was loaded from."""

    @property
    def config(self) -> dict[str, Any]:
        """Settings that decide the numbers, and so name the run; the title does not."""
        return {"kind": self.kind, "settings": asdict(self.settings)}

    def change(
        self,
        steps: float | None = None,
        seeds: Sequence[int] | str | None = None,
        tasks: Sequence[str] | None = None,
    ) -> Computation:
        """Refuse every change: steps, seeds and tasks are those of training runs."""
        for name, value in (("steps", steps), ("seeds", seeds), ("tasks", tasks)):
            if value is not None:
                raise ValueError(
                    f"{name}: is for sweeps of training runs, which {self.name} is not"
                )
        return self

    def path(self, out: str | Path = RUNS) -> Path:
        """Return the folder of its run."""
        return Path(out) / directory.folder_name(self.name, self.config)

    def run(
        self,
        out: str | Path = RUNS,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Compute and store the numbers, unless that is done; return their folder.

        Args:
            out: folder of the runs.
            force: compute again what is done; until the end, what was done before stays.
            progress: called with the number of parts that are done, and of all parts.
        """
        path = self.path(out)
        if not force and directory.is_done(path, self.config):
            return path
        directory.check_owner(path, self.config)
        started = time.perf_counter()
        data = KINDS[self.kind].run(self.settings, progress or (lambda done, total: None))
        seconds = time.perf_counter() - started
        seed = self.config["settings"].get("seed")
        directory.begin(path, self.config, provenance.manifest(seed))
        directory.finish(path, data, seconds)
        return path

    def results(self, out: str | Path = RUNS) -> directory.Arrays:
        """Return the arrays that were stored in a folder."""
        return directory.read(self.path(out), self.config).data

    def figure(
        self,
        runs: str | Path = RUNS,
        out: str | Path = FIGURES,
        band: str | None = None,
        formats: Sequence[str] = (),
    ) -> list[Path]:
        """Draw what was stored in a folder; return the files, pictures first."""
        from gammaprime.figures import draw_computed, options

        options.check_formats(formats)
        if band is not None:
            raise ValueError(f"band: is for sweeps of training runs, which {self.name} is not")
        if not directory.is_done(self.path(runs), self.config):
            raise FileNotFoundError(
                f"{self.path(runs)}: no finished run here; first: gammaprime run {self.source}"
            )
        run = directory.read(self.path(runs), self.config)
        return draw_computed(run.config, run.data, Path(out), self.name, formats)


Experiment = Sweep | Computation


def shipped() -> list[str]:
    """Return the names of the experiments in the package."""
    files = resources.files("gammaprime.experiments").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_experiment(name: str | Path) -> Experiment:
    """Return the experiment of this name (see `shipped`), or the one in this TOML file."""
    text, short, where = _find(str(name))
    return parse(text, short, where)


def read_title(name: str) -> str:
    """Return the title of an experiment; nothing that would run it is imported."""
    text, _, where = _find(name)
    return str(_read(text, where).get("title", ""))


def _find(name: str) -> tuple[str, str, str]:
    """Return the text of an experiment, its short name, and where it came from."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise FileNotFoundError(f"{name}: no such file")
        try:
            return path.read_text(encoding="utf-8"), path.name.removesuffix(".toml"), name
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: not valid UTF-8: {error}") from None
    names = shipped()
    if name not in names:
        raise ValueError(f"{unknown('experiment', name, names)} (a file's name ends in .toml)")
    file = resources.files("gammaprime.experiments") / f"{name}.toml"
    return file.read_text(encoding="utf-8"), name, name


def parse(text: str, name: str, where: str) -> Experiment:
    """Return the experiment written in this TOML; errors begin with ``where`` it came from."""
    table = _read(text, where)
    try:
        if "base" not in table and "variants" not in table:
            return _parse_computation(table, name, where)
        kept = text if where.endswith(".toml") else ""
        return replace(_parse_sweep(table, name), text=kept, source=where)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _read(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: not valid TOML: {error}") from None


def _parse_sweep(table: Table, name: str) -> Sweep:
    if "protocol" in table:
        raise ValueError("protocol: is now evaluation, time_limit, time_feature and stagger")
    _check_place(table)
    check_keys(table, REQUIRED, OPTIONAL)
    tasks = _names("tasks", table["tasks"])
    shared = {"steps": table["steps"], **{k: table[k] for k in RUN_KEYS if k in table}}
    shared["seeds"] = table["seeds"]
    variants = [
        _parse_variant(entry, table["base"], tasks, shared)
        for entry in _tables("variants", table["variants"])
    ]
    if not isinstance(table["figure"], Mapping):
        raise ValueError(f"figure={table['figure']!r}: must be a table")
    names = [variant.name for variant in variants]
    for name_ in names:
        if names.count(name_) > 1:
            raise ValueError(f"variants: {name_!r} is there {names.count(name_)} times")
    return Sweep(
        name,
        str(table["title"]),
        tasks,
        check_steps(table["steps"]),
        tuple(variants),
        table["figure"],
        str(table.get("claim", "")),
        _names("paper", table["paper"]) if "paper" in table else (),
    )


def _check_place(table: Table) -> None:
    """Say where a setting of the agent belongs that stands at the top of a spec."""
    from gammaprime.agents import PRESETS

    settings = {item.name for agent in PRESETS.values() for item in fields(agent)}
    for key in table:
        if key in settings and key not in (*REQUIRED, *OPTIONAL):
            base = table.get("base", "ppo")
            base = base.get("kind") if isinstance(base, Mapping) else base
            raise ValueError(
                f"{key}: is a setting of the agent; write it into a variant or, for all of them, "
                f'into the base: base = {{ kind = "{base}", {key} = ... }}'
            )


def _parse_variant(entry: Table, base: Any, tasks: tuple[str, ...], shared: Table) -> Variant:
    from gammaprime.runs.config import check_imports

    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"variants: {dict(entry)!r} has no name")
    settings = {key: value for key, value in entry.items() if key not in VARIANT_KEYS}
    own = {key: entry[key] for key in ("steps", *RUN_KEYS) if key in entry}
    try:
        tasks = _names("tasks", entry["tasks"]) if "tasks" in entry else tasks
        check_imports(entry.get("base", base), settings, tasks=tasks)
        agent = _parse_agent(entry.get("base", base), settings)
        seeds = entry.get("seeds", shared["seeds"])
        config = _parse_config(agent, tasks[0], shared, own)
        return Variant(name, config, tasks, tuple(_seeds_of(task, seeds) for task in tasks))
    except ValueError as error:
        raise ValueError(f"variant {name!r}: {error}") from None


def _seeds_of(task: str, seeds: Any) -> tuple[int, ...]:
    """Return the seeds of a task; in a table, those of the first pattern that it matches."""
    if not isinstance(seeds, Mapping):
        return read_seeds(seeds)
    for pattern, own in seeds.items():
        if fnmatchcase(task, pattern):
            return read_seeds(own)
    raise ValueError(f"seeds: no pattern of {', '.join(seeds)} matches the task {task}")


def _parse_agent(base: Any, settings: Table) -> Agent:
    """Return an agent by name, changed by the base table and then by the variant."""
    from gammaprime.agents import PRESETS
    from gammaprime.runs.config import agent_from, to_table

    changes = dict(base) if isinstance(base, Mapping) else {"kind": base}
    name = str(changes.pop("kind", None)).replace("-", "_")
    if name not in PRESETS and ":" not in name:
        raise ValueError(unknown("base", name, PRESETS))
    for table in (changes, settings):
        if "kind" in table:
            raise ValueError("unknown key 'kind': did you mean 'base'?")
    table = to_table(PRESETS[name]) if name in PRESETS else {"kind": name}
    return agent_from(table | _plain({**changes, **settings}))


def _parse_config(agent: Agent, task: str, shared: Table, own: Table) -> RunConfig:
    from gammaprime.runs.config import Evaluation, RunConfig, from_table

    evaluation, env_kwargs = (_join(key, shared, own) for key in ("evaluation", "env_kwargs"))
    merged = _plain({"time_limit": None, "time_feature": False, "stagger": True, **shared, **own})
    if merged["time_limit"] is not None:
        check_count("time_limit", merged["time_limit"])
    for key in ("time_feature", "stagger"):
        if type(merged[key]) is not bool:
            raise ValueError(f"{key}={merged[key]!r}: must be true or false")
    return RunConfig(
        agent,
        task,
        check_steps(merged["steps"]),
        evaluation=from_table(Evaluation, _plain(evaluation)),
        time_limit=merged["time_limit"],
        time_feature=merged["time_feature"],
        stagger=merged["stagger"],
        env_kwargs=env_kwargs,
    )


def _join(key: str, *tables: Table) -> dict[str, Any]:
    """Return a table of a sweep, and what its variant adds to it."""
    joined: dict[str, Any] = {}
    for table in tables:
        part = table.get(key, {})
        if not isinstance(part, Mapping):
            raise ValueError(f"{key}={part!r}: must be a table")
        joined |= part
    return joined


def _plain(value: Any) -> Any:
    """Return a table with None for "none", since TOML has no null, and kinds with underscores."""
    if not isinstance(value, Mapping):
        return None if value == "none" else value
    table = {key: _plain(item) for key, item in value.items()}
    if "kind" in table:
        if not isinstance(table["kind"], str):
            raise ValueError(f"kind={table['kind']!r}: must be a name")
        table["kind"] = table["kind"].replace("-", "_")
    return table


def _tables(key: str, value: Any) -> list[Table]:
    if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
        raise ValueError(f"{key}: must be tables, at least one: [[{key}]]")
    return value


def _names(key: str, value: Any) -> tuple[str, ...]:
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items or not all(isinstance(item, str) and item for item in items):
        raise ValueError(f"{key}={value!r}: must be a list of names")
    if len(set(items)) < len(items):
        raise ValueError(f"{key}={value!r}: must name each once")
    return tuple(items)


def read_seeds(value: Any) -> tuple[int, ...]:
    """Return the seeds of a list of integers or of a text: "0:3" and "0,1,2" are the same."""
    seeds = _split_seeds(value) if isinstance(value, str) else value
    if not isinstance(seeds, list | tuple) or not seeds:
        raise ValueError(f"seeds={value!r}: must be a list of integers, or like 0:3 or 0,1,2")
    if len(seeds) > MAX_SEEDS:
        raise ValueError(f"seeds={value!r}: must be at most {MAX_SEEDS:,}")
    for seed in seeds:
        if type(seed) is not int or seed < 0:
            raise ValueError(f"seeds: {seed!r} must be an integer >= 0")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={value!r}: must name each once")
    return tuple(seeds)


def _split_seeds(text: str) -> list[int]:
    first, colon, end = text.partition(":")
    try:
        if colon:
            # One more than allowed is enough to be refused.
            return list(range(int(first or 0), int(end))[: MAX_SEEDS + 1])
        return [int(number) for number in text.split(",")]
    except ValueError:
        return []


def _parse_computation(table: Table, name: str, where: str) -> Computation:
    from gammaprime.runs.config import from_table

    check_keys(table, required=("title", "kind", "settings"))
    kind, settings = table["kind"], table["settings"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(unknown("kind", kind, KINDS))
    if not isinstance(settings, Mapping):
        raise ValueError(f"settings={settings!r}: must be a table")
    cls = KINDS[kind].Settings
    check_keys(settings, required=[field.name for field in fields(cls)])
    return Computation(name, str(table["title"]), kind, from_table(cls, settings), where)
