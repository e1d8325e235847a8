"""From environment to trajectory: N rows for T steps, and the episodes that ended on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gammaprime.acting import Actor
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.types import Trajectory


class BreakdownError(Exception):
    """Training cannot go on; ``arrays`` holds what it broke on, enough to see it again."""

    def __init__(self, message: str, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(message)
        self.arrays = arrays


class Episode(NamedTuple):
    """An episode that ended: the return that is judged, and the same two ways discounted."""

    ended_at: int
    """Environment steps, of all rows, when it ended."""
    length: int
    undiscounted: float
    at_gamma: float
    at_gamma_prime: float


class Returns:
    """Returns of the episodes under way, in float64: undiscounted, at γ and at γ'."""

    def __init__(self, num_envs: int, gamma: float, gamma_prime: float) -> None:
        self.discounts = np.array([1.0, gamma, gamma_prime])[:, None]
        self.sums = np.zeros((3, num_envs))
        self.factors = np.ones((3, num_envs))

    def add(
        self, reward: np.ndarray, ended: np.ndarray, step: np.ndarray, now: int
    ) -> list[Episode]:
        """Count one step of every row; the episodes it ended."""
        self.sums += self.factors * reward
        self.factors *= self.discounts
        if not ended.any():
            return []
        rows = np.flatnonzero(ended)
        episodes = [
            Episode(now, int(step[row]) + 1, *(float(total) for total in self.sums[:, row]))
            for row in rows
        ]
        self.sums[:, rows] = 0.0
        self.factors[:, rows] = 1.0
        return episodes

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"sums": self.sums.copy(), "factors": self.factors.copy()}

    def restore(self, snapshot: dict[str, np.ndarray]) -> None:
        self.sums, self.factors = np.array(snapshot["sums"]), np.array(snapshot["factors"])


def collect(
    env: VecEnv,
    actor: Actor,
    obs: np.ndarray,
    num_steps: int,
    rng: np.random.Generator,
    returns: Returns,
    now: int,
) -> tuple[Trajectory, np.ndarray, list[Episode]]:
    """Act for ``num_steps`` from ``obs``; the trajectory, what to act on next, what ended."""
    rows: list[tuple[np.ndarray, ...]] = []
    episodes: list[Episode] = []
    for _ in range(num_steps):
        action = actor.sample(obs, rng)
        try:
            seen = env.step(within_bounds(env, action))
        except ValueError as error:
            # An environment refuses numbers that are none, whether it was given or made them.
            last = {"last_obs": obs, "last_action": action}
            raise BreakdownError(str(error), {**name_fields(_stack(rows)), **last}) from error
        now += env.num_envs
        ended = seen.terminated | seen.truncated
        episodes += returns.add(seen.reward, ended, seen.step, now)
        rows.append(
            (obs, seen.next_obs, action, seen.reward, seen.terminated, seen.truncated, seen.step)
        )
        obs = seen.obs
    return _stack(rows), obs, episodes


def _stack(rows: list[tuple[np.ndarray, ...]]) -> Trajectory:
    columns = zip(*rows, strict=True) if rows else [()] * len(Trajectory._fields)
    return Trajectory(*(np.stack(column) if column else np.empty(0) for column in columns))


def name_fields(rollout: Trajectory) -> dict[str, np.ndarray]:
    """The rollout as named arrays, for a file."""
    return {f"rollout/{name}": x for name, x in rollout._asdict().items()}


def check_rollout(rollout: Trajectory) -> None:
    """Stop at the first observation, action or reward that is no number."""
    for name in ("obs", "next_obs", "action", "reward"):
        if not np.isfinite(x := rollout._asdict()[name]).all():
            t, row = (int(i) for i in np.argwhere(~np.isfinite(x))[0][:2])
            raise BreakdownError(
                f"{name} at step {t} of the rollout is not finite in row {row}",
                name_fields(rollout),
            )


def within_bounds(env: VecEnv, action: np.ndarray) -> np.ndarray:
    """What the environment is given: the policy's own action stays as it was drawn."""
    if isinstance(env.action, Box):
        return np.clip(action, env.action.low, env.action.high)
    return action
