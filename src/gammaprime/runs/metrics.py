"""The metrics of a run: one JSON line for each update, named as in Stable-Baselines3.

    metrics.jsonl      no wall-clock in it, so that the same run gives the same bytes
    wall_clock.jsonl   the wall-clock, line for line beside it
    tensorboard/       the same numbers for TensorBoard

A line also carries the raw episodes that ended: [ended_at, length, return, J_γ, J_γ'].  First
episodes that were cut early to stagger several environments stand apart from them, under
"staggered_episodes", and count in no mean.  Published copies leave ended_at out where it is the
end of the episode before plus the length, as in every run of one environment.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gammaprime.runs.directory import (
    METRICS,
    DamagedError,
    Table,
    read_checked_lines,
    read_lines,
    to_json,
)

if TYPE_CHECKING:  # metrics are read where there is no simulator
    from gammaprime.loops.loop import Progress
    from gammaprime.loops.rollout import Episode

Row = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]

STEPS = "time/total_timesteps"
WINDOW = 100
"""Episodes over which the means of training are taken."""
WALL_CLOCK = "wall_clock.jsonl"
SHORT_EPISODE = 4
"""Numbers of an episode without ended_at."""
_RETURNS = ("", "_gamma", "_gamma_prime")


class Metrics(Mapping[str, NDArray[Any]]):
    """Metrics of a run by name, one entry for each update; NaN where an update has none.

    ``metrics["rollout/ep_rew_mean"]`` against ``metrics["time/total_timesteps"]`` is a learning
    curve.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name, np.nan) for row in rows] for name in names}
        self._columns = {
            name: np.array(column)
            for name, column in columns.items()
            if not any(isinstance(value, list) for value in column)
        }

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Metrics({', '.join(self)})"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one column for each metric."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame(self._columns)


def read_rows(folder: Path) -> list[Row]:
    """Return the lines of metrics of a run, without a last one that is still being written."""
    return parse_rows(read_lines(folder), folder / METRICS)


def read_checked_rows(folder: Path, config: Table) -> tuple[bool, list[Row]]:
    """Return whether a run is finished, as `directory.is_done` does, and its lines of metrics."""
    done, content = read_checked_lines(folder, config)
    return done, parse_rows(content, folder / METRICS)


def parse_rows(content: bytes, path: Path) -> list[Row]:
    """Return the whole lines of the content of a metrics file; errors name the file."""
    whole = content[: content.rfind(b"\n") + 1]
    rows = [
        _parse_row(line, f"{path}: line {i}") for i, line in enumerate(whole.split(b"\n")[:-1], 1)
    ]
    return restore_ends(rows)


