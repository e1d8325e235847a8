"""The replay buffer on disk: immutable files that hold its transitions in their order.

    checkpoints/replay/000000401408-000000405504-<hash>.safetensors

A checkpoint names the segments it needs, with their hashes, and writes only those that are new.
`LARGEST` new transitions or more are written once.  Fewer are merged like the digits of a binary
counter: a new segment takes in the one before it while that is no longer than itself, up to
`LARGEST`.  So checkpoints after every update leave a few hundred files, and write a transition at
most log2(`LARGEST` / new ones) + 1 times.  Merged transitions are read from memory.

    checkpoints/replay/parity-<hash>.xor

is the XOR of all segments of one checkpoint, as long as the longest.  Two checkpoints share most
of their segments; with the parity any one that is damaged or missing is rebuilt from the others.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

try:
    from safetensors.numpy import load as unpack
    from safetensors.numpy import save as pack
except ImportError as error:
    raise ImportError("checkpoints need safetensors: pip install 'gammaprime[train]'") from error

from gammaprime.runs.directory import DamagedError, remove_leftovers, write_whole

if TYPE_CHECKING:  # checkpoints are read where there is no JAX
    from gammaprime.loops.replay import Replay

LARGEST = 4_096
"""Transitions of a segment, at most: 1 MB of Ant-v4."""
REPLAY = "replay"


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


class ParityFile(NamedTuple):
    """File that holds the parity of the segments of a checkpoint."""

    bytes: int
    sha256: str

    def file(self, folder: Path) -> Path:
        """Return its file in a folder of checkpoints."""
        return folder / REPLAY / f"parity-{self.sha256[:16]}.xor"


class Parity:
    """XOR of the bytes of segments, shorter ones padded with zeros."""

    def __init__(self, packed: bytes = b"") -> None:
        self._sum = np.frombuffer(packed, np.uint8).copy()

    def toggle(self, packed: bytes) -> None:
        """Add a segment, or take out one that was added."""
        other = np.frombuffer(packed, np.uint8)
        if other.size > self._sum.size:
            self._sum = np.pad(self._sum, (0, other.size - self._sum.size))
        self._sum[: other.size] ^= other

    def first(self, num_bytes: int) -> bytes:
        """Return its first bytes."""
        return self._sum[:num_bytes].tobytes()

    def write(self, folder: Path) -> ParityFile:
        """Store it."""
        packed = self._sum.tobytes()
        written = ParityFile(len(packed), hashlib.sha256(packed).hexdigest())
        write_whole(written.file(folder), packed)
        return written


def extend(
    folder: Path, segments: Sequence[Segment], parity: Parity, replay: Replay
) -> tuple[tuple[Segment, ...], Parity]:
    """Store the transitions that no segment holds yet; return the segments of all, and parity."""
    kept, start = _plan(segments, replay.oldest, replay.count)
    try:
        for segment in segments:
            if segment not in kept:
                parity.toggle(_read(folder, segment))
            elif not segment.file(folder).is_file():
                raise DamagedError(f"{segment.file(folder)}: is missing")
    except DamagedError as error:
        warnings.warn(f"{error}; the replay buffer is written anew", stacklevel=2)
        kept, start, parity = [], replay.oldest, Parity()
    if start < replay.count:
        (folder / REPLAY).mkdir(parents=True, exist_ok=True)
    for first in range(start, replay.count, LARGEST):
        segment, packed = _write(folder, replay, first, min(first + LARGEST, replay.count))
        kept.append(segment)
        parity.toggle(packed)
    return tuple(kept), parity


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


def _write(folder: Path, replay: Replay, start: int, stop: int) -> tuple[Segment, bytes]:
    packed = pack(replay.take(start, stop))
    segment = Segment(start, stop, len(packed), hashlib.sha256(packed).hexdigest())
    # Written even if the file is there: it may be the damaged one that a run went back from.
    write_whole(segment.file(folder), packed)
    return segment, packed


def check(folder: Path, segments: Sequence[Segment], parity: ParityFile | None = None) -> None:
    """Refuse segments that have gaps, or whose files do not have their sizes and hashes.

    If one file is damaged and there is a parity, it is rebuilt.
    """
    for before, after in itertools.pairwise(segments):
        if before.stop != after.start:
            raise DamagedError(f"{folder}: no segment holds transitions from {before.stop} on")
    damaged = []
    for segment in segments:
        try:
            _read(folder, segment)
        except DamagedError as error:
            damaged.append((segment, error))
    if len(damaged) == 1 and parity is not None:
        _rebuild(folder, segments, parity, *damaged[0])
    elif damaged:
        raise damaged[0][1]


def _read(folder: Path, stored: Segment | ParityFile) -> bytes:
    """Return the content of a file, if it is what its checkpoint says."""
    file = stored.file(folder)
    if not file.is_file():
        raise DamagedError(f"{file}: is missing")
    packed = file.read_bytes()
    if len(packed) != stored.bytes:
        raise DamagedError(f"{file}: has {len(packed)} bytes, its checkpoint says {stored.bytes}")
    if hashlib.sha256(packed).hexdigest() != stored.sha256:
        raise DamagedError(f"{file}: its hash is not the one in its checkpoint")
    return packed


def _rebuild(
    folder: Path,
    segments: Sequence[Segment],
    parity: ParityFile,
    lost: Segment,
    reason: DamagedError,
) -> None:
    """Rebuild a damaged segment from the parity and all other segments."""
    try:
        left = Parity(_read(folder, parity))
    except DamagedError as error:
        raise DamagedError(f"{reason}; {error}") from None
    for segment in segments:
        if segment != lost:
            left.toggle(_read(folder, segment))
    packed = left.first(lost.bytes)
    if hashlib.sha256(packed).hexdigest() != lost.sha256:
        raise reason
    write_whole(lost.file(folder), packed)
    warnings.warn(f"{reason}; it was rebuilt from the others", stacklevel=4)


def restore(folder: Path, segments: Sequence[Segment], replay: Replay) -> Parity:
    """Fill a replay buffer, whose count is restored, with its transitions; return their parity."""
    held = (segments[0].start, segments[-1].stop) if segments else (0, 0)
    if not (held[0] <= replay.oldest and held[1] == replay.count):
        raise ValueError(
            f"{folder}: segments hold transitions {held[0]} to {held[1]}: "
            f"must hold {replay.oldest} to {replay.count}"
        )
    parity = Parity()
    for segment in segments:
        packed = _read(folder, segment)
        replay.put(segment.start, unpack(packed))
        parity.toggle(packed)
    return parity


def prune(folder: Path, needed: Iterable[Segment | ParityFile]) -> None:
    """Remove the segments and parities that no checkpoint needs."""
    names = {stored.file(folder).name for stored in needed}
    for file in (folder / REPLAY).iterdir():
        if file.suffix in (".safetensors", ".xor") and file.name not in names:
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


def parity_from_list(row: Any) -> ParityFile | None:
    """Return the parity that a manifest names, None for none; `ValueError` if it makes no sense."""
    if row is None:
        return None
    if not isinstance(row, list) or tuple(map(type, row)) != (int, str) or not _is_hex(row[1]):
        raise ValueError(f"parity={row!r} makes no sense")
    return ParityFile(*row)


def _is_hex(text: str) -> bool:
    """Return whether a text is a hash: a name from a file must not lead out of its folder."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
