"""Specs: what ships is what the paper ran, and what is wrong is told by name."""

import dataclasses
import hashlib
import math
import tomllib
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest

from gammaprime import types
from gammaprime.agents import GAE, PPO, PRESETS, TRPO, TaylorQ, TaylorWeight, TDDelta, Uniform
from gammaprime.runs.config import KINDS, Evaluation, RunConfig
from gammaprime.sweeps import spec
from gammaprime.sweeps.spec import VARIANT_KEYS, Sweep

GYM = ("HalfCheetah-v4", "Ant-v4", "Walker2d-v4")
SIX = (*GYM, "HalfCheetahBulletEnv-v0", "AntBulletEnv-v0", "Walker2DBulletEnv-v0")
FOUR = ("Ant-v4", "HalfCheetah-v4", "Walker2d-v4", "Hopper-v4")
PAPERS_Q = TaylorQ.paper(0.999)

SMALL = """
title = "two variants"
base = { kind = "ppo", num_steps = 64, minibatches = 4 }
tasks = ["Hopper-v4", "Swimmer-v4"]
seeds = [0, 1, 2]
steps = 1e3
evaluation = { episodes = 2 }
[[variants]]
name = "PPO"
[[variants]]
name = "PPO(K)"
advantage = { kind = "taylor_q", order = inf, lookahead = "none", eta = 0.5 }
[[variants]]
name = "TRPO"
base = "trpo_baselines"
tasks = ["Hopper-v4"]
steps = 4_096
time_feature = true
hidden = [16]
[figure]
kind = "curves"
"""


def parse(old="", new=""):
    assert old in SMALL
    return spec.parse(SMALL.replace(old, new, 1), "mine", where="mine.toml")


def agents(name):
    return {v.name: v.config.agent for v in spec.load_experiment(name).variants}


def folders(sweep):
    return [config.folder for _, config in sweep.configs()]


SHIPPED = {
    # runs, tasks, seeds, steps
    "fig_onpolicy": (138, SIX, 10, 1_000_000),
    "fig_onpolicy_state": (114, SIX, 10, 1_000_000),
    "fig_ablation": (336, SIX, 10, 1_000_000),
    "fig_separating": (40, ("Walker2d-v4",), 10, 1_000_000),
    "fig_td3": (80, FOUR, 5, 1_000_000),
    "fig_sac": (60, FOUR, 5, 1_000_000),
    "table_td3": (120, FOUR, 5, 1_000_000),
    "ours": (117, GYM, 3, 1_000_000),
    "ours_second": (150, GYM, 10, 1_000_000),
    "ours_trpo": (45, GYM, 5, 1_000_000),
    "learning_onpolicy": (30, ("HalfCheetah-v4", "Walker2d-v4", "Hopper-v4"), 5, 1_000_000),
    "learning_offpolicy": (18, ("HalfCheetah-v4", "Hopper-v4"), 3, 300_000),
    "demo": (6, ("Hopper-v4",), 2, 200_000),
    "learning_classic": (9, ("CartPole-v1", "Pendulum-v1", "Acrobot-v1"), 3, 100_000),
    "smoke": (4, ("Hopper-v4",), 2, 2_560),
}


def test_every_sweep_that_ships__is_checked_here():
    sweeps = {name for name in spec.shipped() if isinstance(spec.load_experiment(name), Sweep)}
    assert sweeps == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sweep__has_its_runs_tasks_seeds_and_steps(name):
    sweep, (number, tasks, seeds, steps) = spec.load_experiment(name), SHIPPED[name]
    configs = [config for _, config in sweep.configs()]
    assert len(configs) == len(set(folders(sweep))) == number
    assert sweep.tasks == tasks
    # A round that chooses, on seeds of its own; presets on seeds that they were not chosen on.
    first = {"ours": 100, "learning_classic": 10}.get(name, 0)
    assert sweep.seeds == tuple(range(first, first + seeds))
    assert sweep.steps == steps
    classic = {0.998, 0.995} if name == "learning_classic" else set()
    assert {config.evaluation.gamma_prime for config in configs} <= {0.999, 0.99} | classic
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
    variants = {
        variant.name: variant for variant in spec.load_experiment("fig_onpolicy_state").variants
    }
    assert list(variants) == ["PPO", "PPO + time", "weighted PPO(K)"]
    assert [v.config.time_feature for v in variants.values()] == [False, True, False]
    assert variants["PPO + time"].config.agent == variants["PPO"].config.agent == PRESETS["ppo"]
    weighted = variants["weighted PPO(K)"].config.agent
    assert weighted.weighting == TaylorWeight(gamma_prime=0.999, order=100, normalise=False)
    assert weighted.advantage == GAE()


