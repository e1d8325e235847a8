"""The folder of a run: files that are whole or missing, whose folder it is, what it holds.

    config.json       what decides the numbers; its hash is part of the folder's name
    manifest.json     where they come from: versions, processor, command, seed
    data.npz          the numbers of a computed experiment
    metrics.jsonl, wall_clock.jsonl, tensorboard/, checkpoints/, policy.npz, breakdown/
                      those of a training run (`gammaprime.runs.training`)
    metrics.jsonl.xz  the metrics of a published run
    done              written last: the hash of the numbers, and the seconds they took

Each file is written under a temporary name, synced and renamed, so a file that exists is whole,
and a run without ``done`` is not finished.  Nothing is unpickled on reading.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gammaprime.networks import Policy, seal

FORMAT = 1
"""Of the files of a run; a ``done`` without a format is of the first."""
CHECKPOINTS = "checkpoints"
BREAKDOWN = "breakdown"
METRICS = "metrics.jsonl"
COMPRESSED = "metrics.jsonl.xz"
LARGEST_METRICS = 2**28
"""Bytes of compressed metrics, at most: a damaged file must not fill the memory."""

Table = Mapping[str, Any]
Arrays = Mapping[str, NDArray[Any]]


class DamagedError(ValueError):
    """A file whose size, hash or content is not what another file says of it."""


class FormatError(ValueError):
    """A run that another version has written, in a format that this one does not read."""


def write_whole(path: Path, content: bytes) -> None:
    """Write all of a file or nothing, whenever the machine stops or the disk is full."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Make the names in a folder as durable as the files."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_leftovers(path: Path, seconds: float = 0.0) -> None:
    """Remove the temporary files of processes that were killed while they wrote, at any depth.

    Where several processes write at once, only those that have been there for some ``seconds``.
    """
    for stale in path.rglob(".*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - stale.stat().st_mtime >= seconds:
                stale.unlink()


def to_json(value: Table, indent: int | None = 2) -> bytes:
    """Return the JSON of a table, the same for equal tables; NaN and infinity are refused."""
    text = json.dumps(value, sort_keys=True, indent=indent, allow_nan=False)
    return (text + "\n").encode()


def from_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; errors name the file."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: must be a JSON object")
    return value


def folder_name(name: str, config: Table) -> str:
    """Return a name with the hash of a configuration: equal settings find the same folder."""
    return f"{name}-{config_hash(config)[:12]}"


def config_hash(config: Table) -> str:
    """Return the hash of a configuration."""
    return hashlib.sha256(to_json(config, indent=None)).hexdigest()


def is_done(path: Path, config: Table) -> bool:
    """Return whether a folder holds the finished run.

    Other settings or formats, and numbers that are not those in ``done``, are refused.
    """
    promise = _read_promise(path, config)
    if promise is not None:
        _read_promised(path, promise)
    return promise is not None


def read_checked_lines(path: Path, config: Table) -> tuple[bool, bytes]:
    """Return whether a training run is finished, as `is_done` does, and its lines of metrics."""
    promise = _read_promise(path, config)
    if promise is None:
        return False, read_lines(path)
    return True, _read_promised(path, promise)


def _read_promise(path: Path, config: Table) -> Table | None:
    """Return the content of ``done``, or None if the run is not finished."""
    check_owner(path, config)
    if not (path / "done").is_file():
        return None
    promise = from_json(path / "done")
    found = promise.get("format", 1)
    if found != FORMAT:
        raise FormatError(
            f"{path}: is in format {found!r}, this version of gammaprime reads format {FORMAT}; "
            "use the version in its manifest.json, or choose another folder with --out"
        )
    return promise


def _read_promised(path: Path, promise: Table) -> bytes:
    """Return the numbers of a finished run; refuse those, or a configuration, of another hash."""
    config = path / "config.json"
    # Runs of earlier versions promise nothing of their configuration.
    if promise.get("config_sha256") not in (None, config_hash(from_json(config))):
        raise DamagedError(f"{config}: damaged, its hash is not the one in 'done'")
    if not {"metrics_sha256", "sha256"} & set(promise):
        raise DamagedError(f"{path / 'done'}: damaged, it has no hash")
    is_run = "metrics_sha256" in promise
    file = path / (METRICS if is_run else "data.npz")
    content = read_lines(path) if is_run else file.read_bytes()
    wanted = promise.get("metrics_sha256" if is_run else "sha256")
    if hashlib.sha256(content).hexdigest() != wanted:
        raise DamagedError(f"{file}: damaged, its hash is not the one in 'done'")
    return content


def check_owner(path: Path, config: Table) -> None:
    """Refuse a folder of another configuration, and one that is not the folder of a run."""
    file = path / "config.json"
    if file.is_file():
        found = _difference(from_json(file), json.loads(to_json(config)))
        if found:
            raise ValueError(f"{path}: belongs to another configuration: {found}")
    elif path.exists() and (not path.is_dir() or any(path.glob("[!.]*"))):
        raise ValueError(f"{path}: is not a run directory (it has no config.json)")


def _difference(stored: Any, asked: Any, where: str = "") -> str:
    """Return the first key in which two JSON values differ and both its values, or nothing."""
    if isinstance(stored, dict) and isinstance(asked, dict):
        for key in sorted(stored.keys() | asked.keys()):
            inner = f"{where}.{key}" if where else key
            if found := _difference(stored.get(key), asked.get(key), inner):
                return found
        return ""
    if stored == asked:
        return ""
    return f"{where.removeprefix('settings.')} is {stored!r} there, {asked!r} here"


