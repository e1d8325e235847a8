"""Report of the packages, simulators and cores that training runs find on this machine."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import numpy as np

from gammaprime import envs
from gammaprime.cli import video
from gammaprime.runs import provenance
from gammaprime.runs.startup import ONE_THREAD

NUM_ENVS = 16
MEASURED = ("Ant-v4", "HalfCheetah-v4")
"""Tasks whose gain from threads is measured: a long step and a short one."""
EXTRAS = ("train", "bullet", "report", "ray", "sb3")
_REQUIREMENT = re.compile(r"""([\w.-]+).*extra == ["'](\w+)["']""")


def examine() -> list[tuple[str, str]]:
    """Name and finding, in the order in which to read them."""
    versions = provenance.versions()
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    findings = [
        ("gammaprime", metadata.version("gammaprime")),
        ("versions", packages),
        ("processor", f"{provenance.cpu_model()}, {provenance.num_cores()} cores for this process"),
        ("threads", f"a run uses one, whatever {_threads()}; {_gain(versions)}"),
        ("MuJoCo", provenance.mujoco_build() or "not installed"),
        ("disk", f"{free:.1f} GB free here; a million steps need 2 MB, with a replay 200 MB more"),
        ("cache", _cache()),
    ]
    rendering = video.probe_rendering() if "mujoco" in versions else "needs MuJoCo"
    return [*findings, ("rendering", rendering), *_extras()]


def _threads() -> str:
    chosen = [f"{name}={os.environ[name]}" for name in ONE_THREAD if name in os.environ]
    return ", ".join(chosen) or "the number of cores"


def _gain(versions: Mapping[str, str]) -> str:
    """Say what train --threads would gain here, as measured in a second or two."""
    threads = min(provenance.num_cores(), NUM_ENVS)
    if threads == 1 or "mujoco" not in versions:
        return "train --threads needs MuJoCo and a second core"
    ratios = [f"{task} {measure_gain(task, threads):.1f}" for task in MEASURED]
    return f"train --threads {threads} steps {NUM_ENVS} environments faster: {', '.join(ratios)} x"


def measure_gain(task: str, threads: int, rounds: int = 5, num_steps: int = 20) -> float:
    """Return the median ratio of steps per second, with the threads and with one, by turns."""
    seconds: dict[int, list[float]] = {1: [], threads: []}
    teams = {count: envs.make(task, NUM_ENVS, threads=count) for count in seconds}
    for env in teams.values():
        env.reset(0)
    space = teams[1].action
    assert isinstance(space, envs.Box)
    action = np.random.default_rng(0).uniform(-1.0, 1.0, (NUM_ENVS, *space.shape))
    for _ in range(rounds):
        for count, env in teams.items():
            started = time.perf_counter()
            for _ in range(num_steps):
                env.step(action)
            seconds[count].append(time.perf_counter() - started)
    for env in teams.values():
        env.close()
    return float(np.median(np.divide(seconds[1], seconds[threads])))


def _cache() -> str:
    folder = provenance.default_cache()
    programs = list(folder.glob("*-cache")) if folder.is_dir() else []
    size = sum(file.stat().st_size for file in programs) / 1e6
    nearest = next(path for path in (folder, *folder.parents) if path.is_dir())
    state = "" if os.access(nearest, os.W_OK) else ", but it cannot be written to"
    return f"{len(programs)} compiled programs, {size:.1f} MB in {folder}{state}"


def _extras() -> list[tuple[str, str]]:
    """For each extra, what of it is missing and the line that installs it."""
    found = []
    for extra in EXTRAS:
        missing = [name for name in _requirements(extra) if not _installed(name)]
        lack = f"missing {', '.join(missing)}: pip install 'gammaprime[{extra}]'"
        found.append((f"[{extra}]", lack if missing else "complete"))
    return found


def _requirements(extra: str) -> list[str]:
    matches = (_REQUIREMENT.match(line) for line in metadata.requires("gammaprime") or [])
    names = [match[1] for match in matches if match and match[2] == extra]
    return [name for name in names if name != "gammaprime"]


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