@pytest.mark.paper("fig:ablation")
@pytest.mark.errata("S22")
def test_fig_ablation__varies_eta_and_order_alone():
    sweep, found = spec.load_experiment("fig_ablation"), agents("fig_ablation")
    by_eta, by_order = sweep.figure_table["panels"]
    assert by_eta["values"] == [0, 0.01, 0.015, 0.02, 0.025, 0.03]
    assert by_order["values"] == [0, 1, 5, 10, 20, 100, math.inf]
    # η = 0 is plain PPO, bit for bit, and is not trained twice.
    assert by_eta["variants"][0] == "PPO"
    for eta, name in zip(by_eta["values"][1:], by_eta["variants"][1:], strict=True):
        assert found[name].advantage == TaylorQ.paper(0.999, 1, eta)
    for order, name in zip(by_order["values"], by_order["variants"], strict=True):
        assert found[name].weighting == TaylorWeight(0.999, order)
        assert found[name].advantage == GAE()


FOLDERS = {
    "demo": "d3b15716d104",
    "fig_ablation": "c3283c66ce26",
    "fig_onpolicy": "bb68324555b3",
    "fig_onpolicy_state": "2b8b0f729599",
    "fig_sac": "90306a0321a9",
    "fig_separating": "c2015a2aefff",
    "fig_td3": "c83ac0e958fb",
    "learning_offpolicy": "79a1dd3b5288",
    "learning_onpolicy": "9afa4b5ccae6",
    "ours": "f71be04d5456",
    "smoke": "fb28decb1ea8",
    "table_td3": "06d9c5b05021",
}
"""SHA-256 of the folder names of all variants and tasks at seed 0: stored runs rely on them."""


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_a_shipped_sweep__never_change(name):
    configs = [config for _, config in spec.load_experiment(name).configs()]
    names = dict.fromkeys(dataclasses.replace(config, seed=0).folder for config in configs)
    assert hashlib.sha256(" ".join(names).encode()).hexdigest().startswith(FOLDERS[name])


@pytest.mark.parametrize("name", FOLDERS)
def test_shipped_sweep__spells_out_every_field_of_taylor_q(name):
    """A sweep that leaned on a default would change with it."""
    text = (resources.files("gammaprime.experiments") / f"{name}.toml").read_text()
    wanted = {"kind", *(field.name for field in dataclasses.fields(TaylorQ))}
    for variant in tomllib.loads(text)["variants"]:
        if "taylor_q" in str(variant.get("advantage")):
            assert set(variant["advantage"]) == wanted


def test_figures_that_ask_for_the_same_run__share_its_folder():
    found = {name: set(folders(spec.load_experiment(name))) for name in SHIPPED}
    assert len(found["fig_ablation"] & found["fig_onpolicy"]) == 90  # PPO, η = 0.01
    assert len(found["fig_ablation"] & found["fig_onpolicy_state"]) == 90  # PPO, K = 100
    assert len(found["fig_ablation"] & found["ours_second"]) == 60  # PPO, K = 10
    assert len(found["fig_separating"] & found["ours_second"]) == 20  # PPO, PPO 0.999
    assert found["table_td3"] >= found["fig_sac"]
    assert len(found["table_td3"] & found["fig_td3"]) == 60  # all but PPO


