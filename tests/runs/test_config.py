"""Configurations: the tables and the folders of published runs, defaults that are filled in."""

import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from gammaprime import envs
from gammaprime.agents import (
    GAE,
    PG,
    PPO,
    PRESETS,
    SAC,
    SGD,
    TD3,
    TRPO,
    CriticFit,
    DensityRatio,
    LearnedEntropy,
    TaylorCritic,
    TaylorGradient,
    TaylorQ,
    TaylorWeight,
    TDDelta,
)
from gammaprime.runs.config import KINDS, Evaluation, RunConfig, agent_from, to_table

PUBLISHED = Path(__file__).resolve().parents[2] / "results/published/runs"
FOLDERS = sorted(file.parent for file in PUBLISHED.glob("*/config.json"))


def test_published_runs__are_there():
    assert len(FOLDERS) >= 48


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_configuration_of_a_published_run__keeps_its_table_and_its_folder(folder):
    table = json.loads((folder / "config.json").read_text())
    config = RunConfig.from_table(table)
    assert config.to_table() == table
    assert config.resolve() == config
    assert config.folder == folder.name


def test_defaults__are_filled_in_so_that_equal_runs_share_a_configuration():
    implied = RunConfig(PPO(), "Hopper-v4", 1e5)
    said = RunConfig(PPO(), "Hopper-v4", 100_000, 0, Evaluation(10_000, 5, 1 - 1 / 1000))
    assert implied.resolve() == said == said.resolve()
    assert implied.folder == said.folder
    assert implied.name == "ppo-Hopper-v4-s0"
    off_policy = RunConfig(TD3(), "Hopper-v4", 1e5, evaluation=Evaluation(episodes=3)).resolve()
    assert off_policy.evaluation == Evaluation(5_000, 3, 0.999)


def test_configuration_of_the_first_runs__has_kept_its_hash():
    # Folders are named by it: a run from before must be found and resumed.
    assert RunConfig(PPO(), "Hopper-v4", 1e6).folder == "ppo-Hopper-v4-s0-0a316337f9b6"


@pytest.mark.parametrize(
    ("task", "limit", "gamma_prime"),
    [
        ("Hopper-v4", None, 1 - 1 / 1000),
        ("HopperBulletEnv-v0", None, 1 - 1 / 1000),
        ("Hopper-v4", 20, 1 - 1 / 20),
        ("CartPole-v1", None, 1 - 1 / 500),
        ({"object": "f", "time_limit": 50}, None, 1 - 1 / 50),
        ({"object": "f", "time_limit": None}, None, 0.999),
        ({"object": "f", "time_limit": 50}, 10, 1 - 1 / 10),
    ],
)
def test_discount_of_reported_returns__comes_from_the_time_limit(task, limit, gamma_prime):
    pytest.importorskip("gymnasium")
    config = RunConfig(PPO(), task, 1e6, time_limit=limit).resolve()
    assert config.evaluation.gamma_prime == gamma_prime
    assert config.time_limit == limit


@pytest.mark.parametrize(
    ("agent", "gamma_prime"),
    [
        (PPO(), 0.99),
        (PPO(advantage=TaylorQ(0.995)), 0.995),
        (PPO(weighting=TaylorWeight(0.9975)), 0.9975),
        (PPO(advantage=TaylorQ(0.995), weighting=TaylorWeight(0.9975)), 0.995),
        (TD3(weighting=DensityRatio(gamma_prime=1.0)), 0.99),
    ],
)
def test_discount_of_reported_returns__is_that_of_the_slots_where_they_have_one(agent, gamma_prime):
    config = RunConfig(agent, "Hopper-v4", steps=4096, time_limit=100)
    assert config.resolve().evaluation.gamma_prime == gamma_prime
    asked = replace(config, evaluation=Evaluation(gamma_prime=0.5))
    assert asked.resolve().evaluation.gamma_prime == 0.5


