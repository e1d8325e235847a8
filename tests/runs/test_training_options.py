"""Agents as tables and back, defaults that are spelt out, options that make no sense."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from gammaprime.agents import (
    GAE,
    PG,
    PPO,
    SAC,
    SGD,
    TD3,
    TRPO,
    CriticFit,
    DensityRatio,
    LearnedEntropy,
    TaylorGradient,
    TaylorQ,
    TaylorWeight,
    TDDelta,
)
from gammaprime.networks import Actor, Layer
from gammaprime.runs.options import AGENTS, KINDS, Protocol, Upkeep, agent_from, agent_table
from gammaprime.runs.setup import Setup
from gammaprime.runs.store import run_path

VARIED = [
    PPO(),
    PPO(advantage=TaylorQ(order=math.inf, lookahead=None), value_clip=None),
    PPO(weighting=TaylorWeight(order=3, normalise=True), hidden=()),
    TRPO(advantage=TaylorGradient(order=2), critic=CriticFit(epochs=3)),
    PG(optimiser=SGD(learning_rate=1), advantage=TDDelta()),
    TD3(weighting=DensityRatio(learning_rate=1e-4, scale="paper"), hidden=(8,)),
    SAC(entropy=LearnedEntropy(), weighting=DensityRatio(gamma_prime=0.999)),
    *AGENTS.values(),
]


@pytest.mark.parametrize("agent", VARIED, ids=range(len(VARIED)))
def test_agent__survives_json(agent):
    text = json.dumps(agent_table(agent), allow_nan=False)
    assert agent_from(json.loads(text)) == agent


def test_every_kind__is_its_own():
    assert list(KINDS) == ["ppo", "trpo", "pg", "td3", "sac"]
    for kind, cls in KINDS.items():
        assert agent_table(cls())["kind"] == kind


def test_agents_of_the_command_line__are_the_defaults_and_the_presets():
    assert {kind: cls() for kind, cls in KINDS.items()}.items() <= AGENTS.items()
    presets = [name for name in AGENTS if name not in KINDS]
    assert presets == ["trpo_baselines", "ddpg", "ddpg_spinning_up"]


def test_table__names_only_what_differs():
    assert agent_from({"kind": "ppo"}) == PPO()
    table = {"kind": "ppo", "gamma": 0, "advantage": {"kind": "taylor_q", "order": 2}}
    assert agent_from(table) == PPO(gamma=0.0, advantage=TaylorQ(order=2))
    assert agent_from({"kind": "pg", "advantage": "gae"}) == PG(advantage=GAE())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "pp"}, "unknown kind of agent 'pp': did you mean 'ppo'?"),
        ({"kind": "ppo", "gama": 0.9}, "unknown key 'gama': did you mean 'gamma'?"),
        ({"kind": "ppo", "gamma": "high"}, "gamma='high': must be a number"),
        ({"kind": "ppo", "gamma": True}, "gamma=True: must be a number"),
        ({"kind": "ppo", "epochs": 1.5}, "epochs=1.5: must be an integer"),
        ({"kind": "ppo", "epochs": None}, "epochs=None: must be an integer"),
        ({"kind": "ppo", "value_clip": "x"}, "value_clip='x': must be a number or none"),
        ({"kind": "ppo", "hidden": [8, "x"]}, r"hidden[1]='x': must be an integer"),
        ({"kind": "ppo", "advantage": {"kind": "taylor"}}, "unknown kind of advantage 'taylor'"),
        ({"kind": "ppo", "advantage": {"order": 1}}, "must be a table with a kind: gae"),
        ({"kind": "ppo", "advantage": {"kind": "taylor_q", "odrer": 1}}, "mean 'order'?"),
        ({"gamma": 0.9}, "must be a table with a kind: ppo, trpo, pg, td3, sac"),
        ({"kind": "ppo", "gamma": 1.5}, "gamma=1.5: must lie in"),
    ],
)
def test_table_that_makes_no_sense__is_refused_by_name(table, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        agent_from(table)


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (Protocol, {"eval_every": -1}, "eval_every=-1"),
        (Protocol, {"eval_episodes": 0}, "eval_episodes=0"),
        (Protocol, {"eval_gamma_prime": 1.5}, "eval_gamma_prime=1.5"),
        (Upkeep, {"checkpoint_seconds": -1.0}, "checkpoint_seconds=-1.0"),
        (Upkeep, {"checkpoint_seconds": math.nan}, "checkpoint_seconds=nan"),
    ],
)
def test_options_that_make_no_sense__are_refused(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(**options)


def test_defaults__are_spelt_out_so_that_equal_runs_share_a_configuration():
    pytest.importorskip("mujoco")
    implied = Setup(PPO(), "Hopper-v4", 1e5, 0, Protocol())
    said = Setup(
        PPO(), "Hopper-v4", 100_000, 0, Protocol(None, True, False, 10_000, 5, 1 - 1 / 1000)
    )
    assert implied.config == said.config
    assert implied.config["settings"]["protocol"]["eval_episodes"] == 5
    assert implied.name == "ppo-Hopper-v4-s0"


def test_configuration_of_the_first_runs__has_kept_its_hash():
    # Folders are named by it: a run from before must be found and resumed.
    pytest.importorskip("mujoco")
    setup = Setup(PPO(), "Hopper-v4", 1e6, 0, Protocol())
    assert run_path(Path(), setup.name, setup.config).name == "ppo-Hopper-v4-s0-0a316337f9b6"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (AGENTS["ddpg"], "ddpg"),
        (AGENTS["ddpg_spinning_up"], "ddpg"),
        (replace(AGENTS["ddpg"], gamma=0.9, learning_rate=1e-2), "ddpg"),
        (TD3(num_critics=1, policy_delay=1, target_noise=0.0, learning_rate=1e-4), "ddpg"),
        (TD3(num_critics=1, policy_delay=1), "td3"),
        (TD3(num_critics=1, target_noise=0.0), "td3"),
        (TD3(policy_delay=1, target_noise=0.0), "td3"),
        (SAC(num_critics=1), "sac"),
        (AGENTS["trpo_baselines"], "trpo"),
    ],
)
def test_folder__has_the_name_of_what_is_trained_however_it_was_asked_for(agent, name):
    pytest.importorskip("mujoco")
    setup = Setup(agent, "Hopper-v4", 1e6, 3, Protocol())
    assert setup.name == f"{name}-Hopper-v4-s3"
    setup.close()


@pytest.mark.parametrize(
    ("every", "moments"), [(0, []), (64, [64, 128, 160]), (50, [64, 128, 160]), (1, [32, 64, 96])]
)
def test_evaluations__are_due_once_for_each_interval_and_at_the_end(every, moments):
    pytest.importorskip("mujoco")
    agent = PPO(num_envs=1, num_steps=32)
    setup = Setup(agent, "Hopper-v4", 160, 0, Protocol(eval_every=every))
    due = [now for now in range(32, 161, 32) if setup.is_due(now - 32, now, now == 160)]
    assert due[: len(moments)] == moments
    assert every == 1 or due == moments


def test_each_evaluation__has_seeds_of_its_own_and_needs_no_memory():
    pytest.importorskip("mujoco")
    agent = PPO(num_envs=1, num_steps=32)
    zero = Layer(np.zeros((11, 3), np.float32), np.zeros(3, np.float32))
    actor = Actor((zero,), np.zeros(3, np.float32), None, "tanh")
    protocol = Protocol(eval_episodes=2, time_limit=10)
    first, other = (Setup(agent, "Hopper-v4", 160, seed, protocol) for seed in (0, 1))
    at_32, at_64, again = (first.evaluate(actor, step) for step in (32, 64, 32))
    assert at_32 == again != at_64
    assert other.evaluate(actor, 32) != at_32
    assert at_32[0] != at_32[1]
