"""The toy experiment of the paper (fig:errors): error against order, best order against noise.

Panel (a): the error of V_K against V_γ', expected and sampled, order by order.
Panel (b): the order with the least error, as noise is added to the base estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gammaprime.estimators import discounted_return, expand_random, sample_jumps
from gammaprime.experiments.toy_moments import (
    exact_base_moments,
    noise_variance,
    return_base_moments,
)
from gammaprime.tabular import MDP, chain, error_bound, random_mdp, solve_value, value_terms
from gammaprime.types import check_discounts, check_order, taylor_ratio
from gammaprime.typing import FloatArray

START = 0
REWARD_MAX = 1.0  # mean rewards of the family are Uniform(0, 1)


@dataclass(frozen=True)
class Settings:
    """Settings of the toy experiment.  Paper: fig:errors, appendix:exp."""

    seed: int
    """Seed of everything that is drawn."""
    num_mdps: int
    """Number of random MDPs."""
    num_states: int
    """States of each MDP."""
    num_actions: int
    """Actions of each MDP."""
    concentration: float
    """Parameter of the Dirichlet distribution of transitions."""
    gamma: float
    """Discount of the base values."""
    gamma_prime: float
    """Discount to expand towards, below 1."""
    order: int
    """Largest order."""
    num_trajectories: int
    """Trajectories that an estimate is the mean of."""
    repetitions: int
    """Estimates for each MDP."""
    reward_noise: float
    """Standard deviation of a reward over its mean."""
    truncation: float
    """Trajectories end when γ'^T falls below this number."""
    base_noise: tuple[float, ...]
    """Standard deviations of the noise on the base estimates in panel (b)."""

    def __post_init__(self) -> None:
        check_discounts(self.gamma, self.gamma_prime)
        check_order(self.order, infinite_allowed=False)
        for name in ("num_mdps", "num_states", "num_actions", "num_trajectories", "repetitions"):
            if (value := vars(self)[name]) < 1:
                raise ValueError(f"{name}={value!r}: must be at least 1")
        for name in ("gamma_prime", "truncation"):
            if not 0.0 < (value := vars(self)[name]) < 1.0:
                raise ValueError(f"{name}={value!r}: must lie in (0, 1) for the toy experiment")
        for name, value in [
            ("seed", self.seed),
            ("reward_noise", self.reward_noise),
            *((f"base_noise[{i}]", level) for i, level in enumerate(self.base_noise)),
        ]:
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}={value!r}: must be finite and not negative")

    @property
    def num_steps(self) -> int:
        """Length T of a trajectory, the least with γ'^T ≤ truncation."""
        return math.ceil(math.log(self.truncation) / math.log(self.gamma_prime))


class Paths(NamedTuple):
    """B trajectories.  Shapes: state (T, B) int, reward (T, B)."""

    state: NDArray[np.int64]
    reward: FloatArray


def run(settings: Settings, report: Callable[[int, int], None]) -> dict[str, FloatArray]:
    """Run both panels on every MDP; ``report(done, all)`` is called after each MDP.

    Paper: fig:errors.  Departs: S16, S18, S19.
    Shapes: arrays of ``run_mdp`` with the MDP as first axis, and bound (K+1,).
    """
    rows = []
    for seed in np.random.SeedSequence(settings.seed).spawn(settings.num_mdps):
        rows.append(run_mdp(settings, np.random.default_rng(seed)))
        report(len(rows), settings.num_mdps)
    discounts = (settings.gamma, settings.gamma_prime)
    bound = [error_bound(*discounts, k, REWARD_MAX) for k in range(settings.order + 1)]
    return {
        "bound": np.array(bound),
        **{key: np.stack([row[key] for row in rows]) for key in rows[0]},
    }


