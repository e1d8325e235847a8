"""Schedules: what is done is skipped, what fails tried again, what others have left to them."""

import json

import pytest

pytest.importorskip("jax")
pytest.importorskip("rich")

from gammaprime.cli.run_sweep import _stopped
from gammaprime.runs import lease
from gammaprime.runs.interrupts import Interrupts
from gammaprime.sweeps import schedule
from gammaprime.sweeps.pool import GONE
from gammaprime.sweeps.schedule import ELSEWHERE, FAILED, FINISHED, RUNNING, WAITING, Schedule, plan
from gammaprime.sweeps.sweep import Planned
from gammaprime.sweeps.worker import DONE, HELD, LOST, Order
from sweeps import fake_pool
from sweeps.fake_pool import FakePool, Stopping, finish


def planned(seed, variant="PPO"):
    settings = {"agent": {"kind": "ppo"}, "task": "T", "steps": 100, "seed": seed}
    return Planned(
        variant, "T", seed, 100, f"ppo-T-s{seed}", {"kind": "train", "settings": settings}
    )


def make(tmp_path, pool, runs, said=None):
    jobs = plan(runs, tmp_path)
    said = [] if said is None else said
    return Schedule(
        jobs,
        pool,
        lambda job, stale: Order(job.name, str(job.path), job.planned.config, stale),
        said.append,
        lease.Watch(),
    )


def go(schedule_, interrupts=None):
    schedule_.run(interrupts or Interrupts(active=False), lambda s: None)
    return [job.state for job in schedule_.jobs]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(schedule, "ROUND", 0.0)
    monkeypatch.setattr(schedule, "LOOK_AGAIN", 0.0)


def test_every_run__is_made_once_and_no_more_at_a_time_than_there_is_room(tmp_path):
    pool = FakePool(2)
    assert go(make(tmp_path, pool, [planned(seed) for seed in range(5)])) == [FINISHED] * 5
    assert pool.most == 2
    assert [order.config["settings"]["seed"] for order in pool.started] == [0, 1, 2, 3, 4]


def test_variants_that_are_the_same_run__share_it(tmp_path):
    pool = FakePool(2)
    work = make(tmp_path, pool, [planned(0), planned(0, "the same"), planned(1)])
    assert go(work) == [FINISHED] * 2
    assert len(pool.started) == 2
    assert [job.planned.variant for job in work.jobs] == ["PPO", "PPO"]


def test_what_is_done__is_not_started(tmp_path):
    first, second = planned(0), planned(1)
    finish(Order("x", str(first.path(tmp_path)), first.config))
    pool = FakePool(2)
    assert go(make(tmp_path, pool, [first, second])) == [FINISHED] * 2
    assert [order.name for order in pool.started] == [second.path(tmp_path).name]


def test_run_that_fails__is_tried_three_times_and_the_rest_goes_on(tmp_path):
    said = []
    pool = FakePool(1, endings=[1, -9, 3, DONE])
    work = make(tmp_path, pool, [planned(0), planned(1)], said)
    assert go(work) == [FAILED, FINISHED]
    assert len(pool.started) == 4
    assert said[-2:] == [
        "PPO on T, seed 0: failed 3 times, left out: code 3",
        "PPO on T, seed 1: done",
    ]


def test_run_that_gets_further_each_time__is_not_given_up(tmp_path):
    run = planned(0)

    def die_at(step):
        def ending(order):
            folder = run.path(tmp_path) / "checkpoints"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{step:012d}.json").touch()
            return -9

        return ending

    steps = [10, 20, 30, 40, 40]
    pool = FakePool(1, endings=[die_at(step) for step in steps])
    assert go(make(tmp_path, pool, [run])) == [FINISHED]
    pool = FakePool(1, endings=[die_at(40)] * 4)
    (run.path(tmp_path) / "done").unlink()
    assert go(make(tmp_path, pool, [run])) == [FAILED]


def test_loss_of_a_node__is_no_attempt_of_the_run(tmp_path):
    pool = FakePool(1, endings=[GONE] * 10 + [1, GONE, 1, GONE, DONE])
    assert go(make(tmp_path, pool, [planned(0)])) == [FINISHED]


def test_run_that_fails_by_itself__is_left_out_however_many_nodes_were_lost(tmp_path):
    said, pool = [], FakePool(1, endings=[1, GONE, 1, GONE, 1])
    assert go(make(tmp_path, pool, [planned(0)], said)) == [FAILED]
    assert len(pool.started) == 5
    assert said[-1] == "PPO on T, seed 0: failed 3 times and was lost 2 times, left out: code 1"


def test_run_that_brings_down_every_node__is_left_out_at_last(tmp_path):
    pool = FakePool(1, endings=[GONE] * 100)
    assert go(make(tmp_path, pool, [planned(0), planned(1)])) == [FAILED, FAILED]
    assert len(pool.started) == 2 * schedule.LOSSES


def test_process_that_ends_well_without_being_done__has_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(fake_pool, "finish", lambda order: None)
    pool = FakePool(1)
    assert go(make(tmp_path, pool, [planned(0)])) == [FAILED]
    assert len(pool.started) == 3