def begin(path: Path, config: Table, manifest: Table) -> None:
    """Claim a folder, and clear what an interrupted run, or one to be repeated, left there."""
    check_owner(path, config)
    path.mkdir(parents=True, exist_ok=True)
    (path / "done").unlink(missing_ok=True)
    (path / "data.npz").unlink(missing_ok=True)
    remove_leftovers(path)
    write_whole(path / "config.json", to_json(config))
    began = {**manifest, "config_sha256": config_hash(config)}
    write_whole(path / "manifest.json", to_json(began))


def begin_or_resume(path: Path, config: Table, manifest: Table) -> None:
    """Claim a folder, or go on in it; warn where versions or the machine have changed."""
    if not (path / "config.json").is_file():
        begin(path, config, manifest)
        return
    check_owner(path, config)
    remove_leftovers(path)
    file = path / "manifest.json"
    if not file.is_file():
        write_whole(file, to_json(manifest))
        return
    try:
        began = from_json(file)
    except ValueError as error:  # it decides nothing
        warnings.warn(f"{error}; what the run began with is not known", stacklevel=3)
        return
    has_checkpoint = any((path / CHECKPOINTS).glob("*.json"))  # which has the hash too
    if began.get("config_sha256") not in (None, config_hash(config)) and not has_checkpoint:
        raise ValueError(
            f"{path / 'config.json'}: its hash is not the one in {file.name}, so one of them was "
            "changed since the run began; take the change back, or start over in another folder"
        )
    for name in ("cpu", "mujoco_build", "versions", "blas_threads", "xla_threads"):
        if name in began and began[name] != manifest.get(name):
            warnings.warn(
                f"{path}: began with {name} {began[name]}, goes on with {manifest.get(name)}: "
                "from here on its numbers may differ from those of an uninterrupted run",
                stacklevel=3,
            )


def finish(path: Path, data: Arrays, seconds: float) -> None:
    """Store the numbers of a computed experiment, and then mark it as done."""
    packed = _packed(data, np.savez_compressed)
    write_whole(path / "data.npz", packed)
    digest = hashlib.sha256(packed).hexdigest()
    write_whole(path / "done", to_json({"sha256": digest, "seconds": round(seconds, 3)}))


def read_lines(path: Path) -> bytes:
    """Return the lines of metrics in the folder of a run, compressed or not; empty if none."""
    file = path / METRICS
    if file.is_file() or not (path / COMPRESSED).is_file():
        return file.read_bytes() if file.is_file() else b""
    reader = lzma.LZMADecompressor()
    try:
        content = reader.decompress((path / COMPRESSED).read_bytes(), LARGEST_METRICS)
    except lzma.LZMAError as error:
        raise DamagedError(f"{path / COMPRESSED}: damaged ({error})") from None
    if not reader.eof:
        raise DamagedError(f"{path / COMPRESSED}: damaged, it has no end")
    return content


def write_compressed(path: Path, content: bytes) -> None:
    """Store the metrics of a published run, compressed; replace what was there."""
    preset = 9 | lzma.PRESET_EXTREME
    write_whole(path / COMPRESSED, lzma.compress(content, preset=preset))
    (path / METRICS).unlink(missing_ok=True)


def finish_training(path: Path, config: Table, metrics_sha256: str, seconds: float) -> None:
    """Mark a training run as done, with the hashes of its metrics and of its configuration."""
    hashes = {"metrics_sha256": metrics_sha256, "config_sha256": config_hash(config)}
    told = {"format": FORMAT, **hashes, "seconds": round(seconds, 3)}
    write_whole(path / "done", to_json(told))


@dataclass(frozen=True)
class Computed:
    """A finished computed experiment, as it was stored."""

    path: Path
    config: Table
    manifest: Table
    data: Arrays


def read(path: Path, config: Table) -> Computed:
    """Return a finished computed experiment, its data checked against the hash in ``done``."""
    if not is_done(path, config):
        state = "was not finished" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{path}: this run {state}")
    with np.load(path / "data.npz", allow_pickle=False) as arrays:
        data = dict(arrays)
    return Computed(path, from_json(path / "config.json"), from_json(path / "manifest.json"), data)


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays as an .npz file."""
    write_whole(path, _packed(arrays, np.savez))


def write_policy(path: Path, policy: Policy) -> None:
    """Write the policy of a run, with its hash in the file."""
    write_whole(path / "policy.npz", pack_policy(policy))


def pack_policy(policy: Policy, facts: Arrays | None = None) -> bytes:
    """Return the file of a policy, with its hash and with facts about it."""
    return seal(_packed({**policy.to_arrays(), **(facts or {})}, np.savez))


def _packed(arrays: Arrays, pack: Any) -> bytes:
    buffer = io.BytesIO()
    pack(buffer, **arrays)
    return buffer.getvalue()


def write_breakdown(path: Path, about: Table, arrays: Arrays) -> Path:
    """Store the arrays on which a run broke down, and return their folder."""
    folder = path / BREAKDOWN
    folder.mkdir(exist_ok=True)
    write_arrays(folder / "arrays.npz", arrays)
    write_whole(folder / "about.json", to_json(about))
    return folder
