"""Advantage slots of on-policy agents: GAE and its Taylor variants.

Sections 4 and 5 and appendix F of the paper.  A slot reads an `Experience`, a rollout with the
critic's values, and returns an `Estimate`: the advantage that trains the policy and the targets
of the critic's heads.  γ and λ belong to the agent, γ' to the slot that uses it.

A slot is a frozen dataclass with the members of `AdvantageSlot`; one of your own works as well.
Arrays may be NumPy's, JAX's or torch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from gammaprime import estimators
from gammaprime.estimators.backend import namespace
from gammaprime.estimators.expansions import TAILS
from gammaprime.types import (
    Order,
    check_choice,
    check_count,
    check_discount,
    check_discounts,
    check_fraction,
    check_order,
    check_whole,
    taylor_ratio,
)
from gammaprime.typing import Array

MAX_GRADIENT_ORDER = 30


class Experience(NamedTuple):
    """Rollout with the critic's values, time first."""

    reward: Array
    """(T, N) scaled as the critic's targets are."""
    values: Array
    """(H, T, N): each head's value of the state."""
    next_values: Array
    """(H, T, N): each head's value of the TRUE successor."""
    terminated: Array
    """(T, N) bool."""
    truncated: Array
    """(T, N) bool."""
    step: Array
    """(T, N): age inside the episode."""

    @property
    def ends(self) -> tuple[Array, Array]:
        """Both flags, as the estimators take them."""
        return self.terminated, self.truncated


class Estimate(NamedTuple):
    """Advantages for the policy, targets for the critic."""

    advantage: Array
    """(T, N)."""
    targets: Array
    """(H, T, N): target of each head."""


@runtime_checkable
class AdvantageSlot(Protocol):
    """Members that an agent uses of its advantage slot."""

    @property
    def num_heads(self) -> int:
        """Outputs of the critic."""

    def check(self, gamma: float) -> None:
        """Raise ValueError if the slot cannot work with the agent's γ."""

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        """Advantages and targets of a rollout, inside the compiled update."""


@dataclass(frozen=True)
class GAE:
    """Generalised advantage estimation at γ, without any expansion.  Paper: eq:uniform-gradient."""

    def check(self, gamma: float) -> None:
        """Accept every γ."""

    @property
    def num_heads(self) -> int:
        """Outputs of the critic."""
        return 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        """GAE; the critic learns the λ-return."""
        advantage, target = base_estimate(experience, gamma, lam)
        return Estimate(advantage, target[None])


def base_estimate(experience: Experience, gamma: float, lam: float) -> tuple[Array, Array]:
    """GAE at γ on the first head, and the λ-return that is its target."""
    value, next_value = experience.values[0], experience.next_values[0]
    advantage = estimators.gae(
        experience.reward, value, next_value, *experience.ends, gamma=gamma, lam=lam
    )
    return advantage, advantage + value