@pytest.mark.paper("fig:separating")
def test_fig_separating__ends_at_both_discounts():
    found = agents("fig_separating")
    assert found["PPO 0.999"] == agents("fig_onpolicy")["PPO 0.999"]
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
        assert found[plain] == PRESETS[kind]
        slot = found[f"{plain}(γ)"].weighting
        assert type(slot).__name__ == "DensityRatio"
        assert slot.inverse_temperature == 0.1
        assert found["DDPG"] == PRESETS["ddpg"]
        for _, config in spec.load_experiment(name).configs():
            assert (config.evaluation.every, config.evaluation.episodes) == (5_000, 10)
    table = agents("table_td3")
    assert table["DDPG-v1"] == PRESETS["ddpg_spinning_up"]
    assert table["DDPG-v2"].learning_rate == 1e-4
    assert spec.load_experiment("table_td3").figure_table["last"] == 10
    assert spec.load_experiment("table_td3").figure_table["spread"] == 0.5


def test_learning_checks__have_the_lengths_that_are_asked_for():
    onpolicy = spec.load_experiment("learning_onpolicy").configs()
    asked = {(variant, config.task): config.steps for variant, config in onpolicy}
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
    offpolicy = spec.load_experiment("learning_offpolicy").configs()
    assert {(variant, config.task) for variant, config in offpolicy} == {
        (v, "HalfCheetah-v4") for v in ("TD3", "TD3(γ)", "SAC", "SAC(γ)")
    } | {(v, "Hopper-v4") for v in ("TD3", "TD3(γ)")}


def test_run_of_a_sweep__has_the_configuration_that_train_would_give_it():
    asked = (Evaluation(episodes=2), None, False, True)
    plain = PPO(num_steps=64, minibatches=4)
    same = RunConfig(plain, "Swimmer-v4", 1_000, 2, *asked).resolve()
    assert dict(zip(folders(parse()), parse().configs(), strict=True))[same.folder] == ("PPO", same)


def test_variants__inherit_what_they_do_not_say():
    plain, expanded, other = parse().variants
    assert plain.config.agent == PPO(num_steps=64, minibatches=4)
    assert expanded.config.agent.advantage == TaylorQ(order=math.inf, lookahead=None, eta=0.5)
    assert expanded.config.agent.num_steps == 64
    assert (plain.tasks, plain.config.steps) == (("Hopper-v4", "Swimmer-v4"), 1_000)
    assert other.config.agent.hidden == (16,)
    assert other.config.agent.num_steps == PRESETS["trpo_baselines"].num_steps
    assert (other.tasks, other.config.steps) == (("Hopper-v4",), 4_096)
    assert plain.config.evaluation == other.config.evaluation == Evaluation(episodes=2)
    assert (plain.config.time_feature, other.config.time_feature) == (False, True)


def test_evaluation_of_a_variant__adds_to_that_of_the_sweep():
    more = "time_feature = true\nevaluation = { every = 7 }\ntime_limit = 50\nstagger = false"
    plain, _, other = parse("time_feature = true", more).variants
    assert plain.config.evaluation == Evaluation(episodes=2)
    assert other.config.evaluation == Evaluation(every=7, episodes=2)
    assert (other.config.time_limit, other.config.stagger) == (50, False)


def test_keyword_arguments_of_a_variant__add_to_those_of_the_sweep():
    text = SMALL.replace("evaluation", "env_kwargs = { healthy_reward = 0.5 }\nevaluation", 1)
    text = text.replace("time_feature", "env_kwargs = { reset_noise_scale = 0.0 }\ntime_feature", 1)
    plain, _, other = spec.parse(text, "mine", where="mine.toml").variants
    assert plain.config.env_kwargs == {"healthy_reward": 0.5}
    assert other.config.env_kwargs == {"healthy_reward": 0.5, "reset_noise_scale": 0.0}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"trpo_baselines"', '"trpo-baselines"'),
        ('"taylor_q"', '"taylor-q"'),
        ("seeds = [0, 1, 2]", 'seeds = "0:3"'),
        ("seeds = [0, 1, 2]", 'seeds = "0,1,2"'),
        ("steps = 1e3", "steps = 1_000"),
    ],
)
def test_spec__may_be_written_as_on_the_command_line(old, new):
    assert parse(old, new).configs() == parse().configs()


