"""Agents, slots and stored policies need NumPy alone until something is learned."""

import subprocess
import sys

import pytest

from gammaprime import lazy

USE = """
import sys
import numpy as np
import gammaprime.networks
from gammaprime.agents import PRESETS, DensityRatio, PPO, TaylorQ, TaylorWeight, TD3
from gammaprime.agents.advantages import Experience

for agent in PRESETS.values():
    assert type(agent)(**vars(agent)) == agent
TD3(weighting=DensityRatio())
PPO(advantage=TaylorQ(), weighting=TaylorWeight())
row, never = np.ones((4, 2)), np.zeros((4, 2), bool)
experience = Experience(row, row[None], row[None], never, never, np.arange(8).reshape(4, 2))
estimate = TaylorQ(0.999).estimate(experience, 0.99, 0.95)
weight = TaylorWeight(0.999).weights(experience.step, 0.99)
assert type(estimate.advantage) is type(weight) is np.ndarray
print(sorted({"jax", "jaxlib", "optax", "gymnasium", "torch"} & set(sys.modules)))
"""


def test_agents_and_slots__leave_jax_out_of_the_process():
    run = [sys.executable, "-W", "error", "-c", USE]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_lazy_modules__are_the_modules_themselves():
    import jax
    import jax.numpy as jnp
    import optax

    assert lazy.jax.lax is jax.lax
    assert lazy.jnp.tanh is jnp.tanh
    assert lazy.optax.adam is optax.adam
    with pytest.raises(AttributeError, match=r"jax\.numpy has no attribute 'tanhh'"):
        _ = lazy.jnp.tanhh


def test_jit__compiles_once_for_each_static_value():
    traced = []

    @lazy.jit(static_argnames=("power",))
    def raised(x, power):
        traced.append(power)
        return x**power

    assert [float(raised(3.0, power)) for power in (2, 3, 2)] == [9.0, 27.0, 9.0]
    assert traced == [2, 3]
