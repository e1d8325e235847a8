"""What off-policy agents learn from: made-up transitions, and problems of a single state."""

from typing import NamedTuple

import numpy as np

from gammaprime.agents.off_policy import Batch
from gammaprime.agents.weightings import Recent

NUM_INPUTS, NUM_ACTIONS = 3, 2


class Space(NamedTuple):
    low: np.ndarray
    high: np.ndarray


SPACE = Space(np.array([-1.0, -0.5]), np.array([1.0, 1.5]))
"""One box as networks see it, one that is not."""


def made_up(rng, updates=4, size=16):
    """Noise, a third of it ends of episodes; actions all over the box."""
    obs, next_obs = rng.normal(size=(2, updates, size, NUM_INPUTS)).astype(np.float32)
    action = rng.uniform(SPACE.low, SPACE.high, (updates, size, NUM_ACTIONS)).astype(np.float32)
    reward = rng.normal(size=(updates, size)).astype(np.float32)
    terminated = rng.random((updates, size)) < 1 / 3
    step = rng.integers(0, 30, (updates, size)).astype(np.int32)
    return Batch(obs, action, reward, next_obs, terminated, step)


def made_up_recent(rng, updates=4, size=12):
    obs = rng.normal(0.5, 1.0, (updates, size, NUM_INPUTS)).astype(np.float32)
    return Recent(obs, rng.integers(0, 30, (updates, size)).astype(np.int32))
