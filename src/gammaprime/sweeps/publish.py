"""Small copies of finished runs that draw the same figure, to be committed.

Of each run its config.json, its manifest.json and, of its metrics, the episodes and evaluations, to
five digits and compressed; no checkpoints, no policy, no wall-clock.  Figures and reports read
these folders as they read those of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from gammaprime.runs import directory
from gammaprime.runs.directory import DamagedError, from_json, to_json, write_compressed
from gammaprime.runs.metrics import Row, leave_out_ends, read_rows
from gammaprime.runs.results import Result
from gammaprime.sweeps.report import write_note
from gammaprime.sweeps.spec import Sweep

DIGITS = 5
KEPT = ("time/total_timesteps", "episodes")
"""Keys of a line of metrics that are kept, beside those of evaluations."""


def publish(sweep: Sweep, runs: Path, out: Path) -> list[Path]:
    """Copy every finished run of a sweep from one folder to another; return the copies."""
    done = {result.path: result for result in sweep.results(runs) if result.done}
    if not done:
        raise FileNotFoundError(
            f"{runs}: no run of {sweep.name} is done here; first: gammaprime run {sweep.source}"
        )
    paths = [publish_run(result, out) for result in done.values()]
    write_note(sweep, out)
    return paths


def publish_run(result: Result, out: Path) -> Path:
    """Copy a finished run into another folder."""
    path = out / result.path.name
    if path.resolve() == result.path.resolve():
        raise ValueError(f"{path}: is the run itself; publish into another folder")
    content = pack(read_rows(result.path))
    digest = sha256(content).hexdigest()
    if _is_published(path, result.config, digest):
        return path
    directory.begin(path, result.config, without_folders(result.manifest))
    write_compressed(path, content)
    seconds = from_json(result.path / "done")["seconds"]
    directory.finish_training(path, result.config, digest, seconds)
    return path


def without_folders(manifest: directory.Table) -> directory.Table:
    """Return a manifest whose command names absolute paths by their last part.

    The folders of a machine are private, and no number depends on them.
    """
    command = manifest.get("command")
    if not isinstance(command, list):  # a run may have none, and its file may be damaged
        return manifest
    return {**manifest, "command": [_without_folder(str(word)) for word in command]}


def _without_folder(word: str) -> str:
    option, equals, value = word.rpartition("=")
    return f"{option}{equals}{Path(value).name}" if Path(value).is_absolute() else word


def _is_published(path: Path, config: directory.Table, metrics_sha256: str) -> bool:
    """Return whether a folder holds this copy already, undamaged."""
    try:
        done = directory.is_done(path, config)
    except DamagedError:
        return False
    return done and from_json(path / "done").get("metrics_sha256") == metrics_sha256


def pack(rows: Sequence[Row]) -> bytes:
    """Return the lines of metrics of a run as its published copy has them."""
    # Off-policy, most lines tell of updates alone; the last says how far the run got.
    told = [row for row in rows[:-1] if row["episodes"] or any(map(_is_evaluation, row))]
    short = leave_out_ends([shorten(row) for row in [*told, *rows[-1:]]])
    return b"".join(to_json(row, indent=None) for row in short)


def shorten(row: Row) -> Row:
    """Return the part of a line of metrics that figures read."""
    kept = {key: value for key, value in row.items() if key in KEPT or _is_evaluation(key)}
    return {key: _round(value) for key, value in kept.items()}


def _is_evaluation(key: str) -> bool:
    return key.startswith("eval/")


def _round(value: Any) -> Any:
    if isinstance(value, list):
        return [_round(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
