"""Discounts, sizes and slots that the tests of all trainers share."""

import math

from gammaprime.agents import TaylorQ, TaylorWeight

NUM_STEPS, NUM_ENVS = 16, 3
GAMMA, LAM = 0.8, 0.9
ONES = TaylorWeight(1.0, math.inf)
PLAIN = [TaylorQ(0.99, order=0), TaylorQ(0.99, order=2, eta=0.0), TaylorQ(GAMMA, order=2)]
"""Expansions that change nothing."""
EXPANSIONS = [
    TaylorQ(0.97, order=1),
    TaylorQ(0.97, order=3, eta=0.5, center=False),
    TaylorQ(0.97, order=math.inf),
    TaylorQ(1.0, order=3),
    TaylorQ(1.0, order=math.inf, tail="zero", center=False),
]
