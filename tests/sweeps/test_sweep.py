"""Sweeps: what ships is what the paper ran, and what is wrong is told by name."""

import math
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.agents import GAE, TRPO, TaylorQ, TaylorWeight, TDDelta, Uniform
from gammaprime.runs.options import AGENTS, KINDS, Protocol
from gammaprime.runs.setup import Setup
from gammaprime.runs.store import run_path
from gammaprime.sweeps import spec
from gammaprime.sweeps import sweep as sweep_module
from gammaprime.sweeps.sweep import OF_VARIANT, Sweep

GYM = ("HalfCheetah-v4", "Ant-v4", "Walker2d-v4")
SIX = (*GYM, "HalfCheetahBulletEnv-v0", "AntBulletEnv-v0", "Walker2DBulletEnv-v0")
FOUR = ("Ant-v4", "HalfCheetah-v4", "Walker2d-v4", "Hopper-v4")
PAPERS_Q = TaylorQ(gamma_prime=0.999, order=1, eta=0.01, lookahead=10)

SMALL = """
title = "two variants"
base = { kind = "ppo", num_steps = 64, minibatches = 4 }
tasks = ["Hopper-v4", "Swimmer-v4"]
seeds = [0, 1, 2]
steps = 1e3
protocol = { eval_episodes = 2 }
[[variants]]
name = "PPO"
[[variants]]
name = "PPO(K)"
advantage = { kind = "taylor_q", order = inf, lookahead = "none" }
[[variants]]
name = "TRPO"
base = "trpo_baselines"
tasks = ["Hopper-v4"]
steps = 4_096
protocol = { time_feature = true }
hidden = [16]
[figure]
kind = "curves"
"""


def parse(old="", new=""):
    assert old in SMALL
    return spec.parse(SMALL.replace(old, new, 1), "mine", where="mine.toml")


def agents(name):
    return {variant.name: variant.agent for variant in spec.load(name).variants}


def needs_bullet():
    pytest.importorskip("pybullet_envs_gymnasium")


SHIPPED = {
    # runs, tasks, seeds, steps
    "fig_onpolicy": (120, SIX, 5, 1_000_000),
    "fig_onpolicy_state": (90, SIX, 5, 1_000_000),
    "fig_ablation": (390, SIX, 5, 1_000_000),
    "fig_separating": (15, ("Walker2d-v4",), 5, 1_000_000),
    "fig_td3": (80, FOUR, 5, 1_000_000),
    "fig_sac": (60, FOUR, 5, 1_000_000),
    "table_td3": (120, FOUR, 5, 1_000_000),
    "ours": (117, GYM, 3, 1_000_000),
    "learning_onpolicy": (30, ("HalfCheetah-v4", "Walker2d-v4", "Hopper-v4"), 5, 1_000_000),
    "learning_offpolicy": (18, ("HalfCheetah-v4", "Hopper-v4"), 3, 300_000),
    "demo": (6, ("Hopper-v4",), 2, 200_000),
    "smoke": (4, ("Hopper-v4",), 2, 2_560),
}


def test_every_sweep_that_ships__is_checked_here():
    sweeps = {name for name in spec.shipped() if isinstance(spec.load(name), Sweep)}
    assert sweeps == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sweep__has_its_runs_tasks_seeds_and_steps(name):
    if any("Bullet" in task for variant in spec.load(name).variants for task in variant.tasks):
        needs_bullet()
    sweep, (number, tasks, seeds, steps) = spec.load(name), SHIPPED[name]
    runs = sweep.runs()
    assert len(runs) == len({run.path(Path()) for run in runs}) == number
    assert sweep.tasks == tasks
    first = 100 if name == "ours" else 0  # a round that chooses, on seeds of its own
    assert sweep.seeds == tuple(range(first, first + seeds))
    assert sweep.steps == steps
    assert {run.config["settings"]["protocol"]["eval_gamma_prime"] for run in runs} <= {0.999, 0.99}
    assert all(label in LABELS for label in sweep.paper)


