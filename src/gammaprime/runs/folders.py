"""The folder of a training run: who owns it, who is working in it, what it holds."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gammaprime.networks import Policy
from gammaprime.runs import store
from gammaprime.runs.files import from_json, remove_leftovers, to_json, write_whole

CHECKPOINTS = "checkpoints"
BREAKDOWN = "breakdown"


class BusyError(ValueError):
    """Another process is working in the folder."""


@contextmanager
def claim(path: Path, config: store.Config, manifest: Mapping[str, Any]) -> Iterator[None]:
    """Work in a folder, alone, if it is empty or belongs to this configuration."""
    done = store.is_done(path, config)
    path.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        if not (path / "config.json").is_file():
            store.begin(path, config, manifest)
        elif not done:
            _go_on(path, manifest)
        yield


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """The lock goes with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows; there two processes must be kept apart by hand
        yield
        return
    with (path / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"{path}: another process is training this run right now") from None
        yield


def _go_on(path: Path, manifest: Mapping[str, Any]) -> None:
    remove_leftovers(path)
    file = path / "manifest.json"
    if not file.is_file():
        write_whole(file, to_json(manifest))
        return
    began = from_json(file)
    for name in ("cpu", "mujoco_build", "versions"):
        if began.get(name) != manifest.get(name):
            warnings.warn(
                f"{path}: began with {name} {began.get(name)}, goes on with {manifest.get(name)}: "
                "the rest need not be what it would have been",
                stacklevel=4,
            )


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a training run, if this is its folder."""
    file = path / "config.json"
    if not file.is_file():
        raise FileNotFoundError(f"{path}: is not a run directory (it has no config.json)")
    config = from_json(file)
    settings = config.get("settings")
    needed = {"agent", "task", "protocol", "steps", "seed"}
    if config.get("kind") != "train" or not isinstance(settings, dict) or needed - set(settings):
        raise ValueError(f"{file}: is not the configuration of a training run")
    return settings


def write_policy(path: Path, policy: Policy) -> None:
    """Store a policy for those who have NumPy alone."""
    buffer = io.BytesIO()
    np.savez(buffer, **policy.to_arrays())
    write_whole(path / "policy.npz", buffer.getvalue())


def finish(path: Path, seconds: float) -> None:
    """Say that the run is whole, and what its metrics are."""
    digest = hashlib.sha256((path / "metrics.jsonl").read_bytes()).hexdigest()
    told = {"format": store.FORMAT, "metrics_sha256": digest, "seconds": round(seconds, 3)}
    write_whole(path / "done", to_json(told))


def write_breakdown(path: Path, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Path:
    """Store what a run broke on."""
    folder = path / BREAKDOWN
    folder.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(folder / "arrays.npz", buffer.getvalue())
    write_whole(folder / "about.json", to_json(about))
    return folder
