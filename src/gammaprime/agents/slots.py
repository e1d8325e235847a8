"""What varies between agents, as values: how advantages are estimated, how updates are weighted.

Sections 4 and 5 and appendix F of the paper.  An advantage slot owns its critic: how many heads
it has, what each should learn, and the advantage of the policy.  γ and λ belong to the agent,
γ' to the slot that uses it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from gammaprime import estimators
from gammaprime.agents.experience import (
    Estimate,
    Experience,
    alive,
    base_estimate,
    head_advantages,
)
from gammaprime.estimators.expansions import TAILS
from gammaprime.types import (
    Order,
    check_count,
    check_discount,
    check_discounts,
    check_fraction,
    check_order,
    taylor_ratio,
)


@dataclass(frozen=True)
class GAE:
    """The base: advantages at γ alone.  Paper: eq:uniform-gradient."""

    def check(self, gamma: float) -> None:
        """The agent's own γ is all there is."""

    @property
    def num_heads(self) -> int:
        return 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        advantage, target = base_estimate(experience, gamma, lam)
        return Estimate(advantage, target[None])


@dataclass(frozen=True)
class TaylorQ:
    """(1−η) Q̂_γ + η Q̂_K in the place of Q̂_γ; the critic still learns V_γ.

    The defaults are the paper's: order 1, a self-normalised window of 10, η = 0.01, not centred.
    ``lookahead=None`` takes the whole path instead (any order, ∞ too), with a tail rule at cuts.

    Paper: algo:k-adv, x:window, x:mixture, x:centred-advantage.  Departs: S5, S21, S22.
    """

    gamma_prime: float = 0.999
    order: Order = 1
    eta: float = 0.01
    lookahead: int | None = 10
    tail: str = "survival"
    center: bool = False

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order, infinite_allowed=self.lookahead is None)
        check_fraction("eta", self.eta)
        check_tail(self.tail)
        if self.lookahead is not None:
            check_count("lookahead", self.lookahead)
        # The end of a rollout is a cut, and one without any death has a survival of 1.
        if self.gamma_prime == 1.0 and math.isinf(self.order):
            if self.tail != "zero":
                raise ValueError(
                    f"tail={self.tail!r}: must be 'zero' with gamma_prime=1, order inf"
                )
            if self.center:
                raise ValueError("center=True: must be False with gamma_prime=1 and order inf")

    def check(self, gamma: float) -> None:
        check_discounts(gamma, self.gamma_prime)

    @property
    def num_heads(self) -> int:
        return 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        advantage, target = base_estimate(experience, gamma, lam)
        # Said apart, because (A + V) − V is not A in floating point: without any expansion
        # the agent is the plain one bit for bit.
        if self.eta == 0 or self.order == 0 or self.gamma_prime == gamma:
            return Estimate(advantage, target[None])
        past = (experience.next_values[0], *experience.ends, gamma, self.gamma_prime, self.order)
        if self.lookahead is None:
            expanded = estimators.expand(target, *past, tail=self.tail)
        else:
            expanded = estimators.expand_window(target, *past, lookahead=self.lookahead)
        value, baseline = experience.values[0], None
        if self.center:
            baseline = estimators.taylor_baseline(value, gamma, self.gamma_prime, self.order)
        mixed = estimators.taylor_advantage(target, expanded, value, self.eta, baseline)
        return Estimate(mixed, target[None])


@dataclass(frozen=True)
class TaylorGradient:
    """The combination of orders whose update is the true gradient of V_K.

    It carries its own weights over time, so it refuses `TaylorWeight` beside it.  Centred: c^k V
    is taken from the k-th term, which no action changes.

    Paper: x:true-gradient.
    """

    gamma_prime: float = 0.999
    order: int = 1
    tail: str = "survival"

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order, infinite_allowed=False)
        check_tail(self.tail)

    def check(self, gamma: float) -> None:
        check_discounts(gamma, self.gamma_prime)

    @property
    def num_heads(self) -> int:
        return 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        _, target = base_estimate(experience, gamma, lam)
        value, next_value = experience.values[0], experience.next_values[0]
        discounts = gamma, self.gamma_prime
        terms = estimators.expand_terms(
            target, next_value, *experience.ends, *discounts, self.order, tail=self.tail
        )
        c = taylor_ratio(*discounts)
        centered = jnp.stack([term - c**k * value for k, term in enumerate(terms)])
        advantage = estimators.gradient_advantage(centered, experience.step, *discounts)
        return Estimate(advantage, target[None])


