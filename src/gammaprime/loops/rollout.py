"""Rollouts: T steps of N environments as a trajectory, and the episodes that ended in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gammaprime.envs.contract import Box, NotFiniteError, VecEnv
from gammaprime.networks import LearnedActor, UniformActor
from gammaprime.types import Trajectory


class BreakdownError(Exception):
    """Training met NaN or infinity; ``arrays`` holds what is needed to reproduce it."""

    def __init__(self, message: str, arrays: dict[str, NDArray[Any]]) -> None:
        super().__init__(message)
        self.arrays = arrays


class Episode(NamedTuple):
    """An episode that ended, with its return undiscounted, at γ and at γ'."""

    ended_at: int
    """Environment steps, of all rows, when it ended."""
    length: int
    """Steps of the episode."""
    undiscounted: float
    """Sum of its rewards."""
    at_gamma: float
    """Sum of its rewards, discounted by γ."""
    at_gamma_prime: float
    """Sum of its rewards, discounted by γ'."""


class Returns:
    """Returns of the episodes under way, in float64: undiscounted, at γ and at γ'."""

    def __init__(self, num_envs: int, gamma: float, gamma_prime: float) -> None:
        self.discounts = (gamma, gamma_prime)
        self.sums = np.zeros((3, num_envs))
        self.factors = np.ones((2, num_envs))

    def add(
        self,
        reward: NDArray[Any],
        ended: NDArray[Any],
        step: NDArray[Any],
        now: int,
        early: NDArray[np.bool_] | None = None,
    ) -> tuple[list[Episode], list[Episode]]:
        """Add T steps of every row, after ``now`` steps of all rows; return what ended in them.

        First the whole episodes, then those that were cut ``early`` to stagger the rows.
        The sums are Python floats, row by row: NumPy calls for each step would take longer.

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
        found.sort()
        if early is None:
            return [episode for _, _, episode in found], []
        whole = [episode for t, row, episode in found if not early[t, row]]
        return whole, [episode for t, row, episode in found if early[t, row]]

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return the running sums, copied."""
        return {"sums": self.sums.copy(), "factors": self.factors.copy()}

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Go on from a snapshot."""
        self.sums, self.factors = np.array(snapshot["sums"]), np.array(snapshot["factors"])


def collect(
    env: VecEnv,
    actor: LearnedActor | UniformActor,
    obs: NDArray[Any],
    num_steps: int,
    rng: np.random.Generator,
    returns: Returns,
    now: int,
) -> tuple[Trajectory, NDArray[Any], list[Episode], list[Episode]]:
    """Act for ``num_steps`` from ``obs``; return the rollout, the next obs and what ended.

    The last two are the whole episodes, and those that were cut early to stagger the rows.
    """
    rows: list[tuple[NDArray[Any], ...]] = []
    early: NDArray[np.bool_] | None = None
    act = actor.sampler(num_steps, env.num_envs, rng)
    for t in range(num_steps):
        action = act(obs)
        try:
            seen = env.step(within_bounds(env, action))
        except NotFiniteError as error:
            last = {"last_obs": obs, "last_action": action}
            raise BreakdownError(str(error), {**name_fields(_stack(rows)), **last}) from error
        rows.append(
            (obs, seen.next_obs, action, seen.reward, seen.terminated, seen.truncated, seen.step)
        )
        if seen.early is not None:
            early = np.zeros((num_steps, env.num_envs), bool) if early is None else early
            early[t] = seen.early & ~seen.terminated
        obs = seen.obs
    rollout = _stack(rows)
    ended = rollout.terminated | rollout.truncated
    return rollout, obs, *returns.add(rollout.reward, ended, rollout.step, now, early)


def _stack(rows: list[tuple[NDArray[Any], ...]]) -> Trajectory:
    columns = zip(*rows, strict=True) if rows else [()] * len(Trajectory._fields)
    return Trajectory(*(_join(column) if column else np.empty(0) for column in columns))


def _join(column: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    """Stack arrays of equal shapes, which `np.stack` would check one by one."""
    return np.concatenate(column).reshape(len(column), *column[0].shape)


def name_fields(rollout: Trajectory) -> dict[str, NDArray[Any]]:
    """Return the rollout as named arrays, for a file."""
    return {f"rollout/{name}": x for name, x in rollout._asdict().items()}


def check_rollout(rollout: Trajectory) -> None:
    """Raise `BreakdownError` at the first NaN or infinity in observations, actions or rewards."""
    for name in ("obs", "next_obs", "action", "reward"):
        if not np.isfinite(x := rollout._asdict()[name]).all():
            t, row = (int(i) for i in np.argwhere(~np.isfinite(x))[0][:2])
            raise BreakdownError(
                f"{name} at step {t} of the rollout is not finite in row {row}",
                name_fields(rollout),
            )


def within_bounds(env: VecEnv, action: NDArray[Any]) -> NDArray[Any]:
    """Return the actions clipped to their bounds; the rollout keeps them as they were drawn."""
    if isinstance(env.action, Box):
        return action.clip(env.action.low, env.action.high)
    return action
