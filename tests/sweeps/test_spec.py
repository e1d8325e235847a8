"""Specs: what ships resolves to the paper's settings, and what is wrong is told by name."""

import dataclasses

import pytest

from gammaprime.sweeps import spec

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


def parse(old="", new=""):
    assert old in WEIGHTS
    return spec.parse(WEIGHTS.replace(old, new), "mine", where="mine.toml")


@pytest.mark.paper("fig:errors")
def test_fig_errors__has_the_settings_of_the_paper():
    settings = spec.load("fig_errors").settings
    assert (settings.num_states, settings.num_actions, settings.concentration) == (10, 2, 0.01)
    assert (settings.gamma, settings.gamma_prime) == (0.2, 0.8)
    assert (settings.num_trajectories, settings.reward_noise) == (10, 0.2)
    assert settings.num_mdps >= 200
    assert settings.base_noise[0] == 0.0
    assert settings.gamma_prime**settings.num_steps <= 1e-6


@pytest.mark.parametrize("name", spec.shipped())
def test_shipped_experiments__load_and_say_what_they_are(name):
    experiment = spec.load(name)
    assert experiment.name == name
    assert 10 < len(experiment.title) < 100


def test_load__takes_a_file_and_names_the_run_after_it(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(WEIGHTS)
    experiment = spec.load(str(file))
    assert experiment == parse()
    assert experiment.name == "mine"
    assert experiment.config["settings"]["gamma_prime"] == 1.0


def test_config__is_the_settings_and_not_the_title():
    assert parse('"curves"', '"other"').config == parse().config
    assert parse("50", "51").config != parse().config


def test_settings__are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse().settings.gamma = 0.5


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
        parse(old, new)


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
        dataclasses.replace(spec.load("fig_errors").settings, **{key: value})


def test_settings__must_be_a_table():
    with pytest.raises(ValueError, match="settings=3: must be a table"):
        spec.parse('title = "t"\nkind = "weights"\nsettings = 3', "mine", where="mine.toml")


def test_load__of_an_unknown_name_gives_the_nearest():
    with pytest.raises(
        ValueError, match="unknown experiment 'fig_error': did you mean 'fig_errors"
    ):
        spec.load("fig_error")


def test_load__of_a_missing_file_says_so():
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml: no such file"):
        spec.load("nowhere.toml")
