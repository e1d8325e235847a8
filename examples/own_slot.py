"""A slot and an agent of one's own; docs/own-slots.md explains them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import gammaprime as gp
from gammaprime.agents.advantages import Estimate, Experience, base_estimate


@dataclass(frozen=True)
class Tempered:
    """GAE, shrunk where the target value is large."""

    temperature: float = 1.0
    """Value at which an advantage is halved."""
    num_heads = 1

    def check(self, gamma: float) -> None:
        """Accept every γ."""

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        """Advantages for the policy, targets for the critic; JAX arrays, time first."""
        advantage, target = base_estimate(experience, gamma, lam)
        return Estimate(advantage / (1.0 + abs(target) / self.temperature), target[None])


@dataclass(frozen=True)
class ClippedPPO(gp.PPO):
    """PPO that learns from clipped rewards; runs still report the true ones."""

    largest_reward: float = 1.0
    """Rewards are clipped to ± this."""

    def update(self, state: Any, policy: Any, rollout: Any, rng: Any, remaining: float) -> Any:
        """Clip the rewards of the rollout, and learn as PPO does."""
        clipped = np.clip(rollout.reward, -self.largest_reward, self.largest_reward)
        return super().update(state, policy, rollout._replace(reward=clipped), rng, remaining)


if __name__ == "__main__":
    agent = ClippedPPO(advantage=Tempered(temperature=2.0), num_envs=8, num_steps=32, minibatches=4)
    run = gp.train(agent, "CartPole-v1", steps=20_000, evaluation=gp.Evaluation(episodes=5))
    print(run.metrics["rollout/ep_rew_mean"][-1])  # noqa: T201
