"""One episode of a run's policy as an animation: the process that `cli.video` starts.

Drivers may hang or abort where there is no screen, so this runs in a process that can be ended.
    python -m gammaprime.cli.render RUN FILE SECONDS SEED
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gammaprime.envs.render import FRAMES_PER_SECOND, Stage, stage
from gammaprime.networks import Policy
from gammaprime.runs import folders


def main(run: str, file: str, seconds: str, seed: str) -> None:
    """Play the first episode from a seed, for at most so many seconds, and store it."""
    from PIL import Image

    settings = folders.read_settings(Path(run))
    if not isinstance(settings["task"], str):
        raise ValueError("this run was trained on an object, which is not here to be looked at")
    protocol = settings["protocol"]
    set_up = stage(settings["task"], protocol["time_limit"], protocol["time_feature"])
    every = max(1, round(1.0 / (FRAMES_PER_SECOND * set_up.seconds)))
    limit = max(1, int(float(seconds) / set_up.seconds))
    frames = [Image.fromarray(frame) for frame in _play(set_up, run, int(seed), limit, every)]
    milliseconds = round(1000 * every * set_up.seconds)
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)


def _play(stage: Stage, run: str, seed: int, limit: int, every: int) -> Iterator[np.ndarray]:
    policy = Policy.load(run)
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
