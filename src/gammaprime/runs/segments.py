"""The replay buffer on disk: immutable files that hold its transitions in their order.

    checkpoints/replay/000000401408-000000405504-<hash>.safetensors

A checkpoint names the segments it needs, with their hashes, and writes only those that are new.
`LARGEST` new transitions or more are written once.  Fewer are merged like the digits of a binary
counter: a new segment takes in the one before it while that is no longer than itself, up to
`LARGEST`.  So checkpoints after every update leave a few hundred files, and write a transition at
most log2(`LARGEST` / new ones) + 1 times.  Merged transitions are read from memory.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    from safetensors.numpy import load as unpack
    from safetensors.numpy import save as pack
except ImportError as error:
    raise ImportError("checkpoints need safetensors: pip install 'gammaprime[train]'") from error

from gammaprime.runs.directory import remove_leftovers, write_whole

if TYPE_CHECKING:  # checkpoints are read where there is no JAX
    from gammaprime.loops.replay import Replay

LARGEST = 4_096
"""Transitions of a segment, at most: 1 MB of Ant-v4."""
REPLAY = "replay"


class DamagedError(ValueError):
    """A file whose size, hash or content is not what its manifest says."""


class Segment(NamedTuple):
    """Transitions ``start`` to ``stop`` of a run, in one file."""

    start: int
    stop: int
    bytes: int
    sha256: str

    @property
    def length(self) -> int:
        """Number of transitions."""
        return self.stop - self.start

    def file(self, folder: Path) -> Path:
        """Return its file in a folder of checkpoints."""
        name = f"{self.start:012d}-{self.stop:012d}-{self.sha256[:16]}.safetensors"
        return folder / REPLAY / name


def extend(folder: Path, segments: Sequence[Segment], replay: Replay) -> tuple[Segment, ...]:
    """Store the transitions that no segment holds yet; return the segments that hold all."""
    kept, start = _plan(segments, replay.oldest, replay.count)
    if start < replay.count:
        (folder / REPLAY).mkdir(parents=True, exist_ok=True)
    for first in range(start, replay.count, LARGEST):
        kept.append(_write(folder, replay, first, min(first + LARGEST, replay.count)))
    return tuple(kept)


def _plan(segments: Sequence[Segment], oldest: int, stop: int) -> tuple[list[Segment], int]:
    """Return the segments that stay, and the first transition that is to be written."""
    kept = [segment for segment in segments if segment.stop > oldest]
    start = kept[-1].stop if kept else oldest
    if start == stop:
        return kept, start
    while kept and kept[-1].length <= stop - start:
        before = max(kept[-1].start, oldest)
        if stop - before > LARGEST:
            break
        kept.pop()
        start = before
    return kept, start


def _write(folder: Path, replay: Replay, start: int, stop: int) -> Segment:
    packed = pack(replay.take(start, stop))
    segment = Segment(start, stop, len(packed), hashlib.sha256(packed).hexdigest())
    # Written even if the file is there: it may be the damaged one that a run went back from.
    write_whole(segment.file(folder), packed)
    return segment


def check(folder: Path, segments: Sequence[Segment]) -> None:
    """Refuse segments that have gaps, or whose files do not have their sizes and hashes."""
    for before, after in itertools.pairwise(segments):
        if before.stop != after.start:
            raise DamagedError(f"{folder}: no segment holds transitions from {before.stop} on")
    for segment in segments:
        file = segment.file(folder)
        if not file.is_file():
            raise DamagedError(f"{file}: is missing")
        if (size := file.stat().st_size) != segment.bytes:
            raise DamagedError(f"{file}: has {size} bytes, its checkpoint says {segment.bytes}")
        with file.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != segment.sha256:
                raise DamagedError(f"{file}: its hash is not the one in its checkpoint")


def restore(folder: Path, segments: Sequence[Segment], replay: Replay) -> None:
    """Fill a replay buffer, whose count is restored, with the transitions that it held."""
    held = (segments[0].start, segments[-1].stop) if segments else (0, 0)
    if not (held[0] <= replay.oldest and held[1] == replay.count):
        raise ValueError(
            f"{folder}: segments hold transitions {held[0]} to {held[1]}: "
            f"must hold {replay.oldest} to {replay.count}"
        )
    for segment in segments:
        replay.put(segment.start, unpack(segment.file(folder).read_bytes()))


def prune(folder: Path, needed: Iterable[Segment]) -> None:
    """Remove the segments that no checkpoint needs."""
    names = {segment.file(folder).name for segment in needed}
    for file in (folder / REPLAY).glob("*.safetensors"):
        if file.name not in names:
            file.unlink(missing_ok=True)
    remove_leftovers(folder / REPLAY)


def drop(folder: Path) -> None:
    """Remove all segments of a run that is done."""
    shutil.rmtree(folder / REPLAY, ignore_errors=True)


def from_list(rows: Any) -> tuple[Segment, ...]:
    """Return the segments that a manifest lists; `ValueError` if the list makes no sense."""
    kinds = (int, int, int, str)
    if not isinstance(rows, list):
        raise ValueError(f"segments={rows!r} makes no sense")
    for row in rows:
        if not isinstance(row, list) or tuple(map(type, row)) != kinds or not _is_hex(row[3]):
            raise ValueError(f"segment {row!r} makes no sense")
    return tuple(Segment(*row) for row in rows)


def _is_hex(text: str) -> bool:
    """Return whether a text is a hash: a name from a file must not lead out of its folder."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
