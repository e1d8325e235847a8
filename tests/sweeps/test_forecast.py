"""Forecasts: time and disk of a sweep before it starts."""

import json
import shutil
from collections import namedtuple
from dataclasses import replace

import pytest

from gammaprime.agents import PPO, TD3, TRPO, DensityRatio, TaylorWeight
from gammaprime.runs import provenance
from gammaprime.runs.config import Evaluation, RunConfig
from gammaprime.sweeps import forecast as forecast_module
from gammaprime.sweeps.driver import State, plan
from gammaprime.sweeps.forecast import (
    WORTHWHILE,
    Cost,
    check_disk,
    forecast,
    format_bytes,
    kind_of_run,
    once_under_way,
    stored_costs,
)

COST = Cost(fps=1_000.0, row_bytes_per_step=10.0, state_bytes=1e5)


def config(seed, steps=100_000, **agent):
    agent = PPO(num_steps=64, minibatches=1, **agent)
    return RunConfig(agent, "Hopper-v4", steps, seed).resolve()


def kind_of(config):
    return kind_of_run(config.to_table())


def jobs_of(configs, out):
    return plan([("PPO", config) for config in configs], out)


def silent(text):
    pass


def store_run(path, table, seconds, cpu=None):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(table))
    (path / "manifest.json").write_text(json.dumps({"cpu": cpu or provenance.cpu_model()}))
    (path / "metrics.jsonl").write_bytes(b"x" * 50_000)
    (path / "done").write_text(json.dumps({"seconds": seconds}))


def store(out, config, seconds):
    store_run(out / config.folder, config.to_table(), seconds)


def test_stored_runs__tell_the_speed_of_their_kind(tmp_path):
    store(tmp_path, config(0), 50.0)
    costs = stored_costs(tmp_path)
    assert costs[kind_of(config(7))].fps == pytest.approx(2_000)
    assert costs[kind_of(config(0))].row_bytes_per_step == pytest.approx(0.5, rel=0.05)
    assert kind_of(config(0, num_envs=2)) not in costs


def test_stored_runs__that_slept_do_not_spoil_their_kind(tmp_path):
    for seed, seconds in ((0, 50.0), (1, 40.0), (2, 5_000.0)):
        store(tmp_path, config(seed), seconds)
    (cost,) = stored_costs(tmp_path).values()
    assert cost.fps == pytest.approx(2_000)


def test_runs_of_other_processors_and_other_things__tell_nothing(tmp_path):
    store_run(tmp_path / "a", config(0).to_table(), 50.0, cpu="an abacus")
    store_run(tmp_path / "b", {"kind": "toy", "settings": {}}, 50.0)
    (tmp_path / "c").mkdir()
    (tmp_path / "c/done").write_text("no JSON")
    assert stored_costs(tmp_path) == {}


def test_forecast__counts_what_is_left(tmp_path, monkeypatch):
    known = {kind_of(config(0)): COST}
    monkeypatch.setattr(forecast_module, "stored_costs", lambda out: known)
    monkeypatch.setattr(forecast_module, "replay_bytes", lambda config: 10**config.seed)
    jobs = jobs_of(map(config, range(5)), tmp_path)
    jobs[0].state = State.DONE
    folder = jobs[1].path / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "000000060000.json").touch()
    told = forecast(jobs, tmp_path, 2, silent)
    assert (told.runs, told.steps) == (4, 340_000)
    assert told.seconds == pytest.approx(340 / 2)
    # Rows and states of four runs, and the largest replays of two that run at a time.
    assert told.num_bytes == 4 * (1e6 + 3e5) + 11_000


def test_forecast__includes_starts_and_evaluations(tmp_path, monkeypatch):
    known = {kind_of(config(0)): COST._replace(start_seconds=20.0, evaluation_seconds=3.0)}
    monkeypatch.setattr(forecast_module, "stored_costs", lambda out: known)
    jobs = jobs_of(map(config, range(4)), tmp_path)
    # Each: its start, 100,000 steps at 1,000 steps/s and ten evaluations; two at a time.
    assert forecast(jobs, tmp_path, 2, silent).seconds == 2 * (20.0 + 100.0 + 10 * 3.0)


def test_one_long_run__takes_as_long_as_it_takes(tmp_path, monkeypatch):
    known = {kind_of(config(0)): COST}
    monkeypatch.setattr(forecast_module, "stored_costs", lambda out: known)
    assert forecast(jobs_of([config(0)], tmp_path), tmp_path, 8, silent).seconds == 100.0


