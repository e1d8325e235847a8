"""What the runs of a sweep have stored, as arrays for those who draw it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gammaprime.runs import store
from gammaprime.runs.files import from_json
from gammaprime.sweeps.sweep import Planned, Sweep

Array = np.ndarray

METRICS = "metrics.jsonl"
EVALUATION = (
    "time/total_timesteps",
    "eval/mean_reward",
    "eval/mean_reward_gamma",
    "eval/mean_reward_gamma_prime",
)


class Record(NamedTuple):
    """One run of a sweep, as far as it got."""

    variant: str
    task: str
    seed: int
    path: Path
    steps: int
    """Asked for."""
    reached: int
    """0 if it has not begun; done, it may end a part of a rollout below what was asked for."""
    done: bool
    gamma_prime: float
    """Of its reported returns."""
    episodes: Array
    """(E, 5) ended_at, length, return, J_γ, J_γ': those of training, in the order they ended."""
    evaluations: Array
    """(M, 4) step, and the means over an evaluation: return, J_γ, J_γ'."""
    manifest: dict[str, Any]
    """Versions, processor, command; empty if it has not begun."""
    config: dict[str, Any]


class _Stored(NamedTuple):
    reached: int
    done: bool
    episodes: Array
    evaluations: Array
    manifest: dict[str, Any]


def read_records(sweep: Sweep, root: Path) -> list[Record]:
    """One record for each (variant, task, seed), in the order of the spec."""
    stored: dict[Path, _Stored] = {}
    records = []
    for planned in _runs(sweep, root):
        path = planned.path(root)
        if path not in stored:
            stored[path] = _read(path, planned)
        found = stored[path]
        gamma_prime = planned.config["settings"]["protocol"]["eval_gamma_prime"]
        about = (planned.variant, planned.task, planned.seed, path, planned.steps)
        numbers = (found.episodes, found.evaluations)
        progress = (found.reached, found.done, gamma_prime)
        records.append(Record(*about, *progress, *numbers, found.manifest, planned.config))
    return records


def _runs(sweep: Sweep, root: Path) -> list[Planned]:
    """Where tasks cannot be made for want of a simulator, what is stored of them has to do."""
    try:
        return sweep.runs()
    except ImportError:
        return sweep.runs(own_discounts(root))


def own_discounts(root: Path) -> dict[str, float]:
    """The γ' that tasks have by themselves, as far as the runs in a folder agree on it."""
    found: dict[str, set[float]] = {}
    for file in root.glob("*/config.json"):
        try:
            settings = from_json(file)["settings"]
            protocol = settings["protocol"]
            if protocol["time_limit"] is None:
                found.setdefault(settings["task"], set()).add(protocol["eval_gamma_prime"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return {task: values.pop() for task, values in found.items() if len(values) == 1}


def _read(path: Path, planned: Planned) -> _Stored:
    done = store.is_done(path, planned.config)
    file, manifest = path / METRICS, path / "manifest.json"
    content = file.read_bytes() if file.is_file() else b""
    if done and hashlib.sha256(content).hexdigest() != _promised(path):
        raise ValueError(f"{file}: damaged, its hash is not the one in 'done'")
    rows = whole_rows(content)
    return _Stored(
        rows[-1]["time/total_timesteps"] if rows else 0,
        done,
        _array([episode for row in rows for episode in row["episodes"]], 5),
        _array([[row[k] for k in EVALUATION] for row in rows if EVALUATION[1] in row], 4),
        from_json(manifest) if manifest.is_file() else {},
    )


def _promised(path: Path) -> Any:
    return from_json(path / "done").get("metrics_sha256")


def whole_rows(content: bytes) -> list[dict[str, Any]]:
    """The lines of a metrics file, without a last one that is still being written."""
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    return [json.loads(line) for line in lines]


def _array(rows: Sequence[Sequence[float]], columns: int) -> Array:
    return np.array(rows, np.float64).reshape(-1, columns)