def test_no_setting_of_an_agent__is_hidden_by_a_key_of_its_variant():
    for cls in KINDS.values():
        assert not set(VARIANT_KEYS) & set(cls.__dataclass_fields__)


def test_change__is_remembered_and_reaches_every_variant():
    sweep = parse()
    cheap = sweep.change(steps=4_096, seeds=(5, 6))
    assert cheap.changed == {"steps": 4_096, "seeds": [5, 6]}
    assert {config.steps for _, config in cheap.configs()} == {4_096}
    assert {config.seed for _, config in cheap.configs()} == {5, 6}
    assert sweep.change(steps="4096", seeds="5:7") == sweep.change(steps=4096.0, seeds=[5, 6])
    assert sweep.change() is sweep
    assert sweep.changed == {}
    elsewhere = sweep.change(tasks=["Walker2d-v4"])
    assert {(variant, config.task) for variant, config in elsewhere.configs()} == {
        ("PPO", "Walker2d-v4"),
        ("PPO(K)", "Walker2d-v4"),
    }


def test_seeds__may_differ_by_variant_and_by_task():
    by_task = 'seeds = { "Hop*" = "0:3", "*-v4" = "7,8" }'
    text = SMALL.replace("seeds = [0, 1, 2]", by_task)
    text = text.replace('name = "TRPO"', 'name = "TRPO"\nseeds = [4]')
    sweep = spec.parse(text, "mine", where="mine.toml")
    found = {}
    for variant, config in sweep.configs():
        found.setdefault((variant, config.task), []).append(config.seed)
    assert found == {
        ("PPO", "Hopper-v4"): [0, 1, 2],
        ("PPO", "Swimmer-v4"): [7, 8],
        ("PPO(K)", "Hopper-v4"): [0, 1, 2],
        ("PPO(K)", "Swimmer-v4"): [7, 8],
        ("TRPO", "Hopper-v4"): [4],
    }
    assert sweep.seeds == (0, 1, 2, 4, 7, 8)
    assert {config.seed for _, config in sweep.change(seeds=[5]).configs()} == {5}
    only = sweep.change(tasks=["Swimmer-v4"])
    assert {config.seed for _, config in only.configs()} == {7, 8}


def test_task_that_no_pattern_of_seeds_matches__is_named():
    with pytest.raises(
        ValueError, match=r"variant 'PPO': seeds: no pattern of Hop\* matches the t"
    ):
        parse("seeds = [0, 1, 2]", 'seeds = { "Hop*" = "0:3" }')


@pytest.mark.parametrize(
    ("text", "seeds"), [("0:3", (0, 1, 2)), (":2", (0, 1)), ("4", (4,)), ("3,1", (3, 1))]
)
def test_seeds__are_a_range_or_a_list(text, seeds):
    assert spec.read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "3:3", "a", "1,", "1:b", "0:3:2"])
def test_seeds_that_make_no_sense__are_refused(text):
    with pytest.raises(ValueError, match="must be a list of integers, or like 0:3 or 0,1,2"):
        spec.read_seeds(text)


def test_seeds__are_not_a_million():
    with pytest.raises(ValueError, match="seeds='0:1000000000000': must be at most 10,000"):
        spec.read_seeds("0:1000000000000")


