"""`gammaprime run` of a sweep: what it asks, refuses, sums up; with a pool that trains nothing."""

import shlex
import subprocess
import sys

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime import cli
from gammaprime.sweeps import driver, forecast
from gammaprime.sweeps.forecast import Forecast
from gammaprime.sweeps.local import ERROR
from gammaprime.sweeps.spec import load_experiment
from sweeps.fake_pool import FakePool
from sweeps.test_spec import SMALL


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    monkeypatch.setattr(driver, "ROUND", 0.0)
    return tmp_path


@pytest.fixture
def pool(monkeypatch):
    """What runs are given to; they end well, unless told otherwise."""
    made = FakePool(2)
    monkeypatch.setattr(driver, "LocalPool", lambda size, checkpoint_seconds: made)
    return made


def test_run__starts_every_run_of_the_sweep_and_points_to_its_figure(house, pool, capsys):
    assert cli.main(["run", "small.toml", "--out", "here"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "small: 15 runs, 0 done, 15 to do",
        "15 runs of 24,288 steps in all, 2 at a time; too short to measure what they take",
        "15 of 15 runs done",
        "next: gammaprime figure small.toml --runs here",
    ]
    assert err.count(": done\n") == 15
    assert len(pool.started) == 15
    assert cli.main(["run", "small.toml", "--out", "here"]) == 0
    assert "small: 15 runs, 15 done, 0 to do" in capsys.readouterr().out
    assert len(pool.started) == 15


def test_dry_run__names_every_run_and_writes_nothing(house, pool, capsys):
    assert cli.main(["run", "small.toml", "--out", "here", "--dry-run"]) == 0
    *runs, last = capsys.readouterr().out.splitlines()
    assert last == "15 runs, 0 done; nothing was started"
    folders = [config.folder for _, config in load_experiment("small.toml").configs()]
    assert [line.rpartition("/")[2] for line in runs] == folders
    assert pool.started == []
    assert not (house / "here").exists()


def test_changes__reach_the_runs_and_are_told(house, pool, capsys):
    words = ["run", "small.toml", "--steps", "2e3", "--seeds", "4:6", "--tasks", "Walker2d-v4"]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "not as the spec has it: steps 2000, seeds [4, 5], tasks ['Walker2d-v4']" in out
    figure = "gammaprime figure small.toml --steps 2e3 --seeds 4:6 --tasks Walker2d-v4"
    assert f"next: {figure} --runs results/runs" in out
    configs = [job.config for job in pool.started]
    assert {(config.steps, config.task) for config in configs} == {(2_000, "Walker2d-v4")}
    assert [config.seed for config in configs] == [4, 5, 4, 5]


def test_failed_runs__are_named_with_the_way_to_try_them_again(house, pool, capsys, monkeypatch):
    pool.size, pool.endings = 1, [3, 3, 3]
    assert cli.main(["run", "small.toml", "--seeds", "0"]) == 3
    out = capsys.readouterr().out
    assert "4 of 5 runs done\nmissing:\n  PPO on Hopper-v4, seed 0: code 3 (see " in out
    assert "to try these again: gammaprime run small.toml --seeds 0\n" in out


def test_command_that_tries_again__can_be_pasted_into_a_shell(house, pool, capsys):
    (house / "a b.toml").write_text(SMALL)
    pool.endings = [ERROR]
    words = ["run", "a b.toml", "--seeds", "0", "--out", "my $runs"]
    assert cli.main(words) == 3
    lines = capsys.readouterr().out.splitlines()
    (again,) = [line for line in lines if line.startswith("to try these again: ")]
    assert shlex.split(again.partition(": ")[2]) == ["gammaprime", *words]


def test_disk_that_is_too_small__starts_nothing(house, pool, capsys, monkeypatch):
    cost = Forecast(15, 10, 1.0, 1e18, {})
    monkeypatch.setattr(forecast, "forecast", lambda *arguments: cost)
    assert cli.main(["run", "small.toml"]) == 2
    assert "are free, about" in capsys.readouterr().err
    assert pool.started == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("small.toml --tasks Hoper-v4", "no such task; did you mean Hopper-v4"),
        ("small.toml --steps 10", "steps=10: must be at least one rollout"),
        ("small.toml --steps 1.5", "steps='1.5': must be a whole number of at least 1"),
        ("small.toml --seeds 3:3", "seeds='3:3': must be a list of integers, or like 0:3"),
        ("small.toml --checkpoint-seconds nan", "checkpoint_seconds=nan: must be finite, and 0"),
        ("small.toml --seeds 0,0", "must name each once"),
        ("small.toml --workers 0", "workers=0: must be at least 1"),
        ("small.toml --force", "--force: a sweep repeats nothing"),
        ("weights --steps 10", "--steps: is for sweeps of training runs, not for weights"),
        ("weights --workers 2", "--workers: is for sweeps of training runs"),
        ("fig_onpolic", "unknown experiment 'fig_onpolic': did you mean 'fig_onpolicy'"),
    ],
)
def test_what_cannot_be_run__is_one_line_on_stderr(house, pool, capsys, words, message):
    assert cli.main(["run", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gammaprime: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (house / "results").exists()


@pytest.mark.parametrize("more", ["", "--seeds 0", "--tasks Hopper-v4"])
@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ('kind = "curves"\ncompar = []', "unknown key 'compar': did you mean 'compare'"),
        (
            'kind = "curves"\ncompare = [["PPQ", "PPO(K)"]]',
            "unknown variant 'PPQ': did you mean 'PPO'",
        ),
        ('kind = "ablation"', "key 'panels' is missing"),
        ('kind = "ablation"\npanels = 3', "panels: must be tables"),
        (
            'kind = "curves"\ncompare = ["PPO"]',
            "compare=['PPO']: must be a list of pairs of variants",
        ),
    ],
)
def test_what_could_not_be_drawn__is_not_trained(house, pool, capsys, figure, message, more):
    (house / "small.toml").write_text(SMALL.replace('kind = "curves"', figure))
    assert cli.main(["run", "small.toml", *more.split()]) == 2
    assert f"gammaprime: small: figure: {message}" in capsys.readouterr().err
    assert pool.started == []
    assert not (house / "results").exists()


def test_missing_ray__is_answered_with_the_line_that_installs_it(house, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "gammaprime.sweeps.ray", raising=False)
    assert cli.main(["run", "small.toml", "--ray", "local"]) == 2
    assert "--ray needs ray: pip install 'gammaprime[ray]'" in capsys.readouterr().err


def test_sweep_where_nothing_can_be_trained__is_answered_with_the_line_that_installs_it(house):
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "from gammaprime.cli import main; sys.exit(main(['run', 'fig_onpolicy']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "training needs jax: pip install 'gammaprime[train]'" in done.stderr
    assert not (house / "results").exists()


def test_sweep_from_python__is_the_same_as_from_the_command_line(house, pool):
    sweep = load_experiment("small.toml").change(steps=2e3, seeds=[4, 5])
    jobs = sweep.run("here", workers=2)
    assert [job.state for job in jobs] == ["done"] * len(pool.started)
    assert len(pool.started) == 10
    assert [job.state for job in sweep.jobs("here")] == ["done"] * 10
    words = "run small.toml --steps 2000 --seeds 4:6 --out here"
    assert cli.main(words.split()) == 0
    assert len(pool.started) == 10
