"""The machine a run sees: a cache of compiled programs, and what to remember of it."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import warnings
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

from gammaprime.runs import store
from gammaprime.runs.threads import ONE_THREAD

ZSTANDARD = b"\x28\xb5\x2f\xfd"
PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "optax", "gymnasium", "mujoco", "pybullet")


def default_cache() -> Path:
    """A folder for programs compiled by this JAX for this processor."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        version = metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        version = "none"
    processor = hashlib.sha256(store.cpu_model().encode()).hexdigest()[:8]
    return base / "gammaprime" / f"jax-{version}-{processor}"


def cache_compilations(folder: Path) -> bool:
    """Keep compiled programs in a folder, so that the second start is quick; False if it cannot.

    JAX neither writes whole files there nor replaces broken ones, so what a process or a machine
    that died has cut short is removed here: it would be compiled, with a warning, at every start.
    """
    import jax

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warnings.warn(f"no compilation cache: {error}", stacklevel=2)
        return False
    if not os.access(folder, os.W_OK):
        warnings.warn(f"no compilation cache: {folder} cannot be written to", stacklevel=2)
        return False
    for entry in folder.glob("*-cache"):
        if _is_cut_short(entry.read_bytes()):
            entry.unlink(missing_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return True


def _is_cut_short(packed: bytes) -> bool:
    """Told of zlib alone: where zstandard is installed JAX prefers it, and cannot be checked."""
    if packed[:4] == ZSTANDARD:
        return False
    stream = zlib.decompressobj()
    try:
        stream.decompress(packed)
    except zlib.error:
        return True
    return not stream.eof


def versions() -> dict[str, str]:
    """What is installed of the packages that numbers may depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def mujoco_build() -> str | None:
    """The hash of MuJoCo's library as its wheel records it: two builds may share a version."""
    try:
        files = metadata.files("mujoco") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.startswith("libmujoco") and file.hash is not None:
            return f"{file.name} {file.hash.mode}={file.hash.value}"
    return None


def manifest(config: store.Config) -> dict[str, Any]:
    """What else the numbers of a training run may depend on."""
    threads = {name: os.environ.get(name) for name in (*ONE_THREAD, "XLA_FLAGS")}
    return {
        **store.manifest([Path(sys.argv[0]).name, *sys.argv[1:]], config),
        "versions": versions(),
        "mujoco_build": mujoco_build(),
        "threads": threads,
        "cores": num_cores(),
    }


def num_cores() -> int:
    """The cores that this process may use."""
    if platform.system() == "Linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
