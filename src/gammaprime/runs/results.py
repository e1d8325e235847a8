"""Results of the runs of a sweep as arrays: all that figures read of a run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gammaprime.runs.directory import METRICS, DamagedError, from_json
from gammaprime.runs.metrics import STEPS, WALL_CLOCK, Metrics, Row, read_checked_rows, read_clock
from gammaprime.typing import FloatArray

if TYPE_CHECKING:
    from gammaprime.runs.config import RunConfig

EVALUATION = (
    STEPS,
    "eval/mean_reward",
    "eval/mean_reward_gamma",
    "eval/mean_reward_gamma_prime",
)
LARGEST = 1e150
"""Absolute value of a number of an episode, at most: its square is a finite number too."""


class Result(NamedTuple):
    """One run of a sweep, as far as it got."""

    variant: str
    task: str
    seed: int
    path: Path
    steps: int
    """Steps that were asked for."""
    reached: int
    """Steps so far, 0 before the start; a finished run may lack a part of a rollout."""
    done: bool
    gamma_prime: float
    """γ' of its reported returns."""
    episodes: FloatArray
    """(E, 5) ended_at, length, return, J_γ, J_γ' of the training episodes, as they ended."""
    evaluations: FloatArray
    """(M, 4) step, and the means of an evaluation: return, J_γ, J_γ'."""
    manifest: dict[str, Any]
    """Versions, processor, command; empty before the start."""
    config: dict[str, Any]
    """The content of config.json."""


class History(NamedTuple):
    """One run as it developed, whoever asked for it."""

    path: Path
    task: str
    seed: int
    config: dict[str, Any]
    """The content of config.json."""
    manifest: dict[str, Any]
    metrics: Mapping[str, FloatArray]
    """Columns of metrics.jsonl, one entry for each update; NaN where an update has none."""
    episodes: FloatArray
    """(E, 5) ended_at, length, return, J_γ, J_γ' of the training episodes, as they ended."""
    seconds: FloatArray
    """(M,) seconds of training after each of the first M updates; empty in published runs."""


def read_history(path: Path) -> History:
    """Return the run in a folder, as far as it got; its agent is not made."""
    table = from_json(path / "config.json")
    settings = table.get("settings")
    if table.get("kind") != "train" or not isinstance(settings, dict):
        raise ValueError(f"{path}: is not a training run")
    try:
        asked, seed = settings["task"], settings["seed"]
        task = asked if isinstance(asked, str) else asked["object"]
    except (KeyError, TypeError) as error:
        raise DamagedError(f"{path / 'config.json'}: is not complete ({error!r})") from None
    if not isinstance(task, str) or type(seed) is not int:
        raise DamagedError(f"{path / 'config.json'}: must have a task and an integer seed")
    _, rows = read_checked_rows(path, table)
    manifest = path / "manifest.json"
    about = from_json(manifest) if manifest.is_file() else {}
    seconds = read_clock(path / WALL_CLOCK, [row[STEPS] for row in rows])
    numbers = (Metrics(rows), _episodes(rows, path), np.array(seconds, np.float64))
    return History(path, task, seed, table, about, *numbers)


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the folders of training runs among these folders and directly inside of them."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            raise FileNotFoundError(f"{path}: no such folder")
        own = [path / "config.json"] if (path / "config.json").is_file() else []
        inside = own or sorted(path.glob("*/config.json"))
        runs = [file.parent for file in inside if from_json(file).get("kind") == "train"]
        if not runs:
            raise FileNotFoundError(f"{path}: holds no training run")
        found |= dict.fromkeys(runs)
    return list(found)


class Stored(NamedTuple):
    """Numbers that a run has stored, whichever variant of a sweep it stands for."""

    reached: int
    done: bool
    episodes: FloatArray
    evaluations: FloatArray
    manifest: dict[str, Any]


def read_results(
    runs: Iterable[tuple[str, RunConfig]],
    root: Path,
    leave_out: Callable[[Path, Exception], None] | None = None,
    stored: dict[Path, Stored] | None = None,
) -> list[Result]:
    """Return the results in a folder of runs, given as (variant, configuration), in their order.

    Args:
        runs: variants and configurations.
        root: folder of the runs.
        leave_out: called with a run that cannot be read, which then counts as not begun; without
            it such a run is an error.
        stored: runs that were read before, by their folders; those that are read are added.
    """
    stored = {} if stored is None else stored
    results = []
    for variant, asked in runs:
        config = asked.resolve()
        table, path = config.to_table(), root / config.folder
        if path not in stored:
            try:
                stored[path] = _read(path, table)
            except (ValueError, OSError) as error:
                if leave_out is None:
                    raise
                leave_out(path, error)
                stored[path] = Stored(0, False, _array([], 5), _array([], 4), {})
        found = stored[path]
        about = (variant, str(config.task), config.seed, path, config.steps)
        gamma_prime = table["settings"]["protocol"]["eval_gamma_prime"]
        progress = (found.reached, found.done, gamma_prime)
        numbers = (found.episodes, found.evaluations)
        results.append(Result(*about, *progress, *numbers, found.manifest, table))
    return results


def _read(path: Path, table: dict[str, Any]) -> Stored:
    with _collector_paused():
        done, rows = read_checked_rows(path, table)
        manifest = path / "manifest.json"
        about = from_json(manifest) if manifest.is_file() else {}
        numbers = (_episodes(rows, path), _evaluations(rows, path))
        return Stored(rows[-1][STEPS] if rows else 0, done, *numbers, about)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector.

    The lists of a run's lines hold no cycles, but make it visit all objects of all imported
    modules again and again: a third of the time of reading many runs.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _episodes(rows: Sequence[Row], path: Path) -> FloatArray:
    with _naming(path):
        return _array([episode for row in rows for episode in row["episodes"]], 5)


def _evaluations(rows: Sequence[Row], path: Path) -> FloatArray:
    with _naming(path):
        return _array([[row[k] for k in EVALUATION] for row in rows if EVALUATION[1] in row], 4)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file whose lines are not those of metrics."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedError(f"{path / METRICS}: is not a file of metrics ({error!r})") from None


def _array(rows: Sequence[Sequence[float]], columns: int) -> FloatArray:
    numbers = np.array(rows, np.float64).reshape(len(rows), columns)
    if not (np.abs(numbers) <= LARGEST).all():
        raise ValueError(f"a number is not finite, or its absolute value is above {LARGEST:g}")
    return numbers
