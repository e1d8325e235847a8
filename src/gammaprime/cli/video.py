"""Videos of policies, made in a process of their own that is ended when it takes too long.

Drivers may hang or abort where there is no screen.  The process is
``python -P -m gammaprime.cli.video RUN FILE SECONDS SEED``.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gammaprime.envs.render import Stage

SUFFIXES = (".gif", ".webp", ".png")
PLATFORMS = ("egl", "osmesa")
"""Ways to draw without a screen: a graphics card or Mesa through EGL, Mesa in memory."""
TIMEOUT = 300.0
_PROBE = "from gammaprime.envs.render import draw_nothing; draw_nothing()"


def record(run: Path, file: Path, seconds: float, seed: int) -> None:
    """Store one episode of a run's policy as an animated GIF, WebP or PNG."""
    from gammaprime import envs
    from gammaprime.runs.run import read_config

    if file.suffix not in SUFFIXES:
        raise ValueError(f"{file}: must end in {', '.join(SUFFIXES)}")
    if not 0.0 < seconds < math.inf:
        raise ValueError(f"seconds={seconds!r}: must be finite and above 0")
    if seed < 0:
        raise ValueError(f"seed={seed!r}: must be an integer >= 0")
    if importlib.util.find_spec("PIL") is None:
        raise ModuleNotFoundError("videos need pillow: pip install 'gammaprime[train]'")
    task = read_config(run).task
    if not isinstance(task, str):
        raise ValueError(f"{run}: was trained on an object, which is not here to be looked at")
    envs.time_limit(task)  # refuses a task that is not known here, before anything is drawn
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    words = ["-m", "gammaprime.cli.video", *map(str, (run, temporary, seconds, seed))]
    try:
        failures: list[str] = []
        for platform in _platforms():
            failure = attempt(words, platform, TIMEOUT)
            if not failure:
                temporary.replace(file)
                return
            failures.append(failure)
        raise OSError(f"{file}: nothing could draw it here: {'; '.join(failures)}")
    finally:
        temporary.unlink(missing_ok=True)


def probe_rendering() -> str:
    """Return which way of drawing works here, or why none does."""
    failure = ""
    for platform in _platforms():
        if not (failure := attempt(["-c", _PROBE], platform, timeout=60.0)):
            return f"{platform} works"
    return f"none works ({failure}); install a driver: apt-get install libegl1 or libosmesa6"


def _platforms() -> tuple[str, ...]:
    chosen = os.environ.get("MUJOCO_GL")
    return (chosen,) if chosen else PLATFORMS


def attempt(words: Sequence[str], platform: str, timeout: float) -> str:
    """Run Python with a way of drawing; return why it failed, or an empty text."""
    # Drivers are loaded by name at import, so only a fresh process can choose one.
    environment = {**os.environ, "MUJOCO_GL": platform, "PYOPENGL_PLATFORM": platform}
    try:
        done = subprocess.run(
            [sys.executable, "-P", *words],
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


def main(run: str, file: str, seconds: str, seed: str) -> None:
    """Play the first episode from a seed, for at most so many seconds, and store it."""
    from PIL import Image

    from gammaprime.envs.render import FRAMES_PER_SECOND, stage
    from gammaprime.runs.run import read_config

    config = read_config(Path(run))
    set_up = stage(str(config.task), config.time_limit, config.time_feature)
    every = max(1, round(1.0 / (FRAMES_PER_SECOND * set_up.seconds)))
    limit = max(1, int(float(seconds) / set_up.seconds))
    frames = [Image.fromarray(frame) for frame in _play(set_up, run, int(seed), limit, every)]
    milliseconds = round(1000 * every * set_up.seconds)
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)


def _play(stage: Stage, run: str, seed: int, limit: int, every: int) -> Iterator[Any]:
    from gammaprime.runs.run import load_policy

    policy = load_policy(run)
    obs = stage.env.reset(seed)
    for step in range(limit):
        if step % every == 0:
            yield stage.look()
        seen = stage.env.step(policy(obs))
        if (seen.terminated | seen.truncated).any():
            return
        obs = seen.obs


if __name__ == "__main__":
    main(*sys.argv[1:])
