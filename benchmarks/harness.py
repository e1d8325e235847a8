"""How every speed claim of this project is judged.

A contest runs in a process of its own, pinned to one core unless it says more, with one BLAS and
one XLA thread.  Its contenders are warmed up, calibrated to repetitions of at least half a second,
and then take turns: a b c, a b c, ...  What is judged is never a time but the ratio of two times of
the same round, so that whatever slows the machine slows both.  A limit is met or missed only when
the whole interval around the median ratio lies on one side of it.

A measurement has no peer: it reports quantities (seconds, GiB, errors) that have limits.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

Run = Callable[[], Any]
Clock = Callable[[], float]

REPEATS = 9
MINIMUM_REPEATS = 5
REPETITION_SECONDS = 0.5
WARM_UPS = 2
CONFIDENCE = 0.93  # five repetitions, taken from the lowest to the highest, give 0.9375

MET = "met"
MISSED = "missed"
UNDECIDED = "undecided (spread hides it)"

# Read when the libraries are imported, so it must be in the environment of a new process.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}

REPORTED = (
    *("gammaprime", "numpy", "scipy", "jax", "torch", "mujoco", "gymnasium"),
    *("pybullet", "pybullet_envs_gymnasium", "rlax", "stable-baselines3", "sbx-rl"),
)


@dataclass(frozen=True)
class Contender:
    """A name, and a setup that imports its library, makes its data and returns what is timed.

    A library that is not installed makes the setup fail: the contender is then left out.
    """

    name: str
    setup: Callable[[], Run]


@dataclass(frozen=True)
class Limit:
    """``ours`` may take at most ``ratio`` times as long as ``peer``.

    Where both compute the same thing, ``agree`` is how far their results may lie apart.
    """

    ours: str
    peer: str
    ratio: float
    agree: float | None = None


@dataclass(frozen=True)
class Contest:
    """Contenders that take turns in one process, and the limits on the ratios of their times."""

    name: str
    claim: str
    contenders: tuple[Contender, ...]
    limits: tuple[Limit, ...]
    num_cores: int = 1
    """Cores that the contenders may use."""

    def __post_init__(self) -> None:
        named = {name for limit in self.limits for name in (limit.ours, limit.peer)}
        if unknown := named - {contender.name for contender in self.contenders}:
            raise ValueError(f"limits of {self.name!r} name {sorted(unknown)}: must be contenders")


@dataclass(frozen=True)
class Measurement:
    """A setup that returns what is measured, and the largest value allowed of each quantity."""

    name: str
    claim: str
    setup: Callable[[], Callable[[], Mapping[str, float]]]
    limits: Mapping[str, float]
    num_cores: int = 1
    """Cores that may be used."""


def run(contest: Contest | Measurement, repeats: int) -> dict[str, Any]:
    """The contest's result, with the machine it ran on, ready for JSON."""
    if repeats < MINIMUM_REPEATS:
        raise ValueError(f"repeats={repeats!r}: must be at least {MINIMUM_REPEATS}")
    cores = pin_to_cores(contest.num_cores)
    load_before, used, start = os.getloadavg(), _processor_seconds(), time.perf_counter()
    result = race(contest, repeats) if isinstance(contest, Contest) else measure(contest, repeats)
    # Less than one means that somebody else had the core in between.
    share = (_processor_seconds() - used) / (time.perf_counter() - start)
    load = {"load_before": load_before, "load_after": os.getloadavg(), "processor_share": share}
    machine = describe_machine() | {"pinned_to_cores": cores, "thread_pools": one_thread_pools()}
    return {"contest": contest.name, "claim": contest.claim, **result, **load, "machine": machine}


