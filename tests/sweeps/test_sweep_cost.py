"""What a sweep tells before it starts and while it runs: cost, disk, a table, lines."""

import io
import json
import shutil
from collections import namedtuple
from types import SimpleNamespace

import pytest

pytest.importorskip("jax")
pytest.importorskip("rich")

from rich.console import Console

from gammaprime.cli.run_sweep import Way, _cost
from gammaprime.cli.sweep_display import SweepDisplay
from gammaprime.runs import store
from gammaprime.sweeps import estimate
from gammaprime.sweeps.estimate import (
    WORTHWHILE,
    Cost,
    check_disk,
    forecast,
    kind_of_run,
    size,
    stored_costs,
)
from gammaprime.sweeps.schedule import ELSEWHERE, FAILED, FINISHED, RUNNING, plan
from gammaprime.sweeps.sweep import Planned

COST = Cost(fps=1_000.0, row_bytes_per_step=10.0, state_bytes=1e5)


def planned(seed, steps=100_000, variant="PPO", replay_bytes=0, **agent):
    agent = {"kind": "ppo", "num_steps": 64, "weighting": {"kind": "uniform"}} | agent
    settings = {"agent": agent, "task": "Hopper-v4", "steps": steps, "seed": seed}
    config = {"kind": "train", "settings": settings}
    return Planned(variant, "Hopper-v4", seed, steps, f"ppo-s{seed}", config, replay_bytes)


def store_run(path, config, seconds, cpu=None):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "manifest.json").write_text(json.dumps({"cpu": cpu or store.cpu_model()}))
    (path / "metrics.jsonl").write_bytes(b"x" * 50_000)
    (path / "done").write_text(json.dumps({"seconds": seconds}))


def test_stored_runs__tell_the_speed_of_their_kind(tmp_path):
    run = planned(0)
    store_run(run.path(tmp_path), run.config, 50.0)
    costs = stored_costs(tmp_path)
    assert costs[kind_of_run(planned(7).config)].fps == pytest.approx(2_000)
    assert costs[kind_of_run(run.config)].row_bytes_per_step == pytest.approx(0.5, rel=0.05)
    assert kind_of_run(planned(0, num_steps=128).config) not in costs


def test_stored_runs__that_slept_do_not_spoil_their_kind(tmp_path):
    for seed, seconds in ((0, 50.0), (1, 40.0), (2, 5_000.0)):
        run = planned(seed)
        store_run(run.path(tmp_path), run.config, seconds)
    (cost,) = stored_costs(tmp_path).values()
    assert cost.fps == pytest.approx(2_000)


def test_runs_of_other_processors_and_other_things__tell_nothing(tmp_path):
    store_run(tmp_path / "a", planned(0).config, 50.0, cpu="an abacus")
    store_run(tmp_path / "b", {"kind": "toy", "settings": {}}, 50.0)
    (tmp_path / "c").mkdir()
    (tmp_path / "c/done").write_text("no JSON")
    assert stored_costs(tmp_path) == {}


def test_forecast__counts_what_is_left(tmp_path, monkeypatch):
    kind = kind_of_run(planned(0).config)
    monkeypatch.setattr(estimate, "stored_costs", lambda root: {kind: COST})
    runs = [planned(seed, replay_bytes=10**seed) for seed in range(5)]
    jobs = plan(runs, tmp_path)
    jobs[0].state = FINISHED
    folder = jobs[1].path / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "000000060000.json").touch()
    told = forecast(jobs, tmp_path, 2, print)
    assert (told.runs, told.steps) == (4, 340_000)
    assert told.seconds == pytest.approx(340 / 2)
    # Rows and states of four runs, and the largest replays of two that run at a time.
    assert told.num_bytes == 4 * (1e6 + 3e5) + 11_000


def test_one_long_run__takes_as_long_as_it_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(
        estimate, "stored_costs", lambda root: {kind_of_run(planned(0).config): COST}
    )
    assert forecast(plan([planned(0)], tmp_path), tmp_path, 8, print).seconds == 100.0


def test_kinds__are_measured_once_where_that_is_worth_it(tmp_path, monkeypatch):
    asked = []

    def measure(jobs, workers):
        asked.extend(jobs)
        return {kind_of_run(job.planned.config): COST for job in jobs}

    monkeypatch.setattr(estimate, "measure", measure)
    wide = [planned(seed, variant="wide", hidden=[256]) for seed in range(3)]
    ratio = [planned(seed, weighting={"kind": "density_ratio"}) for seed in range(2)]
    told = forecast(plan([planned(0), *wide, *ratio], tmp_path), tmp_path, 2, lambda text: None)
    assert len(asked) == 3
    assert told.seconds is not None
    asked.clear()
    told = forecast(plan([planned(0, steps=500)], tmp_path), tmp_path, 2, print)
    assert asked == []
    assert told.seconds is told.num_bytes is None


