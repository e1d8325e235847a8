"""From environment to trajectory: N rows for T steps, and the episodes that ended on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gammaprime.envs.contract import Box, NotFiniteError, VecEnv
from gammaprime.networks import Actor
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
        self.discounts = (gamma, gamma_prime)
        self.sums = np.zeros((3, num_envs))
        self.factors = np.ones((2, num_envs))

    def add(
        self, reward: np.ndarray, ended: np.ndarray, step: np.ndarray, now: int
    ) -> list[Episode]:
        """Count T steps of every row, after ``now`` steps of all rows; the episodes they ended.

        Row by row in Python's own floats: a call of NumPy for each step would cost more.

        Shapes: (T, N).
        """
        found: list[tuple[int, int, Episode]] = []
        gamma, gamma_prime = self.discounts
        num_envs = self.sums.shape[1]
        for row in range(num_envs):
            plain, low, high = self.sums[:, row].tolist()
            low_factor, high_factor = self.factors[:, row].tolist()
            paid = zip(reward[:, row].tolist(), ended[:, row].tolist(), strict=True)
            for t, (amount, end) in enumerate(paid):
                plain += amount
                low += low_factor * amount
                high += high_factor * amount
                low_factor *= gamma
                high_factor *= gamma_prime
                if end:
                    when, length = now + (t + 1) * num_envs, int(step[t, row]) + 1
                    found.append((t, row, Episode(when, length, plain, low, high)))
                    plain = low = high = 0.0
                    low_factor = high_factor = 1.0
            self.sums[:, row] = plain, low, high
            self.factors[:, row] = low_factor, high_factor
        return [episode for _, _, episode in sorted(found)]

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
    act = actor.sampler(num_steps, env.num_envs, rng)
    for _ in range(num_steps):
        action = act(obs)
        try:
            seen = env.step(within_bounds(env, action))
        except NotFiniteError as error:
            last = {"last_obs": obs, "last_action": action}
            raise BreakdownError(str(error), {**name_fields(_stack(rows)), **last}) from error
        rows.append(
            (obs, seen.next_obs, action, seen.reward, seen.terminated, seen.truncated, seen.step)
        )
        obs = seen.obs
    rollout = _stack(rows)
    ended = rollout.terminated | rollout.truncated
    return rollout, obs, returns.add(rollout.reward, ended, rollout.step, now)


def _stack(rows: list[tuple[np.ndarray, ...]]) -> Trajectory:
    columns = zip(*rows, strict=True) if rows else [()] * len(Trajectory._fields)
    return Trajectory(*(_join(column) if column else np.empty(0) for column in columns))


def _join(column: tuple[np.ndarray, ...]) -> np.ndarray:
    """`np.stack` of equal shapes, which looks at each of them one by one."""
    return np.concatenate(column).reshape(len(column), *column[0].shape)


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
        return action.clip(env.action.low, env.action.high)
    return action
