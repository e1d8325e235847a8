"""What is worth keeping of a sweep: folders that draw the same figure, small enough to commit.

Of each finished run its config.json, its manifest.json and, of its metrics, the episodes and
evaluations, to seven digits; no checkpoints, no policy, no clock.  `read_records` reads these
folders as it reads those of runs, and a report of them can be written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gammaprime.runs import folders, store
from gammaprime.runs.files import from_json, to_json, write_whole
from gammaprime.runs.metrics import METRICS, Row
from gammaprime.sweeps import history, spec
from gammaprime.sweeps.records import Record, read_records, whole_rows

DIGITS = 7
KEPT = ("time/total_timesteps", "episodes")


def publish_spec(name: str, runs: Path, root: Path) -> list[Path]:
    """The folders under ``root`` of all finished runs of a sweep, each of them once."""
    sweep = spec.load(name)
    if isinstance(sweep, spec.Spec):
        raise ValueError(f"{name}: is computed, not trained; publish its figure instead")
    records = {record.path: record for record in read_records(sweep, runs) if record.done}
    if not records:
        raise FileNotFoundError(f"{runs}: no run of {name} is done here; gammaprime run {name}")
    paths = [publish(record, root) for record in records.values()]
    history.note(root, name, sweep)
    return paths


def publish(record: Record, root: Path) -> Path:
    """The folder under ``root`` of a finished run."""
    path = root / record.path.name
    if path.resolve() == record.path.resolve():
        raise ValueError(f"{path}: is the run itself; publish into another folder")
    store.begin(path, record.config, record.manifest)
    rows = whole_rows((record.path / METRICS).read_bytes())
    # Off-policy most lines tell of updates alone; the last says how far the run got.
    told = [row for row in rows[:-1] if row["episodes"] or any(map(_is_evaluation, row))]
    lines = [to_json(shorten(row), indent=None) for row in [*told, *rows[-1:]]]
    write_whole(path / METRICS, b"".join(lines))
    folders.finish(path, from_json(record.path / "done")["seconds"])
    return path


def shorten(row: Row) -> Row:
    """The part of a line of metrics that figures read."""
    kept = {k: v for k, v in row.items() if k in KEPT or _is_evaluation(k)}
    return {name: _round(value) for name, value in kept.items()}


def _is_evaluation(name: str) -> bool:
    return name.startswith("eval/")


def _round(value: Any) -> Any:
    if isinstance(value, list):
        return [_round(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