LABELS = (Path(__file__).parents[2] / "docs/paper/labels.toml").read_text()


@pytest.mark.paper("fig:onpolicy")
def test_fig_onpolicy__is_the_papers():
    found = agents("fig_onpolicy")
    assert list(found) == ["PPO", "PPO 0.999", "TRPO", "PPO(K)"]
    assert [agent.gamma for agent in found.values()] == [0.99, 0.999, 0.99, 0.99]
    assert [agent.advantage for agent in found.values()] == [GAE(), GAE(), GAE(), PAPERS_Q]
    assert found["TRPO"] == TRPO()
    for name in ("PPO", "PPO 0.999", "PPO(K)"):
        agent = found[name]
        assert agent.weighting == Uniform()
        assert (agent.num_envs, agent.num_steps, agent.hidden) == (1, 2048, (64, 64))
        assert (agent.lam, agent.clip_eps, agent.learning_rate) == (0.95, 0.2, 3e-4)


@pytest.mark.paper("fig:onpolicy-state")
@pytest.mark.errata("S20")
def test_fig_onpolicy_state__is_the_papers():
    variants = {variant.name: variant for variant in spec.load("fig_onpolicy_state").variants}
    assert list(variants) == ["PPO", "PPO + time", "PPO(K)"]
    assert [v.protocol.time_feature for v in variants.values()] == [False, True, False]
    assert variants["PPO + time"].agent == variants["PPO"].agent == AGENTS["ppo"]
    weighted = variants["PPO(K)"].agent
    assert weighted.weighting == TaylorWeight(gamma_prime=0.999, order=100, normalise=False)
    assert weighted.advantage == GAE()


@pytest.mark.paper("fig:ablation")
@pytest.mark.errata("S22")
def test_fig_ablation__varies_eta_and_order_alone():
    sweep, found = spec.load("fig_ablation"), agents("fig_ablation")
    by_eta, by_order = sweep.figure["panels"]
    assert by_eta["values"] == [0, 0.01, 0.015, 0.02, 0.025, 0.03]
    assert by_order["values"] == [0, 1, 5, 10, 20, 100, math.inf]
    # η = 0 is plain PPO, bit for bit, and is not trained twice.
    assert by_eta["variants"][0] == "PPO"
    for eta, name in zip(by_eta["values"][1:], by_eta["variants"][1:], strict=True):
        assert found[name].advantage == TaylorQ(0.999, 1, eta, 10)
    for order, name in zip(by_order["values"], by_order["variants"], strict=True):
        assert found[name].weighting == TaylorWeight(0.999, order)
        assert found[name].advantage == GAE()


def test_figures_that_ask_for_the_same_run__share_its_folder():
    needs_bullet()
    folders = {name: {r.path(Path()) for r in spec.load(name).runs()} for name in SHIPPED}
    assert len(folders["fig_ablation"] & folders["fig_onpolicy"]) == 60  # PPO, η = 0.01
    assert len(folders["fig_ablation"] & folders["fig_onpolicy_state"]) == 60  # PPO, K = 100
    assert folders["table_td3"] >= folders["fig_sac"]
    assert len(folders["table_td3"] & folders["fig_td3"]) == 60  # all but PPO


@pytest.mark.paper("fig:separating")
def test_fig_separating__ends_at_both_discounts():
    found = agents("fig_separating")
    for name, last, heads in (("TD(Δ)", 0.99, 6), ("TD(Δ) 0.999", 0.999, 9)):
        slot = found[name].advantage
        assert isinstance(slot, TDDelta)
        assert slot.gammas[-1] == found[name].gamma == last
        assert len(slot.gammas) == heads
        reach = [1 / (1 - gamma) for gamma in slot.gammas]
        ratios = [after / before for before, after in pairwise(reach)]
        assert ratios == pytest.approx([2.0] * (heads - 1))
        assert found[name].hidden == (64, 64)


