"""What people from other libraries try in their first hours."""

import dataclasses
import functools
import math
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

pytest.importorskip("jax")

import gammaprime as gp
from gammaprime import envs
from gammaprime.runs import environments
from gammaprime.runs.config import find_class

PAGE = (Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8")
AGENT = gp.PPO(num_steps=16, hidden=(4,), epochs=1, minibatches=1)
QUIET = {"evaluation": gp.Evaluation(every=0), "time_limit": 20}


class Grid(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size=1.0):
        self.size = size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), self.size, False, False, {}


def test_names_of_the_page__are_settings():
    rows = PAGE.partition("## Names, for those")[2].partition("\n## ")[0].splitlines()[4:]
    told = {name for row in rows for name in re.findall(r"`(\w+)(?:=[^`]*)?`", row.split("|")[3])}
    known = {item.name for agent in (gp.PPO, gp.TD3) for item in dataclasses.fields(agent)}
    assert len(told) > 10
    assert told <= known


def test_partial_constructor__is_named_with_its_arguments():
    small, large = (
        gp.train(AGENT, functools.partial(Grid, size=size), 32, **QUIET) for size in (1.0, 2.0)
    )
    assert small.config.task["object"] == "Grid(size=1.0)"
    assert small.config.folder != large.config.folder


def test_object_among_the_arguments__is_named_without_its_address():
    """An address is another one in the next process, and the run could not be resumed."""

    class Reward:
        pass

    name = environments.task_name(functools.partial(Grid, reward=Reward(), rule=Grid.step))
    assert re.fullmatch(r"Grid\(reward=\S*Reward, rule=Grid\.step\)", name)


def test_object_that_makes_environments__has_the_name_of_its_class():
    class Maker:
        def __call__(self):
            return Grid()

    run = gp.train(AGENT, Maker(), 32, **QUIET)
    assert run.config.task["object"].endswith("Maker")


def test_one_callback__need_not_be_in_a_list():
    class Stop(gp.Callback):
        def on_update(self, update):
            return False

    assert gp.train(AGENT, Grid, 64, callbacks=Stop(), **QUIET).steps == 16


def test_policy__has_a_short_repr():
    run = gp.train(AGENT, Grid, 32, **QUIET)
    assert repr(run.policy) == "Policy(2 observations, hidden layers of 4, discrete actions)"


def test_run_on_an_object__is_not_lengthened_and_says_what_can_be_done(tmp_path):
    out = tmp_path / "run"
    run = gp.train(AGENT, Grid, 32, out=out, **QUIET)
    with pytest.raises(ValueError, match=rf"{out}: was trained on an object, and cannot .*init="):
        gp.resume(run, steps=64)
    assert gp.train(AGENT, Grid, 32, init=run, **QUIET).done


def test_module_that_is_not_found__says_how_the_current_folder_is_searched():
    with pytest.raises(ValueError, match=r"No module named 'not_here'.*PYTHONPATH=\."):
        find_class("advantage", "not_here:Mine")
    with pytest.raises(ValueError, match=r"No module named 'not_here'.*PYTHONPATH=\."):
        envs.time_limit("not_here:Grid-v0")


def test_python_m__is_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "gammaprime", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("gammaprime ")


def test_progress__is_shown_in_notebooks_by_default(monkeypatch, capsys):
    gp.train(AGENT, Grid, 32, **QUIET)
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    gp.train(AGENT, Grid, 32, **QUIET)
    assert "100 %  step 32" in capsys.readouterr().err
    gp.train(AGENT, Grid, 32, progress=False, **QUIET)
    assert capsys.readouterr().err == ""


def test_order_of_thousands__is_trained_as_quickly_as_any_and_is_order_infinity():
    made = [
        gp.train(dataclasses.replace(AGENT, advantage=gp.TaylorQ(0.999, order)), Grid, 32, **QUIET)
        for order in (3_000, math.inf)
    ]
    high, infinite = (run.metrics["train/loss"] for run in made)
    np.testing.assert_allclose(high, infinite, rtol=1e-4)