@pytest.mark.parametrize("value", ["0", "-5", "1.5", "many", "inf", "nan", True, None, [1]])
def test_steps_that_make_no_sense__are_refused(value):
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        types.check_steps(value, text_allowed=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[variants]]\nname", "[[varaints]]\nname", "unknown key 'varaints': did you mean"),
        ("steps = 1e3", "num_envs = 2\nsteps = 1e3", r"num_envs: is a setting .*ppo., num_envs = "),
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
        ("time_feature", "time_featur", "unknown key 'time_featur'"),
        ("{ episodes", "{ episode", "unknown key 'episode': did you mean 'episodes'"),
        ("evaluation = {", "time_limit = 0 # ", "time_limit=0: must be an integer >= 1"),
        ("evaluation = {", "protocol = { }\n#", "protocol: is now evaluation, time_limit"),
        ('"taylor_q"', '["taylor_q"]', r"kind=\['taylor_q'\]: must be a name"),
        ("time_feature = true", "time_feature = 1", "time_feature=1: must be true or false"),
        ("[0, 1, 2]", "3", "seeds=3: must be a list of integers, or like"),
        ("[0, 1, 2]", "[0, 0]", r"seeds=\[0, 0\]: must name each once"),
        ("[0, 1, 2]", "[-1]", "seeds: -1 must be an integer >= 0"),
        ('["Hopper-v4", "Swimmer-v4"]', "[]", r"tasks=\[\]: must be a list of names"),
        ("1e3", "1.5", "steps=1.5: must be a whole number"),
        ("1e3", "0", "steps=0: must be"),
        ('name = "TRPO"', 'name = "PPO"', "variants: 'PPO' is there 2 times"),
        ('name = "TRPO"\n', "", "has no name"),
        ("evaluation = {", "evaluation = 3 # ", "evaluation=3: must be a table"),
        ("evaluation = {", "env_kwargs = 3 # ", "env_kwargs=3: must be a table"),
        ("evaluation = {", "env_kwargs = { a = inf } # ", "must be a table of JSON values"),
    ],
)
def test_spec_that_makes_no_sense__names_the_file_the_key_and_the_rule(old, new, message):
    with pytest.raises(ValueError, match=f"mine.toml: .*{message}"):
        parse(old, new)


def test_unknown_task__is_refused_before_anything_runs_with_the_nearest():
    pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match="no such task; did you mean Hopper-v4"):
        parse('"Hopper-v4", "Sw', '"Hoper-v4", "Sw').configs()


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ('kind = "curve"', "unknown kind 'curve': did you mean 'curves'"),
        ("", "unknown kind None"),
        ('kind = "curves"\nbaselin = "PPO"', "unknown key 'baselin'"),
    ],
)
def test_sweep_that_could_not_be_drawn__is_neither_trained_nor_changed(tmp_path, figure, message):
    sweep = parse('kind = "curves"', figure)
    with pytest.raises(ValueError, match=f"mine: figure: {message}"):
        sweep.run(tmp_path)
    with pytest.raises(ValueError, match=f"mine: figure: {message}"):
        sweep.change(tasks=["Hopper-v4"])
    assert list(tmp_path.iterdir()) == []


WEIGHTS = """
title = "curves"
kind = "weights"
[settings]
gamma = 0.9
gamma_prime = 1
orders = [0, 1]
lookahead = 10
num_steps = 50
"""


def parse_weights(old="", new=""):
    assert old in WEIGHTS
    return spec.parse(WEIGHTS.replace(old, new), "mine", where="mine.toml")


@pytest.mark.paper("fig:errors")
def test_fig_errors__has_the_settings_of_the_paper():
    settings = spec.load_experiment("fig_errors").settings
    assert (settings.num_states, settings.num_actions, settings.concentration) == (10, 2, 0.01)
    assert (settings.gamma, settings.gamma_prime) == (0.2, 0.8)
    assert (settings.num_trajectories, settings.reward_noise) == (10, 0.2)
    assert settings.num_mdps >= 200
    assert settings.base_noise[0] == 0.0
    assert settings.gamma_prime**settings.num_steps <= 1e-6


@pytest.mark.parametrize("name", spec.shipped())
def test_shipped_experiments__load_and_say_what_they_are(name):
    experiment = spec.load_experiment(name)
    assert experiment.name == name
    assert 10 < len(experiment.title) < 100


