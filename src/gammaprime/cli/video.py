"""Videos of policies, made in a process of their own that is ended when it takes too long.

Drivers may hang or abort where there is no screen.  The process is
``python -P -m gammaprime.cli.video RUN FILE SECONDS SEED POLICY``.
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
    from gammaprime.networks import Policy

SUFFIXES = (".mp4", ".gif", ".webp", ".png")
PLATFORMS = ("egl", "osmesa")
"""Ways to draw without a screen: a graphics card or Mesa through EGL, Mesa in memory."""
TIMEOUT = 300.0
INSTALL = "pip install"
_PROBE = "from gammaprime.envs.render import draw_nothing; draw_nothing()"


def record(run: Path, file: Path, seconds: float, seed: int, best: bool = False) -> None:
    """Store one episode of a run's policy as an mp4, or as an animated GIF, WebP or PNG."""
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
    if file.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise ModuleNotFoundError(
            f"{file}: mp4 needs imageio-ffmpeg: pip install 'gammaprime[video]'; .gif does not"
        )
    task = read_config(run).task
    if not isinstance(task, str):
        raise ValueError(f"{run}: was trained on an object, which is not here to be looked at")
    envs.time_limit(task)  # refuses a task that is not known here, before anything is drawn
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    asked = (run, temporary, seconds, seed, "best" if best else "newest")
    words = ["-m", "gammaprime.cli.video", *map(str, asked)]
    try:
        failures: list[str] = []
        for platform in _platforms():
            failure = attempt(words, platform, TIMEOUT)
            if not failure:
                temporary.replace(file)
                return
            if INSTALL in failure:  # no other way of drawing helps
                raise ModuleNotFoundError(f"{file}: {failure.split(': ')[-1]}")
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
    told = [line for line in lines if not line.startswith(" ")]
    # Gymnasium names the package that draws a task in an error that follows from another.
    helpful = [line for line in told if INSTALL in line]
    errors = [line for line in told if "Error" in line]
    return f"{platform}: {(helpful or errors or lines)[0]}"


def main(run: str, file: str, seconds: str, seed: str, policy: str) -> None:
    """Play the first episode from a seed, for at most so many seconds, and store it."""
    from gammaprime.envs.render import FRAMES_PER_SECOND, stage
    from gammaprime.runs.run import load_policy, read_config

    config = read_config(Path(run))
    set_up = stage(str(config.task), config.time_limit, config.time_feature, config.env_kwargs)
    every = max(1, round(1.0 / (FRAMES_PER_SECOND * set_up.seconds)))
    limit = max(1, int(float(seconds) / set_up.seconds))
    chosen = load_policy(run, best=policy == "best")
    frames = list(_play(set_up, chosen, int(seed), limit, every))
    write = write_mp4 if Path(file).suffix == ".mp4" else write_images
    write(file, frames, every * set_up.seconds)


def write_images(file: str, frames: Sequence[Any], seconds: float) -> None:
    """Write an animated GIF, WebP or PNG; each frame, (height, width, 3) bytes, for so long."""
    from PIL import Image

    first, *rest = (Image.fromarray(frame) for frame in frames)
    duration = round(1000 * seconds)
    first.save(file, save_all=True, append_images=rest, duration=duration, loop=0)


def write_mp4(file: str, frames: Sequence[Any], seconds: float) -> None:
    """Write an mp4 (H.264), each frame for so long; odd sides are padded to even ones."""
    from imageio_ffmpeg import get_ffmpeg_exe

    height, width = frames[0].shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    source += ["-r", f"{1.0 / seconds:.6f}", "-i", "-"]
    target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
    subprocess.run(
        [get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *target, file],
        input=b"".join(frame.tobytes() for frame in frames),
        check=True,
    )


def _play(stage: Stage, policy: Policy, seed: int, limit: int, every: int) -> Iterator[Any]:
    from gammaprime.loops.rollout import within_bounds

    obs = stage.env.reset(seed)
    for step in range(limit):
        if step % every == 0:
            yield stage.look()
        # Environments here count choices from 0; a policy as its task does.
        seen = stage.env.step(within_bounds(stage.env, policy.actor(obs)))
        if (seen.terminated | seen.truncated).any():
            return
        obs = seen.obs


if __name__ == "__main__":
    main(*sys.argv[1:])
