"""An environment of one's own, trained on and evaluated from Python; no id is registered."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import gammaprime as gp


class Walk(gymnasium.Env[np.ndarray, int]):
    """Steps to the left or right; steps to the right are paid, and ±9 ends the episode."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start in the middle."""
        super().reset(seed=seed)
        self.position = 0.0
        return np.array([self.position], np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move by one."""
        self.position += 1.0 if action else -1.0
        ended = abs(self.position) >= 9.0
        return np.array([self.position], np.float32), float(action), ended, False, {}


def main(steps: int = 20_480) -> Any:
    """Train on the constructor, with a time limit for what never ends by itself."""
    agent = gp.PPO(num_envs=4, num_steps=64, minibatches=4, advantage=gp.TaylorQ(0.999))
    run = gp.train(agent, Walk, steps=steps, time_limit=100)
    return gp.evaluate(run, episodes=5, task=Walk)


if __name__ == "__main__":
    print(main())  # noqa: T201