def test_kinds__are_measured_once_where_that_is_worth_it(tmp_path, monkeypatch):
    asked = []

    def measure(jobs, workers):
        asked.extend(jobs)
        return {kind_of(job.config): COST for job in jobs}

    monkeypatch.setattr(forecast_module, "measure", measure)
    wide = [config(seed, hidden=(256,)) for seed in range(3)]
    weighted = [config(seed, weighting=TaylorWeight()) for seed in range(2)]
    said = []
    jobs = jobs_of([config(0), *wide, *weighted], tmp_path)
    told = forecast(jobs, tmp_path, 2, said.append)
    assert len(asked) == 3
    assert said == ["measuring 3 kinds of run, a few seconds each"]
    assert told.seconds is not None
    asked.clear()
    told = forecast(jobs_of([config(0, steps=500)], tmp_path), tmp_path, 2, silent)
    assert asked == []
    assert told.seconds is told.num_bytes is None


@pytest.mark.parametrize("steps", [500, 10 * WORTHWHILE])
def test_finished_run__tells_nothing_of_its_replay_and_still_it_is_counted(tmp_path, steps):
    pytest.importorskip("mujoco")
    runs = [RunConfig(TD3(), "Hopper-v4", steps, seed).resolve() for seed in range(4)]
    store(tmp_path, runs[0], 50.0)
    told = forecast(jobs_of(runs, tmp_path), tmp_path, 2, silent)
    assert told.costs[kind_of(runs[0])].fps == steps / 50.0
    # Two observations of 11 numbers, 3 actions, a reward, two flags and an age.
    replay = steps * (4 * (2 * 11 + 3 + 1) + 2 + 4)
    assert told.num_bytes == pytest.approx(2 * replay + 3 * 50_000, rel=0.05)


def test_run_that_learns_from_rollouts__has_no_replay():
    assert forecast_module.replay_bytes(config(0)) == 0


def test_kind_that_cannot_be_measured__is_named_and_the_rest_is_summed(tmp_path, monkeypatch):
    known = {kind_of(config(0)): COST}
    monkeypatch.setattr(forecast_module, "measure", lambda jobs, workers: known)
    other = RunConfig(TRPO(), "Hopper-v4", 100_000).resolve()
    told = forecast(jobs_of([config(0), other], tmp_path), tmp_path, 2, silent)
    assert told.steps == 200_000
    assert told.seconds == 100.0
    assert told.num_bytes == 1e6 + 3e5
    assert told.unknown == (kind_of(other),)


@pytest.mark.parametrize("asked", [Evaluation(every=100), Evaluation(episodes=50)])
def test_evaluations__are_part_of_the_kind_of_run(asked):
    assert kind_of(config(0)) != kind_of(replace(config(0), evaluation=asked).resolve())


def test_disk_that_is_too_small__is_refused_with_what_is_needed(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, 10**9))
    check_disk(tmp_path / "not/yet/there", 8e8)
    with pytest.raises(ValueError, match=r"1\.0 GB are free, about 1\.1 GB are needed; make room"):
        check_disk(tmp_path / "not/yet/there", 9e8)


@pytest.mark.parametrize(
    ("number", "text"), [(10, "0 kB"), (14_200, "14 kB"), (3e6, "3 MB"), (2.5e12, "2,500.0 GB")]
)
def test_format_bytes(number, text):
    assert format_bytes(number) == text


def off_policy(steps=1_000_000, **agent):
    agent = TD3(learning_starts=1_000, random_steps=10_000, **agent)
    return RunConfig(agent, "Hopper-v4", steps).resolve().to_table()


def starts(table):
    return once_under_way(table)["settings"]["agent"]["learning_starts"]


def test_off_policy_run__is_measured_where_it_acts_by_its_policy_and_its_ratio_learns():
    assert starts(off_policy()) == 10_000
    # The ratio learns when the replay holds more than the latest states.
    assert starts(off_policy(weighting=DensityRatio(recent_size=20_000))) == 20_001
    assert kind_of_run(once_under_way(off_policy())) == kind_of_run(off_policy())


def test_run_that_is_mostly_beginning_or_on_policy__is_measured_as_it_is():
    for table in (off_policy(steps=15_000), config(0).to_table()):
        assert once_under_way(table) == table