@pytest.mark.parametrize("steps", [500, 10 * WORTHWHILE])
def test_finished_run__tells_nothing_of_its_replay_and_still_it_is_counted(tmp_path, steps):
    runs = [planned(seed, steps, kind="td3", replay_bytes=10**7) for seed in range(4)]
    store_run(runs[0].path(tmp_path), runs[0].config, 50.0)
    told = forecast(plan(runs, tmp_path), tmp_path, 2, print)
    assert told.costs[kind_of_run(runs[0].config)].fps == steps / 50.0
    assert told.num_bytes == pytest.approx(2 * 1e7 + 3 * 50_000, rel=0.01)


def test_kind_that_cannot_be_measured__is_named_and_the_rest_is_summed(tmp_path, monkeypatch):
    def measure(jobs, workers):
        return {kind_of_run(planned(0).config): COST}

    monkeypatch.setattr(estimate, "measure", measure)
    other = planned(0, variant="other", kind="trpo")
    told = forecast(plan([planned(0), other], tmp_path), tmp_path, 2, lambda text: None)
    assert told.steps == 200_000
    assert told.seconds == 100.0
    assert told.num_bytes == 1e6 + 3e5
    assert told.unknown == (kind_of_run(other.config),)
    assert _cost(told, 2) == (
        "2 runs of 200,000 steps in all, 2 at a time; about 1 min 40 s and 1 MB of disk, "
        "without what could not be measured: trpo on Hopper-v4"
    )


@pytest.mark.parametrize("protocol", [{"eval_every": 100}, {"eval_episodes": 50}])
def test_evaluations__are_part_of_the_kind_of_run(protocol):
    plain, often = planned(0).config, planned(0).config
    often["settings"]["protocol"] = protocol
    assert kind_of_run(plain) != kind_of_run(often)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_checkpoint_seconds__must_be_a_time(seconds):
    assert Way(checkpoint_seconds=0.0).checkpoint_seconds == 0.0
    with pytest.raises(ValueError, match=r"checkpoint_seconds=.*: must be finite, and 0 or more"):
        Way(checkpoint_seconds=seconds)


def test_disk_that_is_too_small__is_refused_with_what_is_needed(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, 10**9))
    check_disk(tmp_path / "not/yet/there", 8e8)
    with pytest.raises(ValueError, match=r"1\.0 GB are free, about 1\.1 GB are needed; make room"):
        check_disk(tmp_path / "not/yet/there", 9e8)


@pytest.mark.parametrize(
    ("number", "text"), [(10, "0 kB"), (14_200, "14 kB"), (3e6, "3 MB"), (2.5e12, "2,500.0 GB")]
)
def test_size(number, text):
    assert size(number) == text


def shown(jobs, costs=None, terminal=False):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    display = SweepDisplay("mine", costs or {}, console)
    work = SimpleNamespace(
        jobs=jobs,
        pool=SimpleNamespace(size=2),
        over=all(job.state in (FINISHED, FAILED) for job in jobs),
        count=lambda *states: sum(job.state in states for job in jobs),
    )
    with display:
        display.show(work)
        display.show(work)
    return console.file.getvalue()


@pytest.fixture
def jobs(tmp_path):
    jobs = plan([planned(seed, variant=f"PPO(γ{seed})") for seed in range(6)], tmp_path)
    jobs[0].state, jobs[1].state, jobs[2].state, jobs[3].state = (
        FINISHED,
        FAILED,
        RUNNING,
        ELSEWHERE,
    )
    told = {"steps": 60_000, "total": 99_968, "return": 123.456, "fps": 500.0}
    jobs[2].progress = told
    return jobs


def test_lines__tell_the_whole_and_are_not_repeated(jobs):
    text = shown(jobs)
    assert text == (
        "mine: 1 of 6 runs done, 1 running, 1 elsewhere, 1 failed, 500 steps/s, "
        "about 5 min 40 s left\n"
    )


def test_time_left__uses_the_speed_of_the_kind_where_it_is_known(jobs):
    kind = kind_of_run(jobs[0].planned.config)
    # 80 s of the run under way, and 3 times 100,000 steps at 1,000 steps/s, two at a time.
    assert "about 3 min 10 s left" in shown(jobs, {kind: COST})


def test_nothing_known__promises_no_time(jobs):
    jobs[2].progress = {}
    assert "left" not in shown(jobs)


def test_table__shows_what_runs(jobs):
    text = shown(jobs, terminal=True)
    assert "1 of 6 runs done" in text
    (line,) = {line.strip() for line in text.splitlines() if "PPO(γ2)" in line}
    assert " ".join(line.split()) == "PPO(γ2) Hopper-v4 2 60 % 123.5 500 1 min 20 s"
    assert "elsewhere" in text
    assert "PPO(γ5)" not in text