@pytest.mark.parametrize("code", [HELD, LOST])
def test_run_that_another_process_has__is_no_failure(tmp_path, code):
    pool = FakePool(1, endings=[code] * 5 + [DONE])
    assert go(make(tmp_path, pool, [planned(0)])) == [FINISHED]
    assert len(pool.started) == 6


def test_run_that_is_refused_again_and_again__keeps_no_other_from_its_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "LOOK_AGAIN", -1.0)
    others = [planned(seed).path(tmp_path) for seed in (1, 2)]

    def ending(order):
        mine = order.config["settings"]["seed"] == 0
        return HELD if mine and not all((path / "done").is_file() for path in others) else DONE

    pool = FakePool(1, endings=[ending] * 20)
    assert go(make(tmp_path, pool, [planned(seed) for seed in range(3)])) == [FINISHED] * 3
    assert [order.config["settings"]["seed"] for order in pool.started] == [0, 1, 2, 0]


@pytest.mark.parametrize("code", [HELD, LOST])
def test_run_that_was_refused__is_looked_at_again_after_a_while(tmp_path, monkeypatch, code):
    now = 100.0
    monkeypatch.setattr(schedule.time, "monotonic", lambda: now)
    monkeypatch.setattr(schedule, "LOOK_AGAIN", 2.0)
    pool = FakePool(1, endings=[code])
    work = make(tmp_path, pool, [planned(0)])
    work.advance()
    now = 110.0
    work.advance()
    now = 111.0
    work.advance()
    assert len(pool.started) == 1
    now = 113.0
    work.advance()
    assert len(pool.started) == 2


def test_run_that_cannot_be_started__fails_and_the_rest_goes_on(tmp_path):
    class Refusing(FakePool):
        def start(self, order):
            if order.config["settings"]["seed"] == 0:
                raise PermissionError("no room for another process")
            super().start(order)

    pool, said = Refusing(1), []
    work = make(tmp_path, pool, [planned(0), planned(1)], said)
    assert go(work) == [FAILED, FINISHED]
    assert work.jobs[0].message == "could not be started: no room for another process"
    assert sum("failed 3 times, left out" in line for line in said) == 1
    assert not pool.killed


def test_run_that_another_machine_has__is_waited_for(tmp_path):
    theirs, mine = planned(0), planned(1)
    folder = theirs.path(tmp_path)
    folder.mkdir(parents=True)
    other = {"machine": "other", "pid": 1, "started": "1", "beat": 1, "progress": {"steps": 50}}
    (folder / ".lease-000001").write_text(json.dumps(other))
    pool = FakePool(2)
    work = make(tmp_path, pool, [theirs, mine])
    for _ in range(5):
        work.advance()
    assert [job.state for job in work.jobs] == [ELSEWHERE, FINISHED]
    assert work.jobs[0].progress == {"steps": 50}
    finish(Order("x", str(folder), theirs.config))
    assert go(work) == [FINISHED] * 2
    assert len(pool.started) == 1


def test_folder_of_another_configuration__is_left_alone_and_the_rest_goes_on(tmp_path):
    bad, good = planned(0), planned(1)
    folder = bad.path(tmp_path)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"kind": "train", "settings": {"format": "older"}}')
    pool = FakePool(2)
    work = make(tmp_path, pool, [bad, good])
    assert go(work) == [FAILED, FINISHED]
    assert "belongs to another configuration" in work.jobs[0].message
    assert len(pool.started) == 1


def test_finished_run_of_another_format__is_not_made_again_and_the_rest_goes_on(tmp_path):
    old, good = planned(0), planned(1)
    finish(Order("x", str(old.path(tmp_path)), old.config))
    (old.path(tmp_path) / "done").write_text('{"format": 2}')
    pool = FakePool(2)
    work = make(tmp_path, pool, [old, good])
    assert go(work) == [FAILED, FINISHED]
    assert "is in format 2" in work.jobs[0].message
    assert len(pool.started) == 1


def test_signal__stops_the_running_and_starts_no_more(tmp_path):
    interrupts = Interrupts(active=False)

    pool, said = Stopping(2, interrupts, [143, 130]), []
    work = make(tmp_path, pool, [planned(seed) for seed in range(4)], said)
    assert go(work, interrupts) == [WAITING] * 4
    assert said == []
    assert len(pool.started) == 2
    assert not pool.killed
    assert _stopped(work.jobs) == "stopped, every run is saved"


def test_runs_that_did_not_save_when_they_were_stopped__are_named(tmp_path):
    interrupts = Interrupts(active=False)
    work = make(tmp_path, Stopping(4, interrupts, [143, 1, -9, HELD]), map(planned, range(4)))
    go(work, interrupts)
    assert [job.unsaved for job in work.jobs] == [False, True, True, False]
    assert _stopped(work.jobs) == (
        "stopped; go back to their last checkpoints: "
        "PPO on T, seed 1 (code 1), PPO on T, seed 2 (code -9)"
    )


def test_error_in_the_driver__leaves_no_process_behind(tmp_path):
    def broken(work):
        raise RuntimeError("display")

    pool = FakePool(1, endings=[None])
    work = make(tmp_path, pool, [planned(0)])
    with pytest.raises(RuntimeError, match="display"):
        work.run(Interrupts(active=False), broken)
    assert work.count(RUNNING) == 1
    assert pool.killed