def run_mdp(settings: Settings, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Return the exact errors, sampled errors and best orders of one random MDP.

    Shapes, with R repetitions and S noise levels: target (); expected_error (K+1,);
    sampled_error (R, K+1), signed; rmse (K+1,), exact; realised_order (R, S) and (S,) for
    rmse_order: the order with the least error in one repetition, and in root mean square.
    """
    mdp = random_mdp(settings.num_states, settings.num_actions, settings.concentration, rng)
    policy = np.full(mdp.reward.shape, 1.0 / settings.num_actions)
    discounts = (settings.gamma, settings.gamma_prime)
    transition, reward = chain(mdp, policy)
    target = solve_value(transition, reward, settings.gamma_prime)[START]
    value = solve_value(transition, reward, settings.gamma)
    terms = value_terms(transition, reward, *discounts, settings.order)[:, START]
    bias = np.cumsum(terms) - target

    _, variance = return_base_moments(
        mdp, policy, *discounts, settings.order, settings.reward_noise
    )
    _, path_variance = exact_base_moments(transition, value, *discounts, settings.order)
    sampled, exact, noise = sample_estimates(settings, mdp, policy, value, rng)
    level = np.array(settings.base_noise)[:, None]
    added = level**2 * noise_variance(*discounts, settings.order)
    realised = exact[:, None, :] + level * noise[:, None, :] - target
    mean_square = bias**2 + (path_variance[:, START] + added) / settings.num_trajectories
    return {
        "target": target,
        "expected_error": np.abs(bias),
        "sampled_error": sampled - target,
        "rmse": np.sqrt(bias**2 + variance[:, START] / settings.num_trajectories),
        "realised_order": np.abs(realised).argmin(axis=-1),
        "rmse_order": mean_square.argmin(axis=-1),
    }


def sample_estimates(
    settings: Settings, mdp: MDP, policy: FloatArray, value: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Run Algorithm 1 at the start state on three base estimates, averaged over trajectories.

    The base estimates are the returns of the path, V_γ(x_t), and N(0, 1) noise.  The estimator is
    linear in them, so that V_γ(x_t) + N(0, σ²) is the second plus σ times the third for every σ.

    Paper: algo:estimate.  Shapes: -> three of (R, K+1).
    """
    batch = (settings.repetitions, settings.num_trajectories)
    paths = simulate(mdp, policy, settings.num_steps, math.prod(batch), settings.reward_noise, rng)
    nothing = np.zeros_like(paths.reward)
    never = nothing.astype(bool)
    returns = discounted_return(paths.reward, nothing, never, never, settings.gamma)
    noise = rng.standard_normal(paths.reward.shape)
    jumps = sample_jumps(settings.order, (math.prod(batch),), settings.gamma, rng)
    times = np.cumsum(jumps, axis=0)

    def averaged(base: FloatArray) -> FloatArray:
        estimate = estimates_by_order(base, times, settings.gamma, settings.gamma_prime)
        return estimate.T.reshape(*batch, -1).mean(axis=1)

    return averaged(returns), averaged(value[paths.state]), averaged(noise)


def simulate(
    mdp: MDP,
    policy: FloatArray,
    num_steps: int,
    batch: int,
    reward_noise: float,
    rng: np.random.Generator,
) -> Paths:
    """Draw trajectories from the start state with rewards r̄(x, a)(1 + N(0, reward_noise²)).

    Paper: appendix:exp.
    """
    act = np.cumsum(policy, axis=-1)
    move = np.cumsum(mdp.transition, axis=-1)
    act[..., -1] = move[..., -1] = np.inf  # rounding errors must not give an index past the last
    uniform = rng.random((num_steps, 2, batch, 1))
    state = np.full(batch, START)
    states, means = [], []
    for for_action, for_state in uniform:
        action = (for_action >= act[state]).sum(axis=-1)
        states.append(state)
        means.append(mdp.reward[state, action])
        state = (for_state >= move[state, action]).sum(axis=-1)
    reward = np.stack(means)
    return Paths(
        np.stack(states), reward * (1.0 + reward_noise * rng.standard_normal(reward.shape))
    )


def estimates_by_order(
    base: FloatArray, times: NDArray[np.int64], gamma: float, gamma_prime: float
) -> FloatArray:
    """Return the estimate at time 0 for every order up to K, from the random times t_1 < .. < t_K.

    Order k adds c^k y(t_k), and a single jump of length t_k gives y(0) + c y(t_k).

    Paper: algo:estimate.  Shapes: base (T, B), times (K, B) -> (K+1, B).
    """
    nothing = np.zeros_like(base)
    ends = (nothing, nothing.astype(bool), nothing.astype(bool))
    ratio = taylor_ratio(gamma, gamma_prime)
    estimate = [base[0]]
    for k, jump in enumerate(times):
        seen = slice(0, jump.max() + 1)
        value, terminated, truncated = (array[seen] for array in ends)
        jumps = np.broadcast_to(jump, (1, *value.shape))
        path = (base[seen], value, terminated, truncated)
        reached = expand_random(*path, gamma, gamma_prime, jumps)[0] - base[0]
        estimate.append(estimate[-1] + ratio**k * reached)
    return np.stack(estimate)
