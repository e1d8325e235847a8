"""The sampled room: trajectories in, estimates out, as NumPy, JAX or torch arrays.

Time is axis 0 and anything may follow it.  ``terminated`` ends in zeros, ``truncated`` in the
value of the true successor; where both are set, terminated wins.
"""

from gammaprime.estimators.advantages import (
    gradient_advantage,
    mix,
    taylor_advantage,
    taylor_baseline,
)
from gammaprime.estimators.backend import discounted_sum
from gammaprime.estimators.curve import OrderCurve, order_curve
from gammaprime.estimators.delta_heads import (
    TDDelta,
    td_delta,
    td_delta_lambdas,
    td_delta_rewards,
)
from gammaprime.estimators.expansions import expand, expand_terms
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
    "taylor_advantage",
    "taylor_baseline",
    "td_delta",
    "td_delta_lambdas",
    "td_delta_rewards",
    "update_weights",
    "value_weights",
]
