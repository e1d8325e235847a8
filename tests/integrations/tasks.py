"""Environments whose episodes end in every way, and one that tells trainers apart."""

import gymnasium
import numpy as np
from gymnasium import spaces

from gammaprime.agents import TaylorQ

LIMIT = 9


class Ends(gymnasium.Env):
    """Random rewards and observations; deaths, time limits, and both in the same step.

    Its infos tell what happened: ``truth`` is (terminated, truncated, age of the state left);
    ``history`` holds them all.
    """

    def __init__(self, actions="discrete", observations="box", seed=0):
        box = spaces.Box(-9.0, 9.0, (3,), np.float32)
        self.observation_space = box if observations == "box" else spaces.Dict(a=box, b=box)
        self.action_space = (
            spaces.Discrete(2) if actions == "discrete" else spaces.Box(-1.0, 1.0, (2,))
        )
        self.rng = np.random.default_rng(seed)
        self.history = []

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return self._observe(), {}

    def step(self, action):
        died = bool(self.rng.random() < 0.1)
        late = self.age + 1 >= LIMIT
        # At the limit every other episode dies as well.
        terminated, truncated = died or (late and self.rng.random() < 0.4), late
        truth = terminated, truncated, self.age
        self.history.append(truth)
        self.age += 1
        reward = float(self.rng.normal() + np.sum(action))
        return self._observe(), reward, terminated, truncated, {"truth": truth}

    def action_masks(self):
        return np.ones(2, dtype=bool)

    def _observe(self):
        draw = lambda: self.rng.normal(size=3).astype(np.float32)  # noqa: E731
        box = isinstance(self.observation_space, spaces.Box)
        return draw() if box else {"a": draw(), "b": draw()}


class Choice(gymnasium.Env):
    """Six steps: action 0 in the first pays 1 at once, action 1 pays 3 in the last."""

    observation_space = spaces.Box(0.0, 1.0, (12,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.age, self.chosen = 0, 0
        return self._observe(), {}

    def step(self, action):
        if self.age == 0:
            self.chosen = int(action)
        reward = (1.0 if self.age == 0 else 0.0, 3.0 if self.age == 5 else 0.0)[self.chosen]
        self.age += 1
        return self._observe(), reward, self.age == 6, False, {}

    def action_masks(self):
        return np.ones(2, dtype=bool)

    def _observe(self):
        obs = np.zeros(12, np.float32)
        obs[2 * min(self.age, 5) + self.chosen] = 1.0
        return obs


def check_waiting(train):
    """Check that a trainer takes what it gets in `Choice`, and waits with an expansion.

    ``train(slot)`` trains 12 rollouts of 384 steps at γ = .5, plain if the slot is None, and
    returns the probability of action 1 in the first step.  That action is worth .09 against 1 at
    γ, and 2.3 to order 3 towards .99.
    """
    assert train(None) < 1e-3
    assert train(TaylorQ(0.99, order=3)) > 0.99