@pytest.mark.paper("fig:td3", "fig:sac", "table:td3")
def test_off_policy_sweeps__weigh_by_the_density_ratio_and_nothing_else():
    for name, plain, kind in (("fig_td3", "TD3", "td3"), ("fig_sac", "SAC", "sac")):
        found = agents(name)
        assert found[plain] == AGENTS[kind]
        slot = found[f"{plain}(γ)"].weighting
        assert type(slot).__name__ == "DensityRatio"
        assert slot.inverse_temperature == 0.1
        assert found["DDPG"] == AGENTS["ddpg"]
        for run in spec.load(name).runs():
            assert (run.replay_bytes > 0) == ("replay_size" in run.config["settings"]["agent"])
            protocol = run.config["settings"]["protocol"]
            assert (protocol["eval_every"], protocol["eval_episodes"]) == (5_000, 10)
    table = agents("table_td3")
    assert table["DDPG-v1"] == AGENTS["ddpg_spinning_up"]
    assert table["DDPG-v2"].learning_rate == 1e-4
    assert spec.load("table_td3").figure["last"] == 10
    assert spec.load("table_td3").figure["spread"] == 0.5


def test_learning_checks__have_the_lengths_that_are_asked_for():
    needs_bullet()
    asked = {(r.variant, r.task): r.steps for r in spec.load("learning_onpolicy").runs()}
    assert asked == {
        ("PPO", "HalfCheetah-v4"): 1_000_000,
        ("PPO", "Walker2d-v4"): 1_000_000,
        ("PPO", "Hopper-v4"): 1_000_000,
        ("TRPO", "HalfCheetah-v4"): 1_000_000,
        ("TRPO", "Hopper-v4"): 1_000_000,
        ("PPO, PyBullet", "HalfCheetahBulletEnv-v0"): 500_000,
    }
    assert agents("learning_onpolicy")["TRPO"].normalise_obs
    assert {(a.num_envs, a.num_steps) for a in agents("learning_onpolicy").values()} == {(1, 2048)}
    asked = {(r.variant, r.task) for r in spec.load("learning_offpolicy").runs()}
    assert asked == {(v, "HalfCheetah-v4") for v in ("TD3", "TD3(γ)", "SAC", "SAC(γ)")} | {
        (v, "Hopper-v4") for v in ("TD3", "TD3(γ)")
    }


def test_run_of_a_sweep__is_the_run_that_train_would_make():
    for planned in parse().runs():
        variant = next(v for v in parse().variants if v.name == planned.variant)
        numbers = (planned.task, variant.steps, planned.seed, variant.protocol)
        setup = Setup(variant.agent, *numbers)
        assert planned.path(Path("r")) == run_path(Path("r"), setup.name, setup.config)
        assert planned.steps == setup.steps
        setup.close()


def missing(*tasks):
    """`Setup` where these tasks have no simulator."""

    def make(agent, task, *rest):
        if task in tasks:
            raise ImportError(task)
        return Setup(agent, task, *rest)

    return make


@pytest.mark.parametrize("old", ["", "time_feature = true", "eval_episodes = 2"])
def test_runs_of_known_discounts__are_those_of_the_tasks_themselves(old, monkeypatch):
    sweep = parse(old, old and "time_limit = 50, eval_every = 7")
    with_all = sweep.runs()
    known = {"Hopper-v4": 0.999, "Swimmer-v4": 0.999}
    for gone in (["Swimmer-v4"], list(known)):
        monkeypatch.setattr(sweep_module, "Setup", missing(*gone))
        without = [run._replace(replay_bytes=0) if run.task in gone else run for run in with_all]
        assert sweep.runs({task: known[task] for task in gone}) == without
        with pytest.raises(ImportError, match=r"Swimmer-v4|Hopper-v4"):
            sweep.runs({task: known[task] for task in gone[1:]})


