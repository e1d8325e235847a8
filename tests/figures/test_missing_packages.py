"""Where only the core and matplotlib are installed: what can be shown is, the rest is asked for."""

import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")

from figures import fake_runs
from gammaprime import cli
from gammaprime.sweeps import history

TRAIN = ("jax", "optax", "gymnasium", "mujoco", "safetensors", "tyro", "rich", "tensorboardX")
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({gone!r})); "
MAIN = "from gammaprime.cli import main; sys.exit(main(sys.argv[1:]))"
SPEC = """
title = "Two simulators"
base = "ppo"
tasks = ["Hopper-v4", "HopperBulletEnv-v0"]
seeds = [0]
steps = 100_000
[[variants]]
name = "PPO"
[figure]
kind = "curves"
"""
SAYS_TRAIN = "pip install 'gammaprime[train]'\n"


def without(gone, *words):
    """The command line in a process that cannot import these; its code, and what it says."""
    code = WITHOUT.format(gone=gone) + MAIN
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    return done.returncode, done.stderr


def test_figures__import_no_agents_and_nothing_that_trains():
    modules = "ablations, comparisons, curves, errors, options, order, report, tables, weights"
    code = WITHOUT.format(gone=TRAIN) + (
        f"from gammaprime.figures import {modules}; "
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('gammaprime.')}; "
        "sys.exit(', '.join(rooms & {'agents', 'experiments', 'sweeps', 'cli'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A computed experiment and a sweep, which has begun."""
    pytest.importorskip("jax")
    pytest.importorskip("mujoco")
    pytest.importorskip("pybullet")
    folder = tmp_path_factory.mktemp("all")
    (folder / "made.toml").write_text(SPEC)
    sweep = fake_runs.load(SPEC, "made")
    fake_runs.write(sweep, folder / "runs", lambda planned: 100.0)
    history.note(folder / "runs", str(folder / "made.toml"), sweep)
    assert cli.main(["run", "weights", "--out", str(folder / "runs")]) == 0
    return folder


def test_what_is_computed__is_shown_without_what_trains(folder, tmp_path):
    gone, runs = (*TRAIN, "pybullet", "ray"), str(folder / "runs")
    code, said = without(gone, "figure", "weights", "--runs", runs, "--out", str(tmp_path))
    assert (code, said) == (0, "")
    assert list(tmp_path.glob("weights*.svg"))
    page = tmp_path / "report.html"
    code, said = without(gone, "report", runs, "--out", str(page))
    assert code == 0
    assert said.startswith("gammaprime: left out made-")
    assert said.endswith(SAYS_TRAIN)
    assert said.count("\n") == 1
    assert "Left out, because it can no longer be read: made-" in page.read_text("utf-8")


def test_report__says_in_one_line_that_it_needs_jinja2_and_figures_do_without(folder, tmp_path):
    runs = str(folder / "runs")
    line = "gammaprime: the report needs jinja2: pip install 'gammaprime[report]'\n"
    assert without(("jinja2",), "report", runs) == (2, line)
    words = ("figure", "weights", "--runs", runs, "--out", str(tmp_path))
    assert without(("jinja2",), *words) == (0, "")


def test_sweep__says_in_one_line_what_its_agents_need(folder):
    words = ("figure", str(folder / "made.toml"), "--runs", str(folder / "runs"))
    line = f"gammaprime: made trains agents, which needs jax: {SAYS_TRAIN}"
    assert without(("jax",), *words) == (2, line)


@pytest.mark.parametrize(
    ("gone", "module", "line"),
    [
        ("mujoco", "mujoco", "MuJoCo tasks need mujoco: pip install 'gammaprime[train]'"),
        ("gymnasium", "mujoco", "MuJoCo tasks need gymnasium: pip install 'gammaprime[train]'"),
        ("pybullet", "bullet", "PyBullet tasks need pybullet: pip install 'gammaprime[bullet]'"),
    ],
)
def test_sweep__is_shown_without_the_simulators_of_its_tasks(
    folder, tmp_path, monkeypatch, capsys, gone, module, line
):
    show = ["figure", str(folder / "made.toml"), "--out"]
    assert cli.main([*show, str(tmp_path / "with"), "--runs", str(folder / "runs")]) == 0
    monkeypatch.delitem(sys.modules, f"gammaprime.envs.{module}")
    monkeypatch.setitem(sys.modules, gone, None)
    assert cli.main([*show, str(tmp_path / "without"), "--runs", str(folder / "runs")]) == 0
    files = [file.name for file in (tmp_path / "with").iterdir()]
    assert "made_table.md" in files
    for name in files:
        assert (tmp_path / "without" / name).read_bytes() == (tmp_path / "with" / name).read_bytes()
    # Where no run has begun that could tell of a task, the simulator has to.
    capsys.readouterr()
    assert cli.main([*show, str(tmp_path), "--runs", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"gammaprime: {line}\n"


def test_report__does_not_say_that_nothing_was_run_where_it_cannot_be_read(folder, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / history.FOLDER).symlink_to(folder / "runs" / history.FOLDER)
    code, said = without(TRAIN, "report", str(runs))
    assert code == 2
    assert said.splitlines()[0].endswith(SAYS_TRAIN.strip())
    assert said.splitlines()[1:] == [f"gammaprime: {runs}: nothing is left to show"]