@dataclass(frozen=True)
class TaylorCritic:
    """Heads that learn the terms D_0 .. D_K, so that no tail rule is needed at cuts.

    Head k is a value function at γ whose reward is (γ'−γ) D_{k−1} of the successor, and the sum
    of the heads' advantages is that of Q_K.

    Paper: eq:primal-k-order, algo:k-adv, x:learned-terms.
    """

    gamma_prime: float = 0.999
    order: int = 1

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order, infinite_allowed=False)

    def check(self, gamma: float) -> None:
        check_discounts(gamma, self.gamma_prime)

    @property
    def num_heads(self) -> int:
        return int(self.order) + 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        lower = (self.gamma_prime - gamma) * alive(experience, experience.next_values[:-1])
        rewards = jnp.concatenate([experience.reward[None], lower])
        same = [gamma] * self.num_heads, [lam] * self.num_heads
        advantages = head_advantages(experience, rewards, *same)
        return Estimate(advantages.sum(axis=0), advantages + experience.values)


@dataclass(frozen=True)
class TDDelta:
    """TD(Δ), the rival: one head for each difference between neighbouring discounts.

    The last discount is the one the policy is trained for, and must be the agent's γ.

    Paper: x:td-delta, fig:separating.
    """

    gammas: tuple[float, ...] = (0.68, 0.84, 0.92, 0.96, 0.98, 0.99)
    rule: str = "double_capped"

    def __post_init__(self) -> None:
        # A list, as a file gives it, could not be hashed.
        object.__setattr__(self, "gammas", tuple(self.gammas))
        estimators.td_delta_lambdas(self.gammas, 1.0, self.rule)

    def check(self, gamma: float) -> None:
        if gamma != self.gammas[-1]:
            raise ValueError(
                f"gamma={gamma!r}: must be the last of TDDelta's gammas, {self.gammas[-1]!r}"
            )

    @property
    def num_heads(self) -> int:
        return len(self.gammas)

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        rewards = estimators.td_delta_rewards(
            experience.reward, experience.next_values, experience.terminated, self.gammas
        )
        lambdas = estimators.td_delta_lambdas(self.gammas, lam, self.rule)
        advantages = head_advantages(experience, rewards, self.gammas, lambdas)
        value, next_value = experience.values.sum(axis=0), experience.next_values.sum(axis=0)
        policy = estimators.gae(
            experience.reward, value, next_value, *experience.ends, gamma=gamma, lam=lam
        )
        return Estimate(policy, advantages + experience.values)


Advantage: TypeAlias = GAE | TaylorQ | TaylorGradient | TaylorCritic | TDDelta


@dataclass(frozen=True)
class Uniform:
    """Every step counts the same: the usual heuristic.  Paper: eq:uniform-gradient."""

    def check(self, gamma: float) -> None:
        """Nothing depends on γ."""

    def weights(self, step: np.ndarray, gamma: float) -> np.ndarray:
        return np.ones(step.shape, dtype=np.float32)


@dataclass(frozen=True)
class TaylorWeight:
    """w_K(t) on the policy's term, t the age inside the episode.

    Order 0 is γ^t, math.inf is γ'^t.  ``normalise`` divides by the mean over the rollout, which
    keeps the step's size and hides how little of an episode γ^t looks at.

    Paper: algo:weight-onpolicy, eq:state-weight, x:self-normalised.  Departs: S2, S3, S20.
    """

    gamma_prime: float = 0.999
    order: Order = 100
    normalise: bool = False

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order)

    def check(self, gamma: float) -> None:
        check_discounts(gamma, self.gamma_prime)

    def weights(self, step: np.ndarray, gamma: float) -> np.ndarray:
        """On the host, in float64, so that no age is too old.  Shapes: (T, N) -> (T, N)."""
        ages = 2 ** int(step.max()).bit_length()
        weights = _weight_curve(gamma, self.gamma_prime, self.order, ages)[step]
        # Where all are too old to count, there is no mean to divide by.
        if self.normalise and weights.any():
            weights = weights / weights.mean()
        return weights.astype(np.float32)


@functools.lru_cache(maxsize=16)
def _weight_curve(gamma: float, gamma_prime: float, order: Order, ages: int) -> np.ndarray:
    """w_K(0), w_K(1), … once for all rollouts, longer by a factor of 2 when an age needs it."""
    return estimators.update_weights(np.arange(ages), gamma, gamma_prime, order)


Weighting: TypeAlias = Uniform | TaylorWeight


def check_slots(gamma: float, advantage: Advantage, weighting: Weighting) -> None:
    """Refuse a pair of slots that cannot work with this γ, or with each other."""
    check_discount("gamma", gamma, one_allowed=True)
    for name, slot, kinds in (
        ("advantage", advantage, Advantage),
        ("weighting", weighting, Weighting),
    ):
        if not isinstance(slot, kinds):
            names = ", ".join(kind.__name__ for kind in kinds.__args__)
            raise ValueError(f"{name}={slot!r}: must be one of {names}")
        slot.check(gamma)
    if isinstance(advantage, TaylorGradient) and isinstance(weighting, TaylorWeight):
        raise ValueError(
            "weighting=TaylorWeight: must be Uniform beside TaylorGradient, which carries its own "
            "weights over time"
        )


def check_tail(tail: str) -> None:
    """Refuse a tail rule that does not exist."""
    if tail not in TAILS:
        raise ValueError(f"tail={tail!r}: must be one of {', '.join(map(repr, TAILS))}")
