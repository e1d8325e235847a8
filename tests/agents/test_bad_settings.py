"""Settings are true from birth: what cannot work is refused where it is made, by name."""

import dataclasses
import math

import pytest

from gammaprime.agents import (
    GAE,
    PG,
    PPO,
    SGD,
    TRPO,
    Adam,
    AveragedWeight,
    CriticFit,
    TaylorCritic,
    TaylorGradient,
    TaylorQ,
    TaylorWeight,
    TDDelta,
)

WRONG = [
    (TaylorQ, {"tail": "none"}, r"tail='none': must be one of 'zero', 'constant', 'survival'"),
    (TaylorQ, {"lookahead": 0}, r"lookahead=0: must be an integer >= 1"),
    (TaylorQ, {"eta": 1.5}, r"eta=1.5: must lie in \[0, 1\]"),
    (TaylorQ, {"eta": math.nan}, r"eta=nan"),
    (TaylorQ, {"gamma_prime": 1.01}, r"gamma_prime=1.01: must lie in \[0, 1\]"),
    (TaylorQ, {"order": -1}, r"order=-1"),
    (TaylorQ, {"order": math.inf, "lookahead": 10}, r"order=inf: must be finite"),
    (
        TaylorQ,
        {"order": math.inf, "gamma_prime": 1.0},
        r"tail='survival': must be 'zero'",
    ),
    (
        TaylorQ,
        {"order": math.inf, "gamma_prime": 1.0, "tail": "zero"},
        r"center=True: must be False",
    ),
    (TaylorGradient, {"order": math.inf}, r"order=inf: must be at most 30"),
    (TaylorGradient, {"order": 31}, r"order=31: must be at most 30"),
    (TaylorGradient, {"tail": "learned"}, r"tail='learned'"),
    (TaylorGradient, {"gamma_prime": -0.1}, r"gamma_prime=-0.1"),
    (TaylorCritic, {"order": 1.5}, r"order=1.5"),
    (TaylorCritic, {"gamma_prime": 2.0}, r"gamma_prime=2.0"),
    (TaylorCritic, {"policy_order": 2}, r"policy_order=2: must be at most order=1"),
    (TaylorCritic, {"policy_order": -1}, r"policy_order=-1: must be an integer >= 0"),
    (AveragedWeight, {"gamma_prime": 1.5}, r"gamma_prime=1.5"),
    (AveragedWeight, {"order": -2}, r"order=-2"),
    (AveragedWeight, {"hidden": (0,)}, r"hidden\[0\]=0: must be an integer >= 1"),
    (AveragedWeight, {"learning_rate": 0.0}, r"learning_rate=0.0"),
    (AveragedWeight, {"gradient_steps": 0}, r"gradient_steps=0"),
    (
        PPO,
        {"advantage": TaylorGradient(), "weighting": AveragedWeight()},
        r"weighting=AveragedWeight: must be Uniform",
    ),
    (TaylorWeight, {"order": -2}, r"order=-2"),
    (TaylorWeight, {"gamma_prime": "x"}, r"gamma_prime='x'"),
    (TDDelta, {"rule": "triple"}, r"rule='triple': must be one of 'unbiased'"),
    (TDDelta, {"gammas": (0.9, 0.8)}, r"gammas=\(0.9, 0.8\): must .* increase"),
    (TDDelta, {"gammas": ()}, r"gammas=\(\)"),
    (TDDelta, {"gammas": (0.0, 0.9)}, r"gammas\[0\]=0.0: must be positive"),
    (CriticFit, {"learning_rate": 0.0}, r"learning_rate=0.0: must be finite and > 0"),
    (CriticFit, {"epochs": 0}, r"epochs=0"),
    (CriticFit, {"minibatches": 2.5}, r"minibatches=2.5"),
    (SGD, {"learning_rate": -1.0}, r"learning_rate=-1.0"),
    (Adam, {"learning_rate": math.inf}, r"learning_rate=inf"),
    (PPO, {"gamma": 1.1}, r"gamma=1.1"),
    (PPO, {"gamma": 0.9995, "advantage": TaylorQ()}, r"gamma_prime=0.999: must lie in \[gamma"),
    (PPO, {"gamma": 1.0, "weighting": TaylorWeight(1.0)}, r"gamma=1.0: must lie in \[0, 1\)"),
    (PPO, {"gamma": 0.9995, "weighting": TaylorWeight()}, r"gamma_prime=0.999"),
    (PPO, {"gamma": 0.9995, "advantage": TaylorGradient()}, r"gamma_prime=0.999"),
    (PPO, {"gamma": 0.9995, "advantage": TaylorCritic()}, r"gamma_prime=0.999"),
    (PPO, {"gamma": 0.9, "advantage": TDDelta()}, r"gamma=0.9: must be the last"),
    (PPO, {"advantage": "gae"}, r"advantage='gae': must be one of GAE, TaylorQ, TaylorGradient"),
    (PPO, {"weighting": GAE()}, r"weighting=GAE\(\): must be one of Uniform, TaylorWeight"),
    (
        PPO,
        {"advantage": TaylorGradient(), "weighting": TaylorWeight()},
        r"weighting=TaylorWeight: must be Uniform",
    ),
    (PPO, {"lam": 1.2}, r"lam=1.2: must lie in \[0, 1\]"),
    (PPO, {"num_envs": 0}, r"num_envs=0"),
    (PPO, {"num_steps": 12.5}, r"num_steps=12.5"),
    (PPO, {"hidden": (64, 0)}, r"hidden\[1\]=0: must be an integer >= 1"),
    (PPO, {"hidden": 64}, r"hidden=64"),
    (PPO, {"initial_log_std": math.nan}, r"initial_log_std=nan: must be a finite number"),
    (PPO, {"obs_limit": 0.0}, r"obs_limit=0.0"),
    (PPO, {"reward_limit": -1.0}, r"reward_limit=-1.0"),
    (PPO, {"return_discount": 1.0}, r"return_discount=1.0: must lie in \[0, 1\)"),
    (PPO, {"epochs": 0}, r"epochs=0"),
    (PPO, {"minibatches": 0}, r"minibatches=0"),
    (PPO, {"advantage": TaylorQ}, r"advantage=TaylorQ: must be an object, TaylorQ\(\)"),
    (PPO, {"weighting": TaylorWeight}, r"weighting=TaylorWeight: must be an object"),
    (PPO, {"learning_rate": 10**400}, r"learning_rate=1000.*: must be a finite number"),
    (PPO, {"num_steps": 32}, r"minibatches=32: must leave each of them 2 or more of the .*=32 sa"),
    (PPO, {"minibatches": 30}, r"minibatches=30: must divide num_envs\*num_steps=2048"),
    (PPO, {"learning_rate": math.nan}, r"learning_rate=nan"),
    (PPO, {"clip_eps": 0.0}, r"clip_eps=0.0"),
    (PPO, {"value_clip": -0.2}, r"value_clip=-0.2"),
    (PPO, {"value_coef": -1.0}, r"value_coef=-1.0: must be finite and >= 0"),
    (PPO, {"entropy_coef": -1.0}, r"entropy_coef=-1.0"),
    (PPO, {"max_grad_norm": 0.0}, r"max_grad_norm=0.0"),
    (PPO, {"adam_eps": "small"}, r"adam_eps='small'"),
    (TRPO, {"max_kl": 0.0}, r"max_kl=0.0"),
    (TRPO, {"damping": -0.1}, r"damping=-0.1: must be finite and >= 0"),
    (TRPO, {"cg_iterations": 0}, r"cg_iterations=0"),
    (TRPO, {"backtrack_ratio": 1.0}, r"backtrack_ratio=1.0: must lie in \(0, 1\)"),
    (TRPO, {"backtracks": 0}, r"backtracks=0"),
    (TRPO, {"critic": CriticFit(minibatches=3)}, r"minibatches=3: must divide .*=4000"),
    (PG, {"optimiser": "sgd"}, r"optimiser='sgd': must be SGD or Adam"),
    (PG, {"critic": CriticFit(minibatches=3)}, r"minibatches=3: must divide .*=2048"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), WRONG)
def test_settings__that_cannot_work_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)


RIGHT = [
    PPO(gamma=1.0),
    PPO(hidden=[32], advantage=TDDelta(gammas=[0.9, 0.99])),
    PPO(advantage=TaylorQ(1.0, math.inf, tail="zero", center=False)),
    PPO(advantage=TaylorQ(0.99, 0), weighting=TaylorWeight(1.0, math.inf)),
    PPO(value_clip=None, hidden=()),
    TRPO(advantage=TaylorCritic(1.0, 3), damping=0.0),
    PG(optimiser=SGD(0.1), lam=0.0),
]


@pytest.mark.parametrize("agent", RIGHT, ids=str)
def test_agents__are_values_that_can_be_told_apart(agent):
    """Equal if their settings are, hashable, and never changed: what compiled code is keyed by."""
    twin = dataclasses.replace(agent)
    assert twin == agent
    assert hash(twin) == hash(agent)
    assert dataclasses.replace(agent, num_envs=7 * 32 * agent.num_envs) != agent
    with pytest.raises(dataclasses.FrozenInstanceError):
        agent.gamma = 0.5
