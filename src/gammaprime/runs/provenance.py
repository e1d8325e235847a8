"""The manifest of a run: versions, processor, command and seed, on which numbers may depend."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import gammaprime
from gammaprime.runs.startup import ONE_THREAD

XLA_THREAD = "tf_XLAEigen"
"""Name of XLA's threads in Linux."""
PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "optax", "gymnasium", "mujoco", "pybullet")


def manifest(seed: int | None, command: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the manifest of a run of this process; the command is its own by default."""
    found = versions()
    return {
        "gammaprime": gammaprime.__version__,
        "python": found["python"],
        "numpy": found.get("numpy"),
        "scipy": found.get("scipy"),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "command": list(own_command() if command is None else command),
        "seed": seed,
        "versions": found,
        "mujoco_build": mujoco_build(),
        "threads": {name: os.environ.get(name) for name in (*ONE_THREAD, "XLA_FLAGS")},
        "blas_threads": blas_threads(),
        "xla_threads": xla_threads(),
        "cores": num_cores(),
    }


def blas_threads() -> int | None:
    """Return the most threads that a BLAS of this process uses now, or None if unknown."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:  # computed experiments do without it
        return None
    found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(found, default=None)


def xla_threads() -> int | None:
    """Return the threads on which XLA computes in this process, or None if unknown."""
    names = []
    for file in Path("/proc/self/task").glob("*/comm"):
        # A thread may end meanwhile.
        with suppress(OSError):
            names.append(file.read_text().strip())
    return names.count(XLA_THREAD) or None


def own_command() -> list[str]:
    """Return the command line of this process if it is gammaprime's, or else nothing.

    The arguments of a program that calls gammaprime say little about the run.
    """
    program = Path(sys.argv[0]).name
    return ["gammaprime", *sys.argv[1:]] if Path(program).stem == "gammaprime" else []


def versions() -> dict[str, str]:
    """Return the installed versions of Python and of the packages that decide numbers."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_model(info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the processor, with family and model where the system tells them.

    Virtual machines give processors that round otherwise the same name.
    """
    facts: dict[str, str] = {}
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    kind = [f"{n.removeprefix('cpu ')} {facts[n]}" for n in ("cpu family", "model") if n in facts]
    return facts["model name"] + (f" ({', '.join(kind)})" if kind else "")


def mujoco_build() -> str | None:
    """Return the hash of MuJoCo's library from its wheel: two builds may share a version."""
    try:
        files = metadata.files("mujoco") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.startswith("libmujoco") and file.hash is not None:
            return f"{file.name} {file.hash.mode}={file.hash.value}"
    return None


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if platform.system() == "Linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_cache() -> Path:
    """Return the folder for programs compiled by this JAX for this processor."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = versions().get("jaxlib", "none")
    processor = hashlib.sha256(cpu_model().encode()).hexdigest()[:8]
    return base / "gammaprime" / f"jax-{version}-{processor}"
