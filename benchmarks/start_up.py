"""How long a user waits before anything happens, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Measurement

ROOMS = "import sys, gammaprime.tabular, gammaprime.estimators"
COUNT_JAX = f"{ROOMS}; print(sum(name.partition('.')[0] == 'jax' for name in sys.modules))"


def importing() -> Callable[[], dict[str, float]]:
    _seconds("-c", "import gammaprime")  # writes the bytecode, as an installation does

    def measure() -> dict[str, float]:
        jax = subprocess.run([sys.executable, "-c", COUNT_JAX], check=True, stdout=subprocess.PIPE)
        return {
            "seconds of the process": _seconds("-c", "import gammaprime"),
            "jax modules, with all rooms": float(jax.stdout),
        }

    return measure


def helping() -> Callable[[], dict[str, float]]:
    script = str(Path(sys.executable).with_name("gammaprime"))
    _seconds(script, "--help")
    return lambda: {"seconds of the process": _seconds(script, "--help")}


def _seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


CONTESTS = (
    Measurement(
        "start-up-import",
        "`import gammaprime` takes less than 0.3 s, interpreter included, and no jax",
        importing,
        {"seconds of the process": 0.3, "jax modules, with all rooms": 0},
    ),
    Measurement(
        "start-up-help",
        "`gammaprime --help` takes less than 0.5 s",
        helping,
        {"seconds of the process": 0.5},
    ),
)
