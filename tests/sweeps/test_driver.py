"""The driver: what is done is skipped, what fails tried again, what others train left to them."""

import json

import pytest

from gammaprime.agents import PPO
from gammaprime.runs.config import RunConfig
from gammaprime.runs.interrupts import Interrupted, Interrupts
from gammaprime.sweeps import driver
from gammaprime.sweeps.driver import Driver, State, Watcher, plan
from gammaprime.sweeps.local import BUSY, DONE, ERROR
from sweeps import fake_pool
from sweeps.fake_pool import FakePool, Stopping, finish

AGENT = PPO(num_steps=16, minibatches=1)


def config(seed, variant="PPO"):
    return variant, RunConfig(AGENT, "Hopper-v4", 100, seed).resolve()


class Listener(Watcher):
    def __init__(self):
        self.said = []

    def on_event(self, text):
        self.said.append(text)


def make(tmp_path, pool, configs, watcher=None):
    return Driver(plan(configs, tmp_path), pool, watcher or Watcher())


def go(work, interrupts=None):
    work.run(interrupts or Interrupts(active=False))
    return [job.state for job in work.jobs]


def seeds(pool):
    return [job.config.seed for job in pool.started]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(driver, "ROUND", 0.0)
    monkeypatch.setattr(driver, "LOOK_AGAIN", -1.0)


def test_every_run__is_made_once_and_no_more_at_a_time_than_there_is_room(tmp_path):
    pool = FakePool(2)
    assert go(make(tmp_path, pool, map(config, range(5)))) == [State.DONE] * 5
    assert pool.most == 2
    assert seeds(pool) == [0, 1, 2, 3, 4]


def test_variants_that_are_the_same_run__share_it(tmp_path):
    pool = FakePool(2)
    work = make(tmp_path, pool, [config(0), config(0, "the same"), config(1)])
    assert go(work) == [State.DONE] * 2
    assert len(pool.started) == 2
    assert [job.variant for job in work.jobs] == ["PPO", "PPO"]


def test_what_is_done__is_not_started(tmp_path):
    finish(plan([config(0)], tmp_path)[0])
    pool = FakePool(2)
    assert go(make(tmp_path, pool, map(config, range(2)))) == [State.DONE] * 2
    assert seeds(pool) == [1]


def test_run_that_fails__is_tried_three_times_and_the_rest_goes_on(tmp_path):
    listener = Listener()
    pool = FakePool(1, endings=[1, -9, 3, DONE])
    assert go(make(tmp_path, pool, map(config, range(2)), listener)) == [State.FAILED, State.DONE]
    assert len(pool.started) == 4
    assert listener.said == [
        "PPO on Hopper-v4, seed 0: code 1; again from the start",
        "PPO on Hopper-v4, seed 0: code -9; again from the start",
        "PPO on Hopper-v4, seed 0: failed 3 times, left out: code 3",
        "PPO on Hopper-v4, seed 1: done",
    ]


def test_error_that_would_happen_again__is_not_tried_again(tmp_path):
    listener = Listener()
    pool = FakePool(1, endings=[ERROR, DONE])
    assert go(make(tmp_path, pool, map(config, range(2)), listener)) == [State.FAILED, State.DONE]
    assert seeds(pool) == [0, 1]
    assert listener.said[0] == "PPO on Hopper-v4, seed 0: failed, left out: code 2"


def test_run_that_gets_further_each_time__is_not_given_up(tmp_path):
    def die_at(step):
        def ending(job):
            folder = job.path / "checkpoints"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{step:012d}.json").touch()
            return -9

        return ending

    pool = FakePool(1, endings=[die_at(step) for step in (10, 20, 30, 40, 40)])
    work = make(tmp_path, pool, [config(0)])
    assert go(work) == [State.DONE]
    pool = FakePool(1, endings=[die_at(40)] * 4)
    (work.jobs[0].path / "done").unlink()
    assert go(make(tmp_path, pool, [config(0)])) == [State.FAILED]


def test_process_that_ends_well_without_being_done__has_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(fake_pool, "finish", lambda job: None)
    pool = FakePool(1)
    assert go(make(tmp_path, pool, [config(0)])) == [State.FAILED]
    assert len(pool.started) == 3


def test_run_that_another_process_trains__is_no_failure(tmp_path):
    pool = FakePool(1, endings=[BUSY] * 5 + [DONE])
    assert go(make(tmp_path, pool, [config(0)])) == [State.DONE]
    assert len(pool.started) == 6


