"""Slots and agents of a user's own, from Python to the command line, sweeps, resume and figures."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("tyro")

import gammaprime as gp
from gammaprime import cli
from gammaprime.cli import options
from gammaprime.runs import startup
from gammaprime.runs.config import RunConfig

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/own_slot.py"
PAGE = (ROOT / "docs/own-slots.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
SMALL = "--num-envs 2 --num-steps 16 --hidden 4 --epochs 1 --minibatches 1 --time-limit 20"
SPEC = """
title = "Mine"
base = {{ kind = "{module}:ClippedPPO", num_steps = 16, hidden = [4], epochs = 1, minibatches = 1 }}
tasks = ["Hopper-v4"]
seeds = "0:1"
steps = 64
time_limit = 20
evaluation = {{ every = 0 }}

[[variants]]
name = "mine"
advantage = {{ kind = "{module}:Tempered", temperature = 2.0 }}

[figure]
kind = "curves"
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's own, on the path of this process and of its children."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "use_one_thread", lambda: None)
    monkeypatch.setattr(startup, "cache_compilations", lambda folder: True)
    (tmp_path / "lib").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "lib/my_own_module.py")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    yield "my_own_module"
    sys.modules.pop("my_own_module", None)


def test_page__is_trained_as_printed(tmp_path, monkeypatch):
    """Each block is a module by itself; the page's lines make the agents."""
    monkeypatch.syspath_prepend(tmp_path)
    slots, agents = "page_slots", "my_module"
    for name, block in zip((slots, agents), BLOCKS, strict=True):
        (tmp_path / f"{name}.py").write_text(block, encoding="utf-8")
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    (made,) = re.findall(r"`gp.PPO\(advantage=(Tempered\(.*?\))\)`", PAGE)
    slot = eval(made, vars(sys.modules[slots]))
    (line,) = re.findall(r"`gammaprime train (my_module:ClippedPPO .*?)`", PAGE)
    agent, _ = options.parse(line.split())
    assert agent == sys.modules[agents].ClippedPPO(largest_reward=2.0)
    small = replace(agent, advantage=slot, num_steps=16, hidden=(4,), epochs=1, minibatches=1)
    assert gp.train(small, "Hopper-v4", steps=32, time_limit=20).done


def test_command_line__takes_an_own_slot_and_an_own_agent_with_their_settings(module):
    words = f"{module}:ClippedPPO --task Hopper-v4 --largest-reward 3 --gamma 0.9"
    words += f" advantage:{module}:Tempered --advantage.temperature 2"
    agent, _ = options.parse(words.split())
    mine = sys.modules[module]
    assert agent == mine.ClippedPPO(gamma=0.9, largest_reward=3.0, advantage=mine.Tempered(2.0))
    assert type(agent) is mine.ClippedPPO


def test_run__is_trained_resumed_evaluated_and_named_by_its_slot(module, capsys):
    slot = f"advantage:{module}:Tempered --advantage.temperature"
    text = f"train ppo --task Hopper-v4 --steps 64 {SMALL} --evaluation.episodes 2 --no-tensorboard"
    for value in (2, 3):
        assert cli.main(f"{text} {slot} {value}".split()) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" --allow-imports")
    first, second = sorted(Path("results/runs").iterdir())
    assert first.name != second.name
    stored = json.loads((first / "config.json").read_text())["settings"]["agent"]["advantage"]
    assert stored["kind"] == f"{module}:Tempered"
    assert cli.main(["resume", str(first), "--allow-imports"]) == 0
    assert cli.main(["evaluate", str(first), "--allow-imports", "--episodes", "1"]) == 0
    assert cli.main(["plot", "results/runs", "--out", "a.svg"]) == 0
    assert "temperature 3.0" in Path("a.svg").read_text()


def test_stopped_run__goes_on_in_another_process_if_imports_are_allowed(module, tmp_path):
    pytest.importorskip(module)
    agent = gp.PPO(
        num_steps=16,
        hidden=(4,),
        epochs=1,
        minibatches=1,
        advantage=sys.modules[module].Tempered(2.0),
    )

    class Stop(gp.Callback):
        def on_update(self, update):
            return update.steps < 32

    out, quiet = tmp_path / "run", gp.Evaluation(every=0)
    stopped = gp.train(agent, "Hopper-v4", 64, out=out, callbacks=Stop(), evaluation=quiet)
    assert (stopped.steps, stopped.done) == (32, False)
    words = [sys.executable, "-m", "gammaprime", "resume", str(out)]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "'my_own_module:Tempered' would import and run the module" in refused.stderr
    subprocess.run([*words, "--allow-imports"], capture_output=True, check=True)
    whole = gp.train(agent, "Hopper-v4", 64, evaluation=quiet)
    assert gp.read_metrics(out)["train/loss"].tolist() == whole.metrics["train/loss"].tolist()


def test_sweep__trains_and_draws_an_own_agent_with_an_own_slot(module, capsys):
    Path("mine.toml").write_text(SPEC.format(module=module))
    assert cli.main(["run", "mine.toml", "--allow-imports", "--out", "runs", "--workers", "1"]) == 0
    draw = "gammaprime figure mine.toml --runs runs --allow-imports"
    assert capsys.readouterr().out.splitlines()[-1] == f"next: {draw}"
    (done,) = Path("runs").glob("*/done")
    assert done.parent.name.startswith("my_own_module-ClippedPPO-Hopper-v4-s0-")
    assert (
        cli.main(["figure", "mine.toml", "--allow-imports", "--runs", "runs", "--out", "figures"])
        == 0
    )
    assert Path("figures/mine.png").is_file()


def test_table_of_an_own_agent__comes_back_as_the_agent(module):
    pytest.importorskip(module)
    mine = sys.modules[module]
    config = RunConfig(mine.ClippedPPO(advantage=mine.Tempered(2.0)), "Hopper-v4", 2048).resolve()
    assert RunConfig.from_table(json.loads(json.dumps(config.to_table()))) == config


@dataclass(frozen=True)
class Lacking:
    num_heads = 1

    def check(self, gamma): ...


def test_missing_method__is_named():
    with pytest.raises(ValueError, match=r"advantage=Lacking.*it lacks estimate$"):
        gp.PPO(advantage=Lacking())
    with pytest.raises(ValueError, match=r"weighting=Lacking.*it lacks weights$"):
        gp.PPO(weighting=Lacking())
