"""Settings of a process before it trains: one thread for BLAS and XLA, a compilation cache.

One thread is the faster way for networks of this size, and sums are then added in the same order
on every machine.  Nothing is imported here: these libraries read their settings at their import.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
}
NEEDED = (
    "jax",
    "optax",
    "gymnasium",
    "safetensors",
    "tyro",
    "rich",
    "tensorboardX",
    "psutil",
    "threadpoolctl",
)
XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
WRITTEN_WITHIN = 60.0
"""Seconds in which a file of the compilation cache has been written."""
ZSTANDARD = b"\x28\xb5\x2f\xfd"


def check_packages() -> None:
    """Raise ImportError, with the line that installs it, if a package of training is missing."""
    for name in NEEDED:
        if sys.modules.get(name) is None and importlib.util.find_spec(name) is None:
            raise ImportError(f"training needs {name}: pip install 'gammaprime[train]'")


def use_one_thread() -> None:
    """Set one thread for this process and its children, before NumPy and JAX are imported."""
    os.environ.update(ONE_THREAD)
    if XLA_FLAGS not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread for a while: with more, products of large matrices round otherwise."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


def start_jax() -> None:
    """Start JAX with one thread, unless it is running already; other libraries keep theirs."""
    with _restored_environment():
        use_one_thread()
        import jax

        jax.devices()


@contextmanager
def _restored_environment() -> Iterator[None]:
    names = (*ONE_THREAD, "XLA_FLAGS", "JAX_PLATFORMS")
    before = {name: os.environ[name] for name in names if name in os.environ}
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


def cache_compilations(folder: Path) -> bool:
    """Keep compiled programs in a folder, so that the next start is quick; False if impossible.

    JAX neither writes whole files there nor replaces broken ones.  A file that was cut short when
    a process died is removed here: it would be compiled, with a warning, at every start.  One that
    another process is just writing is left alone; a process that reads it compiles, and says so
    in a warning that is not shown.
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
        # Other processes clean up as well.
        with suppress(FileNotFoundError):
            is_old = time.time() - entry.stat().st_mtime > WRITTEN_WITHIN
            if is_old and _is_cut_short(entry.read_bytes()):
                entry.unlink(missing_ok=True)
    warnings.filterwarnings("ignore", "Error reading persistent compilation cache entry")
    set_option: Any = jax.config.update  # which has no types
    set_option("jax_compilation_cache_dir", str(folder))
    set_option("jax_persistent_cache_min_compile_time_secs", 0.0)
    set_option("jax_persistent_cache_min_entry_size_bytes", -1)
    return True


def _is_cut_short(packed: bytes) -> bool:
    """Return whether a zlib file has no end; files of zstandard cannot be checked."""
    if packed[:4] == ZSTANDARD:
        return False
    stream = zlib.decompressobj()
    try:
        stream.decompress(packed)
    except zlib.error:
        return True
    return not stream.eof
