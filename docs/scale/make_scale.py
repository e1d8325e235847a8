"""Fill in docs/scale.md: what every sweep costs, from the speeds that measure.py has stored.

The page is prose around blocks between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; the
blocks are made here from the specs of the package and from speeds.json, and nothing else.

    python docs/scale/make_scale.py            write the blocks
    python docs/scale/make_scale.py --check    exit 1 if those on disk are stale
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # docs

from blocks import main, table
from costs import (
    Config,
    Speeds,
    Sweeps,
    configs_by_kind,
    cost_of_run,
    count_evaluations,
    evaluation_kind,
    learning_kind,
    load_speeds,
    load_sweeps,
    name_of,
    wall_clock,
)

from gammaprime.sweeps.driver import Job
from gammaprime.sweeps.forecast import kind_of_run

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/scale.md"
SPEEDS = ROOT / "docs/scale/speeds.json"
COMMAND = "python docs/scale/make_scale.py"
CORES = (1, 8, 64)
MISSING = "not measured"


def make_blocks(sweeps: Sweeps, speeds: Speeds) -> dict[str, str]:
    """Every generated part of the page."""
    return {
        "machine": machine_block(sweeps, speeds),
        "figures": figures_block(sweeps, speeds),
        "limits": limits_block(sweeps, speeds),
        "speeds": speeds_block(sweeps, speeds),
    }


def machine_block(sweeps: Sweeps, speeds: Speeds) -> str:
    """Where the speeds come from, and how quiet it was there."""
    if not speeds.learning:
        return f"Nothing was measured so far: below it says `{MISSING}`."
    about, configs = speeds.machine, _learners(sweeps)
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    shares = [value["core_share"] for value in speeds.learning.values()]
    lines = [
        f"- `{about['command']}` on {about['cpu']}, {about['cores']} cores, with {versions}.",
        f"- {len(shares)} kinds of run, {about['probe_seconds']:g} s of learning of each, in a "
        f"process that had {percent(min(shares))} to {percent(max(shares))} of its core.",
    ]
    for kind, crowded in speeds.crowded.items():
        if kind in speeds.learning and kind in configs:
            kept = crowded / speeds.learning[kind]["steps_per_second"]
            lines.append(
                f"- {', '.join(_title(configs[kind]))}, {about['cores']} at once on "
                f"{about['cores']} cores: {percent(kept)} of the speed of one alone."
            )
    return "\n".join([*lines, *_compare_with_whole(sweeps, speeds)])


def _compare_with_whole(sweeps: Sweeps, speeds: Speeds) -> list[str]:
    """What whole runs took, beside what these figures say of them."""
    pairs = [
        (config["settings"]["steps"] / speeds.whole[kind], cost.seconds)
        for kind, config in configs_by_kind(sweeps).items()
        if kind in speeds.whole and (cost := cost_of_run(config, speeds))
    ]
    if not pairs:
        return []
    longer = sorted(took / said for took, said in pairs)
    return [
        f"- Whole runs in results/published, of {len(longer)} kinds, took {longer[0]:.1f} to "
        f"{longer[-1]:.1f} times as long as this page says, beside whatever else was running."
    ]


def figures_block(sweeps: Sweeps, speeds: Speeds) -> str:
    """What each sweep costs, and how long it takes on so many cores."""
    head = ["", "runs", "steps", "learning", "evaluations, at most", "longest run"]
    head += ["on 1 core" if n == 1 else f"on {n} cores" for n in CORES] + ["fills"]
    rows = [_figure_row(f"`{name}`", jobs, speeds) for name, (_, jobs) in sweeps.items()]
    of_paper = [job for sweep, jobs in sweeps.values() if sweep.paper for job in jobs]
    everything = [job for _, jobs in sweeps.values() for job in jobs]
    for title, jobs in (("**the paper**", of_paper), ("**all of these**", everything)):
        rows.append(_figure_row(title, list({job.path: job for job in jobs}.values()), speeds))
    return table(head, rows)


def _figure_row(title: str, jobs: Sequence[Job], speeds: Speeds) -> list[str]:
    steps = sum(job.config.steps for job in jobs)
    row = [title, f"{len(jobs):,}", f"{steps / 1e6:,.4g} M"]
    costs = [cost_of_run(job.config.to_table(), speeds) for job in jobs]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        left_out = f"{MISSING}: {len(costs) - len(known)} runs"
        return [*row, left_out, *[MISSING] * (3 + len(CORES))]
    seconds = [cost.seconds for cost in known]
    row.append(duration(sum(cost.learning for cost in known)))
    row += [duration(sum(cost.evaluations for cost in known)), duration(max(seconds))]
    row += [duration(wall_clock(seconds, cores)) for cores in CORES]
    return [*row, f"{sum(seconds) / max(seconds):,.0f} cores"]


def limits_block(sweeps: Sweeps, speeds: Speeds) -> str:
    """Where the time of a run goes, and what could be gained by taking a part of it away."""
    head = ["run", "task", "environment", "acting", "learning", "one gradient step"]
    head += ["learning for free", "environment for free"]
    rows = []
    for kind, config in _learners(sweeps).items():
        if kind not in speeds.shares:
            continue
        part = speeds.shares[kind]
        step = part["seconds_per_gradient_step"]
        row = [*_title(config), *(percent(part[name]) for name in head[2:5])]
        row.append("" if step is None else f"{step * 1e6:,.0f} µs")
        rows.append(row + [f"{1 / (1 - part[name]):.1f} ×" for name in (head[4], head[2])])
    return table(head, rows) if rows else MISSING


def speeds_block(sweeps: Sweeps, speeds: Speeds) -> str:
    """The speeds themselves, beside whole runs where some were published."""
    head = ["run", "task", "steps", "learning, steps/s", "evaluations, at most", "all of it"]
    head.append("at a published speed")
    configs = configs_by_kind(sweeps)
    return table(head, [_speed_row(config, speeds) for config in configs.values()])


def _speed_row(config: Config, speeds: Speeds) -> list[str]:
    speed = speeds.learning.get(learning_kind(config))
    evaluation = speeds.evaluations.get(evaluation_kind(config))
    cost, whole = cost_of_run(config, speeds), speeds.whole.get(kind_of_run(config))
    number, steps = count_evaluations(config), config["settings"]["steps"]
    return [
        *_title(config),
        f"{steps:,}",
        MISSING if speed is None else f"{speed['steps_per_second']:,.0f}",
        f"{number}, {MISSING}" if evaluation is None else f"{number} of {evaluation:.2f} s",
        MISSING if cost is None else duration(cost.seconds),
        "" if whole is None else duration(steps / whole),
    ]


def _learners(sweeps: Sweeps) -> dict[tuple[str, ...], Config]:
    return {learning_kind(config): config for config in configs_by_kind(sweeps).values()}


def _title(config: Config) -> list[str]:
    agent = config["settings"]["agent"]
    rollout = f"{agent['num_envs']} x {agent['num_steps']}"
    return [f"{name_of(config)}, {rollout}", config["settings"]["task"]]


def duration(seconds: float) -> str:
    """1,234 h, 12.3 h, 41 min or 12 s."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.{1 if seconds < 360_000 else 0}f} h"


def percent(share: float) -> str:
    """42 %."""
    return f"{100 * share:.0f} %"


if __name__ == "__main__":
    sys.exit(main(COMMAND, lambda: {PAGE: make_blocks(load_sweeps(), load_speeds(SPEEDS))}))