def test_load__takes_a_file_and_names_the_run_after_it(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(WEIGHTS)
    experiment = spec.load_experiment(str(file))
    assert experiment == parse_weights()
    assert experiment.name == "mine"
    assert experiment.config["settings"]["gamma_prime"] == 1.0


def test_config__is_the_settings_and_not_the_title():
    assert parse_weights('"curves"', '"other"').config == parse_weights().config
    assert parse_weights("50", "51").config != parse_weights().config


def test_settings__are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse_weights().settings.gamma = 0.5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lookahead", "look_ahead", "unknown key 'look_ahead': did you mean 'lookahead'?"),
        ("kind", "knid", "unknown key 'knid': did you mean 'kind'?"),
        ('"weights"', '"weight"', "unknown kind 'weight': did you mean 'weights'?"),
        ('"weights"', '"zzz"', "unknown kind 'zzz': there is toy, weights"),
        ("gamma = 0.9\n", "", "key 'gamma' is missing"),
        ("0.9", '"0.9"', "gamma='0.9': must be a number"),
        ("0.9", "1.5", r"gamma=1.5: must lie in \[0, 1\)"),
        ("= 1\n", "= 0.5\n", "gamma_prime=0.5: must lie in"),
        ('"weights"', '["weights"]', r"unknown kind \['weights'\]"),
        ("50", "50.5", "num_steps=50.5: must be an integer"),
        ("50", "true", "num_steps=True: must be an integer"),
        ("50", "0", "num_steps=0: must be at least 1"),
        ("[0, 1]", "1", "orders=1: must be a list"),
        ("[0, 1]", "[0, 1.5]", r"orders\[1\]=1.5: must be an integer"),
        ("[0, 1]", "[0, -1]", "order=-1: must be an integer >= 0"),
        ("= 50", "= ", "not valid TOML"),
    ],
)
def test_parse__names_the_file_the_key_the_value_and_the_rule(old, new, message):
    with pytest.raises(ValueError, match=f"mine.toml: {message}"):
        parse_weights(old, new)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_mdps", 0, "num_mdps=0: must be at least 1"),
        ("gamma_prime", 1.0, r"gamma_prime=1.0: must lie in \(0, 1\)"),
        ("truncation", 0.0, r"truncation=0.0: must lie in \(0, 1\)"),
        ("reward_noise", -0.1, "reward_noise=-0.1: must be finite and not negative"),
        ("base_noise", (0.0, float("inf")), r"base_noise\[1\]=inf: must be finite"),
        ("seed", -1, "seed=-1: must be finite and not negative"),
        ("order", -1, "order=-1: must be an integer >= 0"),
    ],
)
def test_toy_settings__refuse_what_cannot_be_run(key, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(spec.load_experiment("fig_errors").settings, **{key: value})


def test_settings__must_be_a_table():
    with pytest.raises(ValueError, match="settings=3: must be a table"):
        spec.parse('title = "t"\nkind = "weights"\nsettings = 3', "mine", where="mine.toml")


def test_load__of_an_unknown_name_gives_the_nearest():
    with pytest.raises(
        ValueError, match="unknown experiment 'fig_error': did you mean 'fig_errors"
    ):
        spec.load_experiment("fig_error")


def test_load__of_a_file_that_is_not_utf_8_names_it(tmp_path):
    (tmp_path / "odd.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ValueError, match=r"odd\.toml: not valid UTF-8"):
        spec.load_experiment(tmp_path / "odd.toml")


def test_load__of_a_file_that_is_nested_too_deeply_names_it(tmp_path):
    (tmp_path / "odd.toml").write_text("title = " + 10_000 * "[")
    with pytest.raises(ValueError, match=r"odd\.toml: not valid TOML: "):
        spec.load_experiment(tmp_path / "odd.toml")


def test_load__of_a_missing_file_says_so():
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml: no such file"):
        spec.load_experiment("nowhere.toml")
