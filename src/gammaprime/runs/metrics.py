"""What a run tells: one JSON line for each update, named as Stable-Baselines3 names them.

    metrics.jsonl      no clock in it, so that the same run gives the same bytes
    wall_clock.jsonl   the clock, line for line beside it
    tensorboard/       the same numbers for TensorBoard

A line also carries the raw episodes that ended: [ended_at, length, return, J_γ, J_γ'].
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gammaprime.loops.loop import Progress
from gammaprime.loops.rollout import Episode
from gammaprime.runs.files import to_json

Row = dict[str, Any]

WINDOW = 100
METRICS = "metrics.jsonl"
WALL_CLOCK = "wall_clock.jsonl"
_RETURNS = ("", "_gamma", "_gamma_prime")


class Recent:
    """The last episodes that ended in training, over which means are told."""

    def __init__(self) -> None:
        self._episodes: deque[Episode] = deque(maxlen=WINDOW)

    def add(self, episodes: Sequence[Episode]) -> Row:
        """Count the episodes that just ended; the means that are told."""
        self._episodes.extend(episodes)
        return describe(self._episodes, "rollout/ep_rew_mean", "rollout/ep_len_mean")

    def snapshot(self) -> dict[str, np.ndarray]:
        numbers = np.array(self._episodes, np.float64).reshape(-1, len(Episode._fields))
        return {"recent/episodes": numbers}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        rows = snapshot["recent/episodes"].tolist()
        self._episodes = deque((Episode(int(n), int(m), *r) for n, m, *r in rows), maxlen=WINDOW)


def describe(episodes: Sequence[Episode], returns: str, length: str) -> Row:
    """Mean return, undiscounted, at γ and at γ', and mean length; nothing of no episodes."""
    if not episodes:
        return {}
    numbers = np.array(episodes, np.float64)
    means = numbers.mean(axis=0)
    told = {f"{returns}{name}": float(means[2 + i]) for i, name in enumerate(_RETURNS)}
    return told | {length: float(means[1])}


def training_row(progress: Progress, means: Row) -> Row:
    """The line of one update."""
    return {
        "time/total_timesteps": progress.steps,
        **means,
        **progress.metrics,
        "episodes": [list(episode) for episode in progress.episodes],
    }


def evaluation_row(episodes: Sequence[Episode]) -> Row:
    """What an evaluation adds to the line of its update."""
    means = describe(episodes, "eval/mean_reward", "eval/mean_ep_length")
    return means | {"eval/episodes": [list(episode[1:]) for episode in episodes]}


class Lines:
    """Rows in memory and, where there is a folder, in its files, never longer than is true."""

    def __init__(self, folder: Path | None) -> None:
        self.rows: list[Row] = []
        self.num_bytes = 0
        self.seconds = 0.0
        self._files: dict[str, BinaryIO] = {}
        if folder is not None:
            for name in (METRICS, WALL_CLOCK):
                file = (folder / name).open("ab")
                file.truncate(0)
                self._files[name] = file

    @classmethod
    def reopen(cls, folder: Path, num_bytes: int) -> Lines:
        """Go on after the first ``num_bytes`` of the metrics; what was written after is cut."""
        kept = _head(folder / METRICS, num_bytes)
        rows = [json.loads(line) for line in kept]
        clock = _matching(folder / WALL_CLOCK, [row["time/total_timesteps"] for row in rows])
        lines = cls(None)
        lines.rows, lines.num_bytes = rows, num_bytes
        lines.seconds = json.loads(clock[-1])["time/time_elapsed"] if clock else 0.0
        for name, content in ((METRICS, kept), (WALL_CLOCK, clock)):
            file = (folder / name).open("ab")
            file.truncate(sum(len(line) for line in content))
            lines._files[name] = file
        return lines

    def append(self, row: Row, seconds: float) -> Row:
        """Add the line of an update that took so long; the line of the clock."""
        self.rows.append(row)
        self.seconds += seconds
        previous = self.rows[-2]["time/total_timesteps"] if len(self.rows) > 1 else 0
        steps = row["time/total_timesteps"]
        clock = {
            "time/total_timesteps": steps,
            "time/time_elapsed": round(self.seconds, 3),
            "time/fps": round((steps - previous) / max(seconds, 1e-9), 1),
        }
        line = to_json(row, indent=None)
        self.num_bytes += len(line)
        for name, content in ((METRICS, line), (WALL_CLOCK, to_json(clock, indent=None))):
            if name in self._files:
                self._files[name].write(content)
                self._files[name].flush()
        return clock

    def sync(self) -> None:
        """Put the metrics on the disk, before a checkpoint counts on their length."""
        if METRICS in self._files:
            os.fsync(self._files[METRICS].fileno())

    def close(self) -> None:
        for file in self._files.values():
            # After a full disk, closing would try to write again and hide why the run stopped.
            try:
                file.close()
            except OSError:
                continue


def read_rows(path: Path) -> list[Row]:
    """The metrics of a run, finished or not."""
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True)]


def _head(path: Path, num_bytes: int) -> list[bytes]:
    content = path.read_bytes()[:num_bytes] if path.is_file() else b""
    if len(content) < num_bytes or (content and not content.endswith(b"\n")):
        raise ValueError(
            f"{path}: must hold the {num_bytes} bytes that its checkpoint counts on, "
            "in whole lines; it was changed since"
        )
    return content.splitlines(keepends=True)


def _matching(path: Path, steps: Sequence[int]) -> list[bytes]:
    """The lines of the clock that belong to these updates; what does not fit is let go."""
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    kept: list[bytes] = []
    for line, step in zip(lines, steps, strict=False):
        try:
            fits = json.loads(line)["time/total_timesteps"] == step
        except (ValueError, KeyError, TypeError):
            fits = False
        if not fits:
            break
        kept.append(line)
    return kept


class Board:
    """Scalars for TensorBoard; what a run repeats after a resume replaces what it wrote before."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboardX import SummaryWriter
        from tensorboardX.proto.summary_pb2 import Summary

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step or None)
        self._summary = Summary

    def write(self, row: Row, step: int) -> None:
        """One event for all numbers of a row: ten times cheaper than one for each."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if isinstance(value, int | float)
        ]
        self._writer.file_writer.add_summary(self._summary(value=values), step)

    def close(self) -> None:
        self._writer.close()
