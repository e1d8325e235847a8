"""Run directories: ``<name>-<hash of the configuration>`` with everything a figure needs.

    config.json     what decides the numbers
    manifest.json   where they come from: versions, processor, command, seed
    data.npz        the numbers
    done            written last: the hash of the data, and the seconds it took

Each file is written under a temporary name, synced and renamed, so a file that exists is
whole, and a run without ``done`` is not finished.  Nothing is unpickled on reading.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

import gammaprime
from gammaprime.runs.files import from_json as _from_json
from gammaprime.runs.files import remove_leftovers
from gammaprime.runs.files import to_json as _to_json
from gammaprime.runs.files import write_whole as _write

FORMAT = 1
"""Of the files of a run; a ``done`` that tells none is of the first."""
Config = Mapping[str, Any]
Data = Mapping[str, NDArray[Any]]


class FormatError(ValueError):
    """A run that another version has written, in a way that this one does not read."""


@dataclass(frozen=True)
class Run:
    """A finished run, as it was stored."""

    path: Path
    config: Config
    manifest: Config
    data: Data


def run_path(root: Path, name: str, config: Config) -> Path:
    """Where this configuration lives: the same settings always find the same folder."""
    digest = hashlib.sha256(_to_json(config, indent=None)).hexdigest()
    return root / f"{name}-{digest[:12]}"


def is_done(path: Path, config: Config) -> bool:
    """Whether this folder holds the finished run; other settings or formats are refused."""
    _check_owner(path, config)
    if not (path / "done").is_file():
        return False
    found = _from_json(path / "done").get("format", 1)
    if found != FORMAT:
        raise FormatError(
            f"{path}: is in format {found!r}, this version of gammaprime reads format {FORMAT}; "
            "use the version in its manifest.json, or choose another folder with --out"
        )
    return True


def make_folder(path: Path, config: Config) -> None:
    """The folder of this configuration; one that is something else is refused."""
    _check_owner(path, config)
    path.mkdir(parents=True, exist_ok=True)


def begin(path: Path, config: Config, manifest: Config) -> None:
    """Claim the folder, and clear what an interrupted run (or one to be repeated) left there."""
    make_folder(path, config)
    (path / "done").unlink(missing_ok=True)
    (path / "data.npz").unlink(missing_ok=True)
    remove_leftovers(path)
    _write(path / "config.json", _to_json(config))
    _write(path / "manifest.json", _to_json(manifest))


def finish(path: Path, data: Data, seconds: float) -> None:
    """Store the numbers, and then say that the run is whole."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **data)
    packed = buffer.getvalue()
    _write(path / "data.npz", packed)
    digest = hashlib.sha256(packed).hexdigest()
    _write(path / "done", _to_json({"sha256": digest, "seconds": round(seconds, 3)}))


def read(path: Path, config: Config) -> Run:
    """A finished run of this configuration, its data checked against the hash in ``done``."""
    if not is_done(path, config):
        state = "was not finished" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{path}: this run {state}")
    packed = (path / "data.npz").read_bytes()
    if hashlib.sha256(packed).hexdigest() != _from_json(path / "done").get("sha256"):
        raise ValueError(f"{path / 'data.npz'}: damaged, its hash is not the one in 'done'")
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        data = dict(arrays)
    return Run(path, _from_json(path / "config.json"), _from_json(path / "manifest.json"), data)


def manifest(command: Sequence[str], config: Config) -> dict[str, Any]:
    """Versions, processor, command and seed: what else the numbers may depend on."""
    return {
        "gammaprime": gammaprime.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "command": list(command),
        "seed": config["settings"].get("seed"),
    }


def _check_owner(path: Path, config: Config) -> None:
    file = path / "config.json"
    if file.is_file():
        if _from_json(file) != json.loads(_to_json(config)):
            raise ValueError(f"{path}: belongs to another configuration (see its config.json)")
    elif path.exists() and (not path.is_dir() or any(path.glob("[!.]*"))):
        raise ValueError(f"{path}: is not a run directory (it has no config.json)")


def cpu_model() -> str:
    """The processor by its name, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