def test_own_tasks__are_resolved_without_a_simulator():
    code = (
        "import sys\n"
        "for name in ('gymnasium', 'mujoco', 'pybullet'): sys.modules[name] = None\n"
        "from gammaprime.agents import PPO\n"
        "from gammaprime.runs.config import RunConfig\n"
        "from gammaprime import envs\n"
        "for task in (*envs.MUJOCO_TASKS, *envs.BULLET_TASKS):\n"
        "    RunConfig(PPO(), task, 1e6).folder\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_time_limits__are_those_of_the_environments():
    pytest.importorskip("mujoco")
    pytest.importorskip("pybullet_envs_gymnasium")
    for task in (*envs.MUJOCO_TASKS, *envs.BULLET_TASKS, "CartPole-v1", "Pendulum-v1"):
        env = envs.make(task)
        assert envs.time_limit(task) == env.time_limit
        env.close()


def test_task_that_does_not_exist__is_refused_with_the_nearest():
    pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match="did you mean Hopper-v"):
        RunConfig(PPO(), "Hoper-v4", 1e6).resolve()
    with pytest.raises(ValueError, match="task='nowhere:X-v0'"):
        envs.time_limit("nowhere:X-v0")


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (PRESETS["ddpg"], "ddpg"),
        (PRESETS["ddpg_spinning_up"], "ddpg"),
        (replace(PRESETS["ddpg"], gamma=0.9, learning_rate=1e-2), "ddpg"),
        (TD3(num_critics=1, policy_delay=1, target_noise=0.0, learning_rate=1e-4), "ddpg"),
        (TD3(num_critics=1, policy_delay=1), "td3"),
        (TD3(num_critics=1, target_noise=0.0), "td3"),
        (TD3(policy_delay=1, target_noise=0.0), "td3"),
        (SAC(num_critics=1), "sac"),
        (PRESETS["trpo_baselines"], "trpo"),
    ],
)
def test_folder__has_the_name_of_what_is_trained_however_it_was_asked_for(agent, name):
    config = RunConfig(agent, "pkg:Hop/er-v4", 1e6, 3)
    assert config.name == f"{name}-pkg-Hop-er-v4-s3"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"agent": PPO(lam=1)}, {"agent": PPO(lam=1.0)}),
        ({"agent": PPO(anneal=1)}, {"agent": PPO(anneal=True)}),
        ({"agent": PPO(hidden=[64, 64])}, {"agent": PPO(hidden=(64, 64))}),
        ({"agent": PPO(num_steps=np.int64(2048))}, {"agent": PPO()}),
        (
            {"agent": PPO(advantage=TaylorQ(1, 2, 1, center=0))},
            {"agent": PPO(advantage=TaylorQ(1.0, 2, 1.0, center=False))},
        ),
        (
            {"agent": PPO(advantage=TaylorCritic(order=2.0))},
            {"agent": PPO(advantage=TaylorCritic(order=2))},
        ),
        ({"agent": TD3(target_noise=0)}, {"agent": TD3(target_noise=0.0)}),
        (
            {"evaluation": Evaluation(1e4, 5.0, 1)},
            {"evaluation": Evaluation(10_000, 5, 1.0)},
        ),
        ({"time_limit": np.int64(500)}, {"time_limit": 500}),
    ],
)
def test_settings_that_are_equal__have_one_folder_and_are_read_back(written, meant):
    defaults = {"agent": PPO(), "task": "Hopper-v4", "steps": 1e6}
    config, same = (RunConfig(**defaults | settings) for settings in (written, meant))
    text = json.dumps(config.to_table())
    assert text == json.dumps(same.to_table())
    assert config.folder == same.folder
    assert json.dumps(RunConfig.from_table(json.loads(text)).to_table()) == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evaluation": Evaluation(2.5)}, "every=2.5: must be an integer or none"),
        ({"agent": PPO(anneal=2)}, "anneal=2: must be true or false"),
        ({"time_limit": 0.5}, "time_limit=0.5: must be an integer or none"),
    ],
)
def test_settings_of_another_type__are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        RunConfig(**{"agent": PPO(), "task": "Hopper-v4", "steps": 1e6} | settings)