def test_run_that_was_refused__is_looked_at_again_after_a_while(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr(driver.time, "monotonic", lambda: now)
    monkeypatch.setattr(driver, "LOOK_AGAIN", 2.0)
    pool = FakePool(1, endings=[BUSY])
    work = make(tmp_path, pool, map(config, range(2)))
    work.advance()
    now = 110.0
    work.advance()
    now = 111.0
    work.advance()
    # Meanwhile the other has its turn.
    assert seeds(pool) == [0, 1]
    now = 113.0
    work.advance()
    assert seeds(pool) == [0, 1, 0]


def test_run_that_cannot_be_started__fails_and_the_rest_goes_on(tmp_path):
    class Refusing(FakePool):
        def start(self, job):
            if job.config.seed == 0:
                raise PermissionError("no room for another process")
            super().start(job)

    pool, listener = Refusing(1), Listener()
    work = make(tmp_path, pool, map(config, range(2)), listener)
    assert go(work) == [State.FAILED, State.DONE]
    assert work.jobs[0].message == "could not be started: no room for another process"
    assert sum("failed 3 times, left out" in line for line in listener.said) == 1
    assert not pool.killed


def test_run_that_another_machine_trains__is_waited_for(tmp_path):
    pool = FakePool(2)
    work = make(tmp_path, pool, map(config, range(2)))
    theirs = work.jobs[0]
    theirs.path.mkdir(parents=True)
    other = {"machine": "other", "pid": 1, "progress": {"steps": 50}}
    (theirs.path / ".lock-000001").write_text(json.dumps(other))
    for _ in range(5):
        work.advance()
    assert [job.state for job in work.jobs] == [State.ELSEWHERE, State.DONE]
    assert theirs.progress == {"steps": 50}
    finish(theirs)
    assert go(work) == [State.DONE] * 2
    assert len(pool.started) == 1


def test_progress_of_a_run__is_what_its_lock_tells(tmp_path):
    from gammaprime.runs import lock

    pool = FakePool(1, endings=[None] * 9)
    work = make(tmp_path, pool, [config(0)])
    work.advance()
    with lock.hold(work.jobs[0].path) as held:
        held.progress = {"steps": 32, "total": 96}
        held.beat()
        work.advance()
    assert work.jobs[0].progress == {"steps": 32, "total": 96}


def test_folder_of_another_configuration__is_left_alone_and_the_rest_goes_on(tmp_path):
    folder = tmp_path / config(0)[1].folder
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"kind": "train", "settings": {"format": "older"}}')
    pool = FakePool(2)
    work = make(tmp_path, pool, map(config, range(2)))
    assert go(work) == [State.FAILED, State.DONE]
    assert "belongs to another configuration" in work.jobs[0].message
    assert len(pool.started) == 1


def test_finished_run_of_another_format__is_not_made_again_and_the_rest_goes_on(tmp_path):
    (old,) = plan([config(0)], tmp_path)
    finish(old)
    (old.path / "done").write_text('{"format": 2}')
    pool = FakePool(2)
    work = make(tmp_path, pool, map(config, range(2)))
    assert go(work) == [State.FAILED, State.DONE]
    assert "is in format 2" in work.jobs[0].message
    assert len(pool.started) == 1


def stop(tmp_path, codes, number, monkeypatch):
    """What is raised where a signal stops runs that end with these codes."""
    interrupts = Interrupts(active=False)
    monkeypatch.setattr(driver, "Interrupts", lambda active: interrupts)
    pool, listener = Stopping(len(codes), interrupts, codes), Listener()
    work = make(tmp_path, pool, map(config, range(number)), listener)
    with pytest.raises(Interrupted) as stop:
        driver._drive(work)
    assert stop.value.exit_code == 143
    assert listener.said == []
    assert len(pool.started) == len(codes)
    assert not pool.killed
    return work, str(stop.value)


def test_signal__stops_the_running_and_starts_no_more(tmp_path, monkeypatch):
    work, told = stop(tmp_path, [143, 130], 4, monkeypatch)
    assert [job.state for job in work.jobs] == [State.WAITING] * 4
    assert told == "stopped, every run is saved; 0 of 4 runs are done"


def test_runs_that_did_not_save_when_they_were_stopped__are_named(tmp_path, monkeypatch):
    work, told = stop(tmp_path, [143, 1, -9, BUSY], 4, monkeypatch)
    assert [job.unsaved for job in work.jobs] == [False, True, True, False]
    assert told == (
        "stopped; go back to their last checkpoints: PPO on Hopper-v4, seed 1 (code 1), "
        "PPO on Hopper-v4, seed 2 (code -9); 0 of 4 runs are done"
    )


def test_error_in_a_display__leaves_no_process_behind(tmp_path):
    class Broken(Watcher):
        def on_round(self, driver):
            raise RuntimeError("display")

    pool = FakePool(1, endings=[None])
    work = make(tmp_path, pool, [config(0)], Broken())
    with pytest.raises(RuntimeError, match="display"):
        go(work)
    assert work.count(State.RUNNING) == 1
    assert pool.killed
