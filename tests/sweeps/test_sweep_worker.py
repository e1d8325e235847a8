"""The process of one run: its order, its lease, how it ends and what it says of that."""

import json
import os
import signal
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.loops.rollout import BreakdownError
from gammaprime.runs import lease
from gammaprime.runs import old_training as training
from gammaprime.runs.folders import claim
from gammaprime.runs.interrupts import Interrupted
from gammaprime.runs.options import Protocol
from gammaprime.runs.setup import Setup
from gammaprime.runs.store import run_path
from gammaprime.sweeps import attempt, pool
from gammaprime.sweeps.pool import LocalPool
from gammaprime.sweeps.worker import BROKEN, DONE, FAILED, HELD, SAVED, Order
from runs.training_runs import AGENT, STEPS, TASK, fingerprint, run

PROTOCOL = Protocol(eval_every=96, eval_episodes=2, time_limit=20)


@pytest.fixture
def order(tmp_path):
    setup = Setup(AGENT, TASK, STEPS, 3, PROTOCOL)
    path = run_path(tmp_path, setup.name, setup.config)
    setup.close()
    return Order(path.name, str(path), setup.config, beat=0.01, checkpoint_seconds=0.0)


def test_order__survives_the_pipe(order):
    for sent in (order, replace(order, stale=(3, 4), command=("gammaprime", "run", "x"))):
        assert Order.from_line(sent.to_line()) == sent
        assert sent.to_line().count(b"\n") == 1


def test_attempt__is_the_run_that_train_makes_and_leaves_its_lease_free(order, tmp_path):
    assert attempt.attempt(order) == (DONE, "")
    calm = tmp_path / "calm"
    run(calm)
    path = tmp_path / order.name
    assert fingerprint(path) == fingerprint(calm)
    assert lease.read(path).free
    assert json.loads((path / "done").read_text())["format"] == 1
    assert attempt.attempt(order) == (DONE, "")


def test_run_of_another__is_left_alone(order, tmp_path):
    path = tmp_path / order.name
    held = lease.take(path)
    code, message = attempt.attempt(order)
    assert code == HELD
    assert "another process has this run" in message
    held.release()
    # `gammaprime train` takes no lease, but a lock.
    with claim(path, order.config, {}):
        code, message = attempt.attempt(order)
    assert code == HELD
    assert "another process is training this run right now" in message
    assert not (path / "metrics.jsonl").exists()


def test_stale_run_of_another_machine__is_taken_over_where_it_was_watched(order, tmp_path):
    path = tmp_path / order.name
    path.mkdir()
    (path / ".lease-000007").write_text('{"machine": "another", "pid": 1, "beat": 5}')
    assert attempt.attempt(order)[0] == HELD
    assert attempt.attempt(replace(order, stale=(7, 4)))[0] == HELD
    assert attempt.attempt(replace(order, stale=(7, 5)))[0] == DONE
    assert (path / "done").is_file()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BreakdownError("train/loss is not finite", {"x": np.zeros(1)}), BROKEN),
        (ValueError("task='x': no such task"), FAILED),
        (OSError("no space left on device"), FAILED),
        (ImportError("pip install 'gammaprime[bullet]'"), FAILED),
        (Interrupted(15, "stopped and saved"), 143),
    ],
)
def test_error__is_an_exit_code_and_one_line_and_the_lease_is_free(
    order, tmp_path, monkeypatch, error, code
):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(attempt, "train", fail)
    assert attempt.attempt(order) == (code, str(error))
    assert lease.read(tmp_path / order.name).free


