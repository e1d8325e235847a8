"""Estimates from sampled trajectories, as NumPy, JAX or torch arrays.

Time is axis 0 and anything may follow it.  Past a row that is ``terminated`` everything is 0, past
one that is ``truncated`` the value of the true successor is used; terminated wins over truncated.
"""

from gammaprime.estimators.advantages import expand_advantage, gradient_advantage, mix
from gammaprime.estimators.backend import discounted_sum
from gammaprime.estimators.delta_heads import (
    TDDelta,
    td_delta,
    td_delta_lambdas,
    td_delta_rewards,
)
from gammaprime.estimators.expansions import (
    OrderCurve,
    expand,
    expand_terms,
    order_curve,
    survival_rate,
    tail_share,
)
from gammaprime.estimators.returns import discounted_return, gae, lambda_return
from gammaprime.estimators.weights import (
    effective_horizon,
    log_update_weights,
    update_weights,
    value_weights,
)
from gammaprime.estimators.windows import expand_random, expand_window, sample_jumps

__all__ = [
    "OrderCurve",
    "TDDelta",
    "discounted_return",
    "discounted_sum",
    "effective_horizon",
    "expand",
    "expand_advantage",
    "expand_random",
    "expand_terms",
    "expand_window",
    "gae",
    "gradient_advantage",
    "lambda_return",
    "log_update_weights",
    "mix",
    "order_curve",
    "sample_jumps",
    "survival_rate",
    "tail_share",
    "td_delta",
    "td_delta_lambdas",
    "td_delta_rewards",
    "update_weights",
    "value_weights",
]