@dataclass(frozen=True)
class TaylorQ:
    """(1−η) Q̂_γ + η Q̂_K instead of Q̂_γ; the critic still learns V_γ.

    By default the whole path counts, centred, with η = 1: the expansion itself, to order 1.
    `TaylorQ.paper` has the settings of the paper's experiments.

    Paper: algo:k-adv, x:window, x:mixture, x:centred-advantage.  Departs: S5, S21, S22.
    """

    gamma_prime: float = 0.999
    """Discount γ' towards which Q is expanded; at least the agent's γ, at most 1."""
    order: Order = 1
    """Order K of the expansion; usually 1 to 10, infinite only without a window."""
    eta: float = 1.0
    """Share η of the expansion in the mixture, from 0 (plain GAE) to 1; the paper uses 0.01."""
    lookahead: int | None = None
    """Steps of the paper's window, 10 there; none for the whole path, with a tail rule at cuts."""
    tail: str = "survival"
    """Terms past a cut, without a window: "zero", "constant" or "survival"."""
    center: bool = True
    """Subtract the part that no action changes, which lowers the variance; the paper does not."""

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order, infinite_allowed=self.lookahead is None)
        check_fraction("eta", self.eta)
        check_choice("tail", self.tail, TAILS)
        if self.lookahead is not None:
            check_count("lookahead", self.lookahead)
        # The end of a rollout is a cut, and a rollout without a termination has a survival of 1.
        if self.gamma_prime == 1.0 and math.isinf(self.order):
            if self.tail != "zero":
                raise ValueError(
                    f"tail={self.tail!r}: must be 'zero' with gamma_prime=1, order inf"
                )
            if self.center:
                raise ValueError("center=True: must be False with gamma_prime=1 and order inf")

    @classmethod
    def paper(
        cls,
        gamma_prime: float = 0.999,
        order: int = 1,
        eta: float = 0.01,
        lookahead: int | None = 10,
    ) -> TaylorQ:
        """Return the slot of the paper's experiments: a window of 10 steps, η = 0.01, not centred.

        Paper: appendix:exp, x:window.
        """
        return cls(gamma_prime, order, eta, lookahead, center=False)

    def check(self, gamma: float) -> None:
        """Refuse a γ above γ'."""
        check_discounts(gamma, self.gamma_prime)

    @property
    def num_heads(self) -> int:
        """Outputs of the critic."""
        return 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        """Mixture of GAE and its expansion; the critic learns the λ-return at γ."""
        advantage, target = base_estimate(experience, gamma, lam)
        expanded = estimators.expand_advantage(
            advantage,
            experience.values[0],
            experience.next_values[0],
            *experience.ends,
            gamma,
            self.gamma_prime,
            self.order,
            self.eta,
            tail=self.tail,
            lookahead=self.lookahead,
            center=self.center,
        )
        return Estimate(expanded, target[None])


@dataclass(frozen=True)
class TaylorGradient:
    """Combination of orders whose update is the true gradient of V_K.

    It carries its own weights over time, so it refuses every weighting slot but `Uniform`.
    Centred: c^k V is subtracted from the k-th term, which no action changes.

    Paper: x:true-gradient.
    """

    gamma_prime: float = 0.999
    """Discount γ' towards which V is expanded; at least the agent's γ, at most 1."""
    order: int = 1
    """Order K of the expansion; usually 1 to 5, at most 30."""
    tail: str = "survival"
    """Terms past a cut: "zero", "constant" or "survival"."""

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        if check_order(self.order) > MAX_GRADIENT_ORDER:
            raise ValueError(
                f"order={self.order!r}: must be at most {MAX_GRADIENT_ORDER}, every order is "
                "compiled by itself; as the order grows the update becomes that of TaylorQ and "
                "TaylorWeight together, both of order inf, which takes no longer than order 1"
            )
        check_choice("tail", self.tail, TAILS)

    def check(self, gamma: float) -> None:
        """Refuse a γ above γ'."""
        check_discounts(gamma, self.gamma_prime)

    @property
    def num_heads(self) -> int:
        """Outputs of the critic."""
        return 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        """Weighted sum of the centred terms; the critic learns the λ-return at γ."""
        _, target = base_estimate(experience, gamma, lam)
        value, next_value = experience.values[0], experience.next_values[0]
        discounts = gamma, self.gamma_prime
        terms = estimators.expand_terms(
            target, next_value, *experience.ends, *discounts, self.order, tail=self.tail
        )
        c = taylor_ratio(*discounts)
        centered = [term - c**k * value for k, term in enumerate(terms)]
        stacked = namespace(terms).stack(centered)
        advantage = estimators.gradient_advantage(stacked, experience.step, *discounts)
        return Estimate(advantage, target[None])


