"""Videos of policies, made in a process of their own that is ended when it takes too long."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from gammaprime.runs import folders

SUFFIXES = (".gif", ".webp", ".png")
PLATFORMS = ("egl", "osmesa")
"""Ways to draw without a screen: a graphics card or Mesa through EGL, Mesa in memory."""
TIMEOUT = 300.0
_PROBE = "from gammaprime.envs.render import draw_nothing; draw_nothing()"


def record(run: Path, file: Path, seconds: float, seed: int) -> None:
    """One episode of the run's policy as an animated GIF, WebP or PNG."""
    if file.suffix not in SUFFIXES:
        raise ValueError(f"{file}: must end in {', '.join(SUFFIXES)}")
    if importlib.util.find_spec("PIL") is None:
        raise ModuleNotFoundError("videos need pillow: pip install 'gammaprime[train]'")
    folders.read_settings(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    command = ["-m", "gammaprime.cli.render", *map(str, (run, temporary, seconds, seed))]
    try:
        failures = _first_that_works(command)
        if failures:
            raise OSError(f"{file}: nothing could draw it here: {'; '.join(failures)}")
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def probe_rendering() -> str:
    """Which way of drawing works here, or why none does."""
    for platform in _platforms():
        if not (failure := _attempt(["-c", _PROBE], platform, timeout=60.0)):
            return f"{platform} works"
    return f"none works ({failure}); install a driver: apt-get install libegl1 or libosmesa6"


def _first_that_works(command: list[str]) -> list[str]:
    failures = []
    for platform in _platforms():
        failure = _attempt(command, platform, TIMEOUT)
        if not failure:
            return []
        failures.append(failure)
    return failures


def _platforms() -> tuple[str, ...]:
    chosen = os.environ.get("MUJOCO_GL")
    return (chosen,) if chosen else PLATFORMS


def _attempt(command: list[str], platform: str, timeout: float) -> str:
    """Why it failed, or nothing."""
    # Drivers are loaded by name at import, so only a fresh process can choose one.
    environment = {**os.environ, "MUJOCO_GL": platform, "PYOPENGL_PLATFORM": platform}
    try:
        done = subprocess.run(
            [sys.executable, *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{platform}: no answer within {timeout:.0f} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    errors = [line for line in lines if "Error" in line and not line.startswith(" ")]
    return f"{platform}: {(errors or lines)[0]}"
