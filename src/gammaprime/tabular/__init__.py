"""Exact expansions on finite MDPs by float64 linear algebra, dense and sparse."""

from gammaprime.tabular.gradients import (
    expand_gradient,
    expand_partial,
    first_partial,
    policy_gradient,
    second_partial,
)
from gammaprime.tabular.mdp import MDP, chain, random_mdp
from gammaprime.tabular.phased import PhasedTDBound, phased_td_bound, phased_td_estimate
from gammaprime.tabular.resolvent import NotConvergedError
from gammaprime.tabular.values import (
    error_bound,
    expand_q,
    expand_value,
    residual,
    solve_q,
    solve_value,
    value_terms,
)
from gammaprime.tabular.visitations import (
    expand_mixture,
    expand_visitation,
    mixture,
    visitation,
)

__all__ = [
    "MDP",
    "NotConvergedError",
    "PhasedTDBound",
    "chain",
    "error_bound",
    "expand_gradient",
    "expand_mixture",
    "expand_partial",
    "expand_q",
    "expand_value",
    "expand_visitation",
    "first_partial",
    "mixture",
    "phased_td_bound",
    "phased_td_estimate",
    "policy_gradient",
    "random_mdp",
    "residual",
    "second_partial",
    "solve_q",
    "solve_value",
    "value_terms",
    "visitation",
]
