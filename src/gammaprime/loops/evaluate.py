"""Evaluation: whole episodes, scored undiscounted, at γ and at γ', side by side."""

from __future__ import annotations

import numpy as np

from gammaprime.envs.contract import VecEnv
from gammaprime.loops.rollout import BreakdownError, Episode, Returns, within_bounds
from gammaprime.networks import LearnedActor

LONGEST = 100_000
"""Steps after which an episode without a time limit is given up."""


def evaluate(
    actor: LearnedActor,
    env: VecEnv,
    num_episodes: int,
    seed: int,
    gamma: float,
    gamma_prime: float,
    rng: np.random.Generator | None = None,
) -> list[Episode]:
    """Play the first ``num_episodes / num_envs`` episodes of each row after a reset.

    Every row gives the same number: the first episodes to end would be the short ones.
    Actions are the most likely ones, or drawn from the policy if a generator is given.
    """
    if num_episodes < 1 or num_episodes % env.num_envs:
        raise ValueError(
            f"num_episodes={num_episodes!r}: must be a multiple of num_envs={env.num_envs}"
        )
    wanted = num_episodes // env.num_envs
    returns = Returns(env.num_envs, gamma, gamma_prime)
    counts = np.zeros(env.num_envs, dtype=int)
    episodes: list[Episode] = []
    obs = env.reset(seed)
    now = 0
    while (counts < wanted).any():
        if env.time_limit is None and int(env.age.max()) >= LONGEST:
            raise BreakdownError(
                f"an episode has not ended after {LONGEST} steps: give the task a time limit, "
                "time_limit= (--time-limit)",
                {},
            )
        action = actor(obs) if rng is None else actor.sample(obs, rng)
        seen = env.step(within_bounds(env, action))
        ended = seen.terminated | seen.truncated
        ends, _ = returns.add(seen.reward[None], ended[None], seen.step[None], now)
        now += env.num_envs
        for row, episode in zip(np.flatnonzero(ended), ends, strict=True):
            counts[row] += 1
            if counts[row] <= wanted:
                episodes.append(episode)
        obs = seen.obs
    return episodes
