"""One thread for BLAS and XLA.  Nothing is imported here: these libraries read it at their import.

One thread is the faster way for networks of this size, and sums are then added in the same order
whatever the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
}
XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def use_one_thread() -> None:
    """For this process and those it starts, before NumPy and JAX are imported."""
    os.environ.update(ONE_THREAD)
    if XLA_FLAGS not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def start_jax() -> None:
    """For JAX alone, if nothing has started it yet; other libraries keep their threads."""
    with _as_before():
        use_one_thread()
        import jax

        jax.devices()


@contextmanager
def _as_before() -> Iterator[None]:
    names = (*ONE_THREAD, "XLA_FLAGS", "JAX_PLATFORMS")
    before = {name: os.environ[name] for name in names if name in os.environ}
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
