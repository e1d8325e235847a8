"""Where only the core and matplotlib are installed: what can be shown is, the rest is asked for."""

import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")

from figures import fake_runs
from gammaprime import cli
from gammaprime.sweeps import report as notes

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
    notes.write_note(sweep, folder / "runs")
    assert cli.main(["run", "weights", "--out", str(folder / "runs")]) == 0
    return folder


def test_what_was_run__is_shown_without_what_trains(folder, tmp_path):
    gone, runs = (*TRAIN, "pybullet", "ray"), str(folder / "runs")
    code, said = without(gone, "figure", "weights", "--runs", runs, "--out", str(tmp_path))
    assert (code, said) == (0, "")
    assert list(tmp_path.glob("weights*.svg"))
    page = tmp_path / "report.html"
    code, said = without(gone, "report", runs, "--out", str(page))
    assert (code, said) == (0, "")
    assert "Two simulators" in page.read_text("utf-8")


def test_report__says_in_one_line_that_it_needs_jinja2_and_figures_do_without(folder, tmp_path):
    runs = str(folder / "runs")
    line = "gammaprime: the report needs jinja2: pip install 'gammaprime[report]'\n"
    assert without(("jinja2",), "report", runs) == (2, line)
    words = ("figure", "weights", "--runs", runs, "--out", str(tmp_path))
    assert without(("jinja2",), *words) == (0, "")


def test_sweep__is_shown_without_what_trains_and_the_simulators_of_its_tasks(folder, tmp_path):
    show = ("figure", str(folder / "made.toml"), "--runs", str(folder / "runs"), "--out")
    assert cli.main([*show, str(tmp_path / "with")]) == 0
    gone = (*TRAIN, "pybullet", "ray")
    assert without(gone, *show, str(tmp_path / "without")) == (0, "")
    files = [file.name for file in (tmp_path / "with").iterdir()]
    assert "made_table.md" in files
    for name in files:
        assert (tmp_path / "without" / name).read_bytes() == (tmp_path / "with" / name).read_bytes()