@dataclass(frozen=True)
class TaylorCritic:
    """Critic heads that learn the terms D_0 .. D_K, so that no tail rule is needed at cuts.

    Head k is a value function at γ whose reward is (γ'−γ) D_{k−1} of the successor, and the sum
    of the heads' advantages is that of Q_K.  With a lower ``policy_order`` the same heads are
    learned, but the policy follows fewer of them: a control that tells the longer horizon from
    the auxiliary task.

    Paper: eq:primal-k-order, algo:k-adv, x:learned-terms.
    """

    gamma_prime: float = 0.999
    """Discount γ' towards which Q is expanded; at least the agent's γ, at most 1."""
    order: int = 1
    """Order K of the expansion, one head for each term; usually 1 to 3."""
    policy_order: int | None = None
    """Order of the advantage that trains the policy, 0 to order; the order itself by default."""

    def __post_init__(self) -> None:
        check_discount("gamma_prime", self.gamma_prime, one_allowed=True)
        check_order(self.order, infinite_allowed=False)
        if self.policy_order is not None and not (
            check_whole("policy_order", self.policy_order) <= self.order
        ):
            raise ValueError(
                f"policy_order={self.policy_order!r}: must be at most order={self.order!r}"
            )

    def check(self, gamma: float) -> None:
        """Refuse a γ above γ'."""
        check_discounts(gamma, self.gamma_prime)

    @property
    def num_heads(self) -> int:
        """Outputs of the critic."""
        return int(self.order) + 1

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        """Sum of the heads' advantages up to the policy's order; each head learns its λ-return."""
        lower = (self.gamma_prime - gamma) * alive(experience, experience.next_values[:-1])
        rewards = namespace(lower).concat([experience.reward[None], lower])
        same = [gamma] * self.num_heads, [lam] * self.num_heads
        advantages = head_advantages(experience, rewards, *same)
        followed = self.num_heads if self.policy_order is None else self.policy_order + 1
        if self.gamma_prime == gamma:  # the other terms are 0, whatever their heads have learned
            followed = 1
        return Estimate(advantages[:followed].sum(axis=0), advantages + experience.values)


@dataclass(frozen=True)
class TDDelta:
    """TD(Δ) of Romoff et al. (2019): one head for each difference between discounts.

    Paper: x:td-delta, fig:separating.
    """

    gammas: tuple[float, ...] = (0.68, 0.84, 0.92, 0.96, 0.98, 0.99)
    """Increasing discounts, one head each; the last one must be the agent's γ."""
    rule: str = "double_capped"
    """Choice of each head's λ: "unbiased", "capped" or "double_capped"."""

    def __post_init__(self) -> None:
        # Files give lists, which cannot be hashed.
        object.__setattr__(self, "gammas", tuple(self.gammas))
        estimators.td_delta_lambdas(self.gammas, 1.0, self.rule)

    def check(self, gamma: float) -> None:
        """Refuse a γ that is not the last discount."""
        if gamma != self.gammas[-1]:
            raise ValueError(
                f"gamma={gamma!r}: must be the last of TDDelta's gammas, {self.gammas[-1]!r}"
            )

    @property
    def num_heads(self) -> int:
        """Outputs of the critic."""
        return len(self.gammas)

    def estimate(self, experience: Experience, gamma: float, lam: float) -> Estimate:
        """GAE on the sum of the heads; each head learns its own λ-return."""
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


def head_advantages(
    experience: Experience, rewards: Array, gammas: Sequence[float], lambdas: Sequence[float]
) -> Array:
    """GAE of every head on its own reward, discount and λ, in a single scan.

        A_z(t) = r_z(t) + γ_z W_z(x_{t+1}) − W_z(x_t) + γ_z λ_z A_z(t+1)

    The reward of a head comes from the heads below it, at the true successor: for the terms of
    an expansion and for TD(Δ) alike.  λ_z may exceed 1, γ_z λ_z may not.

    Paper: x:learned-terms, x:td-delta.  Shapes: rewards (H, T, N) -> (H, T, N).
    """
    xp = namespace(rewards, experience.values)
    gamma = xp.asarray(gammas, dtype=rewards.dtype)[:, None, None]
    lam = xp.asarray(lambdas, dtype=rewards.dtype)[:, None, None]
    surprise = rewards + gamma * alive(experience, experience.next_values) - experience.values
    going = ~(experience.terminated | experience.truncated)
    decay = gamma * lam * going
    total = estimators.discounted_sum(xp.moveaxis(surprise, 1, 0), xp.moveaxis(decay, 1, 0))
    return xp.moveaxis(total, 0, 1)


def alive(experience: Experience, next_values: Array) -> Array:
    """Values of successors, 0 after a termination."""
    return namespace(next_values).where(experience.terminated, 0.0, next_values)