def test_variants__inherit_what_they_do_not_say():
    plain, expanded, other = parse().variants
    assert plain.agent == KINDS["ppo"](num_steps=64, minibatches=4)
    assert expanded.agent.advantage == TaylorQ(order=math.inf, lookahead=None)
    assert expanded.agent.num_steps == 64
    assert (plain.tasks, plain.steps) == (("Hopper-v4", "Swimmer-v4"), 1_000)
    assert other.agent.hidden == (16,)
    assert other.agent.num_steps == AGENTS["trpo_baselines"].num_steps
    assert (other.tasks, other.steps) == (("Hopper-v4",), 4_096)
    assert plain.protocol == Protocol(eval_episodes=2)
    assert other.protocol == Protocol(eval_episodes=2, time_feature=True)


def test_no_setting_of_an_agent__is_hidden_by_a_key_of_its_variant():
    for cls in KINDS.values():
        assert not set(OF_VARIANT) & set(cls.__dataclass_fields__)


def test_change__is_remembered_and_reaches_every_variant():
    sweep = parse()
    cheap = sweep.change(steps=2_048, seeds=(5, 6))
    assert cheap.changed == {"steps": 2_048, "seeds": (5, 6)}
    assert {run.steps for run in cheap.runs()} == {2_048}
    assert {run.seed for run in cheap.runs()} == {5, 6}
    assert sweep.change() is sweep
    assert sweep.changed == {}
    elsewhere = sweep.change(tasks=["Walker2d-v4"])
    assert {(run.variant, run.task) for run in elsewhere.runs()} == {
        ("PPO", "Walker2d-v4"),
        ("PPO(K)", "Walker2d-v4"),
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[variants]]\nname", "[[varaints]]\nname", "unknown key 'varaints': did you mean"),
        ('title = "two variants"\n', "", "key 'title' is missing"),
        ('"ppo"', '"pppo"', "variant 'PPO': unknown base 'pppo': did you mean 'ppo'"),
        ("num_steps", "num_step", "variant 'PPO': unknown key 'num_step': did you mean"),
        ("taylor_q", "taylor_p", r"unknown kind of advantage 'taylor_p': did you mean 'taylor_q'"),
        ("order = inf", "odrer = 1", "unknown key 'odrer': did you mean 'order'"),
        ("order = inf", "order = -1", "order=-1: must be"),
        (
            "hidden = [16]",
            'kind = "ppo"',
            "variant 'TRPO': unknown key 'kind': did you mean 'base'",
        ),
        ("time_feature", "time_featur", "unknown key 'time_featur': did you mean 'time_feature'"),
        ("time_feature = true", "time_feature = 1", "time_feature=1: must be true or false"),
        ("[0, 1, 2]", "3", "seeds=3: must be a list of integers"),
        ("[0, 1, 2]", "[0, 0]", r"seeds=\[0, 0\]: must name each once"),
        ("[0, 1, 2]", "[-1]", "seeds: -1 must be an integer >= 0"),
        ('["Hopper-v4", "Swimmer-v4"]', "[]", r"tasks=\[\]: must be a list of names"),
        ("1e3", "1.5", "steps=1.5: must be a whole number"),
        ("1e3", "0", "steps=0: must be"),
        ('name = "TRPO"', 'name = "PPO"', "variants: 'PPO' is there 2 times"),
        ('name = "TRPO"\n', "", "has no name"),
        ('"curves"', '"curve"', "unknown kind of figure 'curve': did you mean 'curves'"),
        ('kind = "curves"', "", "must be a table with a kind: curves, ablation, table"),
        ("protocol = { eval", "protocol = 3 # ", "protocol=3: must be a table"),
    ],
)
def test_spec_that_makes_no_sense__names_the_file_the_key_and_the_rule(old, new, message):
    with pytest.raises(ValueError, match=f"mine.toml: .*{message}"):
        parse(old, new)


def test_unknown_task__is_refused_before_anything_runs_with_the_nearest():
    with pytest.raises(ValueError, match="no such task; did you mean Hopper-v4"):
        parse('"Hopper-v4", "Sw', '"Hoper-v4", "Sw').runs()