def _parse_row(line: bytes, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(row, dict) or type(row.get(STEPS)) is not int:
        raise DamagedError(f"{where}: must be a JSON object with the integer {STEPS}")
    if not 0 <= row[STEPS] < 2**63:
        raise DamagedError(f"{where}: {STEPS} must lie in [0, 2^63)")
    return row


def leave_out_ends(rows: Sequence[Row]) -> list[Row]:
    """Return rows whose episodes lack ended_at where `restore_ends` can tell it."""
    told, ended = [], 0
    for row in rows:
        episodes = []
        for episode in row["episodes"]:
            end, length, *_ = episode
            follows = type(end) is type(length) is int and end == ended + length
            episodes.append(episode[1:] if follows else episode)
            ended = end if type(end) is int else ended
        told.append({**row, "episodes": episodes})
    return told


def restore_ends(rows: list[Row]) -> list[Row]:
    """Complete, in place, the episodes of four numbers; return the rows.

    An episode without ended_at ended its length after the one before it.  What is not an episode
    is left for those who read episodes to refuse.
    """
    ended = 0
    for row in rows:
        episodes = row.get("episodes")
        if not isinstance(episodes, list):
            continue
        for i, episode in enumerate(episodes):
            if not isinstance(episode, list) or not episode or type(episode[0]) is not int:
                continue
            if len(episode) == SHORT_EPISODE:
                ended += episode[0]
                episodes[i] = [ended, *episode]
            else:
                ended = episode[0]
    return rows


class Recent:
    """Episodes that ended last in training, over which means are reported."""

    def __init__(self) -> None:
        self._episodes: deque[Episode] = deque(maxlen=WINDOW)

    def add(self, episodes: Sequence[Episode]) -> Row:
        """Add the episodes that just ended, and return the means."""
        self._episodes.extend(episodes)
        return describe(self._episodes, "rollout/ep_rew_mean", "rollout/ep_len_mean")

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return the episodes as an array, for a checkpoint."""
        return {"recent/episodes": np.array(self._episodes, np.float64).reshape(-1, 5)}

    def restore(self, snapshot: Arrays) -> None:
        """Go on from a checkpoint."""
        from gammaprime.loops.rollout import Episode

        rows = snapshot["recent/episodes"].tolist()
        self._episodes = deque((Episode(int(n), int(m), *r) for n, m, *r in rows), maxlen=WINDOW)


def describe(episodes: Sequence[Episode], returns: str, length: str) -> Row:
    """Return mean return, undiscounted, at γ and at γ', and mean length, if there are episodes."""
    if not episodes:
        return {}
    means = np.array(episodes, np.float64).mean(axis=0)
    named = {f"{returns}{name}": float(means[2 + i]) for i, name in enumerate(_RETURNS)}
    return named | {length: float(means[1])}


def training_row(progress: Progress, means: Row) -> Row:
    """Return the line of one update."""
    row = {
        STEPS: progress.steps,
        **means,
        **progress.metrics,
        "episodes": [list(episode) for episode in progress.episodes],
    }
    if progress.staggered:
        row["staggered_episodes"] = [list(episode) for episode in progress.staggered]
    return row


def evaluation_row(episodes: Sequence[Episode]) -> Row:
    """Return what an evaluation adds to the line of its update."""
    means = describe(episodes, "eval/mean_reward", "eval/mean_ep_length")
    return means | {"eval/episodes": [list(episode[1:]) for episode in episodes]}


class Lines:
    """Rows of a run in memory and, if it has a folder, in its two files."""

    def __init__(self, folder: Path | None) -> None:
        self.rows: list[Row] = []
        self.num_bytes = 0
        self.seconds = 0.0
        self._digest = hashlib.sha256()
        self._files: dict[str, BinaryIO] = {}
        if folder is not None:
            for name in (METRICS, WALL_CLOCK):
                file = (folder / name).open("ab")
                file.truncate(0)
                self._files[name] = file

    @classmethod
    def reopen(cls, folder: Path, num_bytes: int) -> Lines:
        """Go on after the first ``num_bytes`` of the metrics; what was written later is cut."""
        kept = read_head(folder / METRICS, num_bytes, None)
        rows = parse_rows(kept, folder / METRICS)
        clock = _matching(folder / WALL_CLOCK, [row[STEPS] for row in rows])
        lines = cls(None)
        lines.rows, lines.num_bytes = rows, num_bytes
        lines.seconds = clock[-1][1] if clock else 0.0
        lines._digest.update(kept)
        for name, length in (
            (METRICS, num_bytes),
            (WALL_CLOCK, sum(len(line) for line, _ in clock)),
        ):
            file = (folder / name).open("ab")
            file.truncate(length)
            lines._files[name] = file
        return lines

    @property
    def sha256(self) -> str:
        """Hash of the metrics."""
        return self._digest.hexdigest()

    def append(self, row: Row, seconds: float) -> Row:
        """Add the line of an update, and return its line of the wall-clock."""
        self.rows.append(row)
        self.seconds += seconds
        previous = self.rows[-2][STEPS] if len(self.rows) > 1 else 0
        steps = row[STEPS]
        clock = {
            STEPS: steps,
            "time/time_elapsed": round(self.seconds, 3),
            "time/fps": round((steps - previous) / max(seconds, 1e-9), 1),
        }
        line = to_json(row, indent=None)
        self.num_bytes += len(line)
        self._digest.update(line)
        for name, content in ((METRICS, line), (WALL_CLOCK, to_json(clock, indent=None))):
            if name in self._files:
                self._files[name].write(content)
                self._files[name].flush()
        return clock

    def sync(self) -> None:
        """Put the metrics on the disk, before a checkpoint relies on their length."""
        if METRICS in self._files:
            number = self._files[METRICS].fileno()
            os.fsync(number)
            if os.fstat(number).st_nlink == 0:
                raise FileNotFoundError(f"{self._files[METRICS].name}: was removed")

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            # After a full disk, closing would try to write again and hide why the run stopped.
            try:
                file.close()
            except OSError:
                continue


def read_head(path: Path, num_bytes: int, sha256: str | None) -> bytes:
    """Return the first bytes of a metrics file, if they are those a checkpoint counts on."""
    content = path.read_bytes()[:num_bytes] if path.is_file() else b""
    if len(content) < num_bytes or (content and not content.endswith(b"\n")):
        raise DamagedError(
            f"{path}: must hold the {num_bytes} bytes that its checkpoint counts on, "
            "in whole lines; it was changed since"
        )
    if sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise DamagedError(
            f"{path}: its first {num_bytes} bytes are not those that its checkpoint counts on; "
            "it was changed since"
        )
    return content


def read_clock(path: Path, steps: Sequence[int]) -> list[float]:
    """Return the seconds after each of these updates, up to the first line that does not fit."""
    return [seconds for _, seconds in _matching(path, steps)]


def _matching(path: Path, steps: Sequence[int]) -> list[tuple[bytes, float]]:
    """Return lines and seconds of the wall-clock of these updates; a damaged line ends them."""
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    kept = []
    for line, step in zip(lines, steps, strict=False):
        try:
            row = json.loads(line)
            seconds = float(row["time/time_elapsed"])
            if row[STEPS] != step or not math.isfinite(seconds):
                break
            kept.append((line, seconds))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            break
    return kept


class Board:
    """Events for TensorBoard; steps that are repeated after a resume replace the first ones."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboardX import SummaryWriter
        from tensorboardX.proto.summary_pb2 import Summary

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step or None)
        self._summary = Summary

    def write(self, row: Row, step: int) -> None:
        """Write all numbers of a row as one event, which is ten times cheaper than one for each."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if isinstance(value, int | float)
        ]
        self._writer.file_writer.add_summary(self._summary(value=values), step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