def test_heartbeat__tells_progress_speed_and_return(order, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(lease.Lease, "beat", lambda self, progress: told.append(progress) or True)
    assert attempt.attempt(order)[0] == DONE
    last = [progress for progress in told if progress][-1]
    assert last["total"] == STEPS
    rows = training.read_rows(tmp_path / order.name / "metrics.jsonl")
    (row,) = [row for row in rows if row[STEP] == last["steps"]]
    assert last["return"] == row[attempt.RETURN]
    assert 0 < last["fps"] < 1e6


def test_speed__is_that_of_the_updates_after_the_first(monkeypatch):
    clock = iter([100.0, 104.0])
    monkeypatch.setattr(attempt.time, "monotonic", lambda: next(clock))
    reporter = attempt.Reporter()
    reporter.on_update(training.Update(32, 96, {}, {}))
    assert reporter.progress == {"steps": 32, "total": 96}
    reporter.on_update(training.Update(96, 96, {attempt.RETURN: 7.5}, {}))
    assert reporter.progress == {"steps": 96, "total": 96, "fps": 16.0, "return": 7.5}


def test_process_that_slept_and_lost_its_run__writes_nothing(order, tmp_path, monkeypatch):
    path = tmp_path / order.name

    class Loss(training.Callback):
        def on_update(self, update):
            self.before = {file: file.read_bytes() for file in path.glob("*.jsonl")}
            (path / ".lease-000002").write_text('{"free": true}')

    class LostError(Exception):
        pass

    def lost():
        raise LostError

    loss, held = Loss(), lease.take(path)
    with pytest.raises(LostError):
        attempt.start(order, [attempt.Guard(held, lost), loss], attempt.Upkeep(float("inf")))
    assert len(loss.before) == 2
    assert {file: file.read_bytes() for file in loss.before} == loss.before
    assert not (path / "checkpoints").exists()


def test_probe__measures_speed_and_size_and_stops_early(order):
    settings = order.config["settings"] | {"steps": 10 * STEPS}
    told = attempt.probe(replace(order, config={**order.config, "settings": settings}))
    assert told["fps"] > 0
    assert 5_000 < told["state_bytes"] < 100_000
    rows = training.read_rows(attempt.Path(order.path) / "metrics.jsonl")
    assert 3 <= len(rows) < 80
    path = attempt.Path(order.path)
    files = [path / "metrics.jsonl", path / "wall_clock.jsonl", *path.glob("tensorboard/*")]
    assert len(files) == 3
    size = sum(file.stat().st_size for file in files) / rows[-1][STEP]
    assert told["row_bytes_per_step"] == pytest.approx(size, rel=0.3)


STEP = "time/total_timesteps"


def worker(code, order, monkeypatch):
    """A pool with one process, which runs this code in the place of a worker."""
    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-c", code))
    made = LocalPool(1)
    made.start(order)
    return made


def wait(made):
    deadline = time.monotonic() + 30
    while not (outcomes := made.ended()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return outcomes[0]


@pytest.mark.parametrize(
    ("code", "ending", "message"),
    [
        ("import sys; sys.exit('first\\nthe disk is full')", 1, "the disk is full"),
        ("import sys; sys.exit(3)", 3, "ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", -9, "was killed by signal 9"),
        ("import sys; sys.exit(0)", 0, "ended with exit code 0"),
    ],
)
def test_ending_of_a_process__is_told_by_its_last_words(order, monkeypatch, code, ending, message):
    outcome = wait(worker(code, order, monkeypatch))
    assert outcome == (order.name, ending, message)
    # A second attempt does not repeat the words of the first.
    again = wait(worker("import sys; sys.exit(4)", order, monkeypatch))
    assert again.message == "ended with exit code 4"


def test_order__reaches_the_process(order, tmp_path, monkeypatch):
    code = "import sys; line = sys.stdin.readline(); sys.exit(line)"
    outcome = wait(worker(code, order, monkeypatch))
    assert json.loads(outcome.message)["name"] == order.name


def test_process_whose_driver_is_gone__asks_itself_to_stop(order, monkeypatch):
    code = (
        "import signal, sys, time\n"
        "from gammaprime.sweeps.worker import _stop_when_alone\n"
        "sys.stdin.buffer.readline()\n"
        "_stop_when_alone()\n"
    )
    made = worker(code, order, monkeypatch)
    time.sleep(0.3)
    assert made.ended() == []
    process = made._workers[order.name].process
    process.stdin.close()
    assert process.wait(30) == -signal.SIGTERM


def test_process_that_is_stopped_before_it_trains__has_nothing_to_save(order, monkeypatch):
    code = (
        "import sys\n"
        "from gammaprime.sweeps import worker\n"
        "class Order:\n"
        "    def from_line(line):\n"
        "        worker.os.kill(worker.os.getpid(), worker.signal.SIGTERM)\n"
        "worker.Order = Order\n"
        "sys.exit(worker.main())\n"
    )
    assert wait(worker(code, order, monkeypatch)).code in SAVED


def test_pool__stops_and_kills_what_it_started(order, monkeypatch):
    sleep = "import time; time.sleep(60)"
    made = worker(sleep, order, monkeypatch)
    made.stop()
    assert wait(made).code == -signal.SIGTERM
    made = worker(sleep, order, monkeypatch)
    process = made._workers[order.name].process
    made.kill()
    assert process.returncode == -signal.SIGKILL


def test_worker__is_not_in_the_group_that_hears_ctrl_c(order, monkeypatch):
    made = worker("import time; time.sleep(60)", order, monkeypatch)
    process = made._workers[order.name].process
    assert os.getpgid(process.pid) != os.getpgid(0)
    made.kill()