@pytest.mark.parametrize(
    ("every", "moments"), [(0, []), (64, [64, 128, 160]), (50, [64, 128, 160]), (1, [32, 64, 96])]
)
def test_evaluations__are_due_once_for_each_interval_and_at_the_end(every, moments):
    evaluation = Evaluation(every)
    due = [now for now in range(32, 161, 32) if evaluation.is_due(now - 32, now, now == 160)]
    assert due[: len(moments)] == moments
    assert every == 1 or due == moments


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 10}, "steps=10: must be at least one rollout, num_envs\\*num_steps=2048"),
        ({"steps": 4096.5}, "steps=4096.5: must be a whole number"),
        ({"steps": math.inf}, "steps=inf: must be a whole number"),
        ({"seed": -1}, "seed=-1: must be an integer >= 0"),
        ({"evaluation": {"every": -1}}, "every=-1"),
        ({"evaluation": {"episodes": 0}}, "episodes=0"),
        ({"evaluation": {"gamma_prime": 1.5}}, "gamma_prime=1.5"),
    ],
)
def test_settings_that_make_no_sense__are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        RunConfig(
            PPO(),
            "Hopper-v4",
            settings.get("steps", 1e6),
            settings.get("seed", 0),
            Evaluation(**settings.get("evaluation", {})),
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.update(kind="toy"), "is not the configuration of a training run"),
        (lambda table: table["settings"].pop("seed"), "is not the configuration of a training run"),
        (lambda table: table["settings"]["agent"].update(gama=1), "did you mean 'gamma'?"),
        (lambda table: table["settings"]["protocol"].update(tim_limit=1), "mean 'time_limit'?"),
        (lambda table: table["settings"]["protocol"].update(stagger=1), "must be true or false"),
        (lambda table: table["settings"]["protocol"].update(eval_every="x"), "every='x'"),
    ],
)
def test_table_that_is_no_configuration__is_refused(change, message):
    table = RunConfig(PPO(), "Hopper-v4", 1e6).to_table()
    change(table)
    with pytest.raises(ValueError, match=message):
        RunConfig.from_table(table)


VARIED = [
    PPO(),
    PPO(advantage=TaylorQ(order=math.inf, lookahead=None), value_clip=None),
    PPO(weighting=TaylorWeight(order=3, normalise=True), hidden=()),
    TRPO(advantage=TaylorGradient(order=2), critic=CriticFit(epochs=3)),
    PG(optimiser=SGD(learning_rate=1), advantage=TDDelta()),
    TD3(weighting=DensityRatio(learning_rate=1e-4, scale="paper"), hidden=(8,)),
    SAC(entropy=LearnedEntropy(), weighting=DensityRatio(gamma_prime=0.999)),
    *PRESETS.values(),
]


@pytest.mark.parametrize("agent", VARIED, ids=range(len(VARIED)))
def test_agent__survives_json(agent):
    text = json.dumps(to_table(agent), allow_nan=False)
    assert agent_from(json.loads(text)) == agent


def test_every_kind__is_its_own():
    assert list(KINDS) == ["ppo", "trpo", "pg", "td3", "sac"]
    for kind, cls in KINDS.items():
        assert to_table(cls())["kind"] == kind


def test_presets__are_the_defaults_and_more():
    assert {kind: cls() for kind, cls in KINDS.items()}.items() <= PRESETS.items()
    more = {name: PRESETS[name] for name in PRESETS if name not in KINDS}
    assert {name: to_table(agent)["kind"] for name, agent in more.items()} == {
        "trpo_baselines": "trpo",
        "ddpg": "td3",
        "ddpg_spinning_up": "td3",
        "ppo_cartpole": "ppo",
        "ppo_pendulum": "ppo",
        "ppo_acrobot": "ppo",
    }


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


@dataclass(frozen=True)
class OwnWeight(TaylorWeight):
    """A slot of a user."""

    sharpness: float = 1.0


def test_slot_of_a_user__is_found_by_its_module_and_class(monkeypatch):
    monkeypatch.setitem(sys.modules, OwnWeight.__module__, sys.modules[__name__])
    agent = PPO(weighting=OwnWeight(gamma_prime=0.999, sharpness=2.0))
    table = to_table(agent)
    assert table["weighting"]["kind"] == f"{__name__}:OwnWeight"
    assert agent_from(json.loads(json.dumps(table))) == agent


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("weighting", "nowhere:Slot", "must be an importable module:Class"),
        ("weighting", "json:Slot", "must be an importable module:Class"),
        ("weighting", "subprocess:Popen", "must be a dataclass"),
        ("agent", "json:JSONDecoder", "must be a dataclass"),
        ("agent", "gammaprime.agents:GAE", "must be a subclass of an agent, such as PPO"),
    ],
)
def test_slot_that_is_none__is_refused(key, kind, message):
    table = {"kind": kind} if key == "agent" else {"kind": "ppo", key: {"kind": kind, "args": "x"}}
    with pytest.raises(ValueError, match=message):
        agent_from(table)