def race(contest: Contest, repeats: int, clock: Clock = time.perf_counter) -> dict[str, Any]:
    """Let the contenders take turns, and judge the ratios of each round."""
    runs, missing = _build(contest.contenders)
    outputs = {name: _warm_up(contender) for name, contender in runs.items()}
    for limit in contest.limits:
        if limit.agree is not None and {limit.ours, limit.peer} <= outputs.keys():
            _check_agreement(limit, outputs)
    counts = {name: _calibrate(contender, clock) for name, contender in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, contender in runs.items():
            seconds[name].append(_time(contender, counts[name], clock) / counts[name])
    times: dict[str, Any] = {
        name: {"median_seconds": statistics.median(values), "runs": counts[name], "seconds": values}
        for name, values in seconds.items()
    }
    times |= {name: {"skipped": reason} for name, reason in missing.items()}
    outcomes = [_ratio_outcome(limit, seconds, missing) for limit in contest.limits]
    return {"repeats": repeats, "contenders": times, "outcomes": outcomes}


def measure(measurement: Measurement, repeats: int) -> dict[str, Any]:
    """Repeat the measurement, and judge each of its quantities."""
    take = measurement.setup()
    samples = [take() for _ in range(repeats)]
    outcomes = [
        judge(quantity, [sample[quantity] for sample in samples], limit)
        for quantity, limit in measurement.limits.items()
    ]
    return {"repeats": repeats, "contenders": {}, "outcomes": outcomes}


def judge(quantity: str, samples: Sequence[float], limit: float) -> dict[str, Any]:
    """The samples' median, the interval around it, and what they say about the limit."""
    low, high = median_interval(samples)
    return {
        "quantity": quantity,
        "limit": limit,
        "median": statistics.median(samples),
        "low": low,
        "high": high,
        "samples": list(samples),
        "verdict": MET if high <= limit else MISSED if low > limit else UNDECIDED,
    }


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """The narrowest pair of order statistics that holds the true median often enough.

    Of n samples fewer than j lie on one side of the median with probability
    P[Bin(n, ½) < j], whatever their distribution.
    """
    ordered, n = sorted(samples), len(samples)
    j = 1
    while 1.0 - 2.0 * sum(math.comb(n, i) for i in range(j + 1)) / 2.0**n >= CONFIDENCE:
        j += 1
    return ordered[j - 1], ordered[n - j]


def pin_to_cores(count: int) -> list[int] | None:
    """Keep this process, and those it starts, on so many cores; None where a system cannot."""
    if sys.platform != "linux":
        return None
    allowed = sorted(os.sched_getaffinity(0))
    if count > len(allowed):
        raise RuntimeError(f"the contest needs {count} cores, and this process has {len(allowed)}")
    cores = allowed[-count:]  # the first one is where interrupts tend to go
    os.sched_setaffinity(0, cores)
    return cores


def one_thread_pools() -> list[str]:
    """The BLAS and OpenMP libraries in this process, if each really has one thread."""
    import threadpoolctl

    pools = threadpoolctl.threadpool_info()
    wide = [f"{pool['prefix']}: {pool['num_threads']}" for pool in pools if pool["num_threads"] > 1]
    if wide:
        raise RuntimeError(f"one thread is allowed, but there are {', '.join(wide)}")
    return sorted({pool["prefix"] for pool in pools})


def describe_machine() -> dict[str, Any]:
    versions = {}
    for name in REPORTED:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _build(contenders: Sequence[Contender]) -> tuple[dict[str, Run], dict[str, str]]:
    """What is to be timed, by name, and why the others are missing."""
    runs, missing = {}, {}
    for contender in contenders:
        try:
            runs[contender.name] = contender.setup()
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package in ("", "gammaprime", "benchmarks"):
                raise
            missing[contender.name] = f"not installed: pip install {package}"
    return runs, missing


def _warm_up(contender: Run) -> Any:
    for _ in range(WARM_UPS):
        output = contender()
    return output


def _check_agreement(limit: Limit, outputs: Mapping[str, Any]) -> None:
    import numpy as np

    ours, peer = np.asarray(outputs[limit.ours]), np.asarray(outputs[limit.peer])
    apart = float(np.abs(ours - peer).max()) if ours.shape == peer.shape else math.inf
    if not apart <= limit.agree:
        raise AssertionError(
            f"{limit.ours} and {limit.peer} lie {apart:.1e} apart: must be at most {limit.agree}"
        )


def _calibrate(contender: Run, clock: Clock) -> int:
    """How many runs make a repetition that the clock can resolve."""
    count = 1
    while (seconds := _time(contender, count, clock)) < REPETITION_SECONDS:
        needed = math.ceil(count * REPETITION_SECONDS / max(seconds, 1e-9))
        count = min(max(2 * count, needed), 100 * count)
    return count


def _time(contender: Run, count: int, clock: Clock) -> float:
    return timeit.Timer(contender, timer=clock).timeit(count)


def _ratio_outcome(
    limit: Limit, seconds: Mapping[str, Sequence[float]], missing: Mapping[str, str]
) -> dict[str, Any]:
    quantity = f"{limit.ours} / {limit.peer}"
    for name in (limit.ours, limit.peer):
        if name in missing:
            return {"quantity": quantity, "limit": limit.ratio, "verdict": missing[name]}
    pairs = zip(seconds[limit.ours], seconds[limit.peer], strict=True)
    return judge(quantity, [ours / peer for ours, peer in pairs], limit.ratio)


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _processor_name() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
