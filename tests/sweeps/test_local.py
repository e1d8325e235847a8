"""The process of one run: its request, how it ends and what it says of that."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.agents import PPO
from gammaprime.loops.rollout import BreakdownError
from gammaprime.runs import lock, training
from gammaprime.runs.config import Evaluation, RunConfig
from gammaprime.runs.interrupts import Interrupted
from gammaprime.sweeps import forecast, local
from gammaprime.sweeps.driver import Job
from gammaprime.sweeps.local import BROKEN, BUSY, DONE, ERROR, FAILED, LOG, SAVED, LocalPool

AGENT = PPO(num_envs=2, num_steps=16, hidden=(8,), epochs=2, minibatches=2)
STEPS = 8 * AGENT.rollout_size
STEP = "time/total_timesteps"


@pytest.fixture
def job(tmp_path):
    asked = Evaluation(every=96, episodes=2)
    config = RunConfig(AGENT, "Hopper-v4", STEPS, 3, asked, time_limit=20).resolve()
    return Job("PPO", config, tmp_path / config.folder)


def attempt(job):
    return local.train_job(job.config.to_table(), job.path, 0.0)


def test_job__is_the_run_that_train_makes(job, tmp_path):
    assert attempt(job) == (DONE, "")
    calm = training.train_config(job.config, tmp_path / "calm")
    assert (job.path / "metrics.jsonl").read_bytes() == (calm.path / "metrics.jsonl").read_bytes()
    assert lock.read(job.path) is None
    assert attempt(job) == (DONE, "")


def test_run_of_another_process__is_left_alone(job):
    with lock.hold(job.path):
        code, message = attempt(job)
    assert code == BUSY
    assert "is being trained by process" in message
    assert not (job.path / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (BreakdownError("train/loss is not finite", {"x": np.zeros(1)}), BROKEN, "train/loss"),
        (OSError("no space left on device"), FAILED, "no space left on device"),
        (MemoryError(), FAILED, "MemoryError: "),
        (ValueError("task='x': no such task"), ERROR, "task='x': no such task"),
        (ImportError("pip install 'gammaprime[bullet]'"), ERROR, "pip install"),
        (KeyError("my own key"), ERROR, "KeyError: 'my own key'"),
        (Interrupted(15, "stopped and saved"), 143, "stopped and saved"),
    ],
)
def test_error__is_an_exit_code_and_one_line_and_the_log_has_the_traceback(
    job, monkeypatch, error, code, message
):
    def fail(*arguments, **more):
        raise error

    monkeypatch.setattr(training, "train_config", fail)
    found = attempt(job)
    assert found[0] == code
    assert found[1].startswith(message)
    log = job.path / LOG
    if code in SAVED:
        assert not log.exists()
    else:
        assert log.read_text().startswith("Traceback (most recent call last):\n")
        assert "raise error\n" in log.read_text()


def test_probe__measures_speed_and_size_and_stops_early(job):
    table = replace(job.config, steps=10 * STEPS).to_table()
    told = forecast.probe(table, job.path, 0.0, time.monotonic())
    assert told["fps"] > 0
    assert told["start_seconds"] > 0
    assert told["evaluation_seconds"] > 0
    assert 5_000 < told["state_bytes"] < 100_000
    rows = [json.loads(line) for line in (job.path / "metrics.jsonl").read_text().splitlines()]
    assert 3 <= len(rows) < 80
    files = [job.path / "metrics.jsonl", job.path / "wall_clock.jsonl"]
    files += job.path.glob("tensorboard/*")
    assert len(files) == 3
    size = sum(file.stat().st_size for file in files) / rows[-1][STEP]
    assert told["row_bytes_per_step"] == pytest.approx(size, rel=0.3)


def test_probe__measures_a_run_of_one_update_by_it(job):
    one = replace(job.config, steps=job.config.agent.rollout_size).to_table()
    told = forecast.probe(one, job.path.parent / "one", 0.0, time.monotonic())
    assert told["fps"] > 0
    assert told["row_bytes_per_step"] > 0


def start(code, job, monkeypatch):
    """A pool with one process, which runs this code in the place of the module."""
    monkeypatch.setattr(local, "COMMAND", (sys.executable, "-c", code))
    pool = LocalPool(1, 30.0)
    pool.start(job)
    return pool


def wait(pool):
    deadline = time.monotonic() + 30
    while not (ended := pool.ended()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return ended[0]


def process_of(pool):
    ((_, process, _),) = pool._running
    return process


@pytest.mark.parametrize(
    ("code", "ending", "message"),
    [
        ("import sys; sys.exit('first\\nthe disk is full')", 1, "the disk is full"),
        ("import sys; sys.exit(3)", 3, "ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", -9, "was killed by signal 9"),
        ("import sys; sys.exit(0)", 0, "ended with exit code 0"),
    ],
)
def test_ending_of_a_process__is_told_by_its_last_line(job, monkeypatch, code, ending, message):
    assert wait(start(code, job, monkeypatch)) == (job, ending, message)
    # A second process does not repeat the line of the first.
    again = wait(start("import sys; sys.exit(4)", job, monkeypatch))
    assert again == (job, 4, "ended with exit code 4")


def test_request__reaches_the_process(job, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gammaprime", "run", "mine.toml"])
    code = "import sys; line = sys.stdin.readline(); sys.exit(line)"
    _, _, line = wait(start(code, job, monkeypatch))
    assert json.loads(line) == {
        "config": job.config.to_table(),
        "path": str(job.path),
        "checkpoint_seconds": 30.0,
        "command": ["gammaprime", "run", "mine.toml"],
    }


def test_process_whose_driver_is_gone__asks_itself_to_stop(job, monkeypatch):
    code = (
        "import sys\n"
        "from gammaprime.sweeps.local import _stop_without_driver\n"
        "sys.stdin.buffer.readline()\n"
        "_stop_without_driver()\n"
    )
    pool = start(code, job, monkeypatch)
    time.sleep(0.3)
    assert pool.ended() == []
    process = process_of(pool)
    process.stdin.close()
    assert process.wait(30) == -signal.SIGTERM


def test_process_that_is_stopped_before_it_trains__has_nothing_to_save(job, monkeypatch):
    code = (
        "import sys\n"
        "from gammaprime.sweeps import local\n"
        "local.json.loads = lambda line: local.os.kill(local.os.getpid(), local.signal.SIGTERM)\n"
        "sys.exit(local.main())\n"
    )
    assert wait(start(code, job, monkeypatch))[1] in SAVED


def test_pool__stops_and_kills_what_it_started(job, monkeypatch):
    sleep = "import time; time.sleep(60)"
    pool = start(sleep, job, monkeypatch)
    pool.stop()
    assert wait(pool)[1] == -signal.SIGTERM
    pool = start(sleep, job, monkeypatch)
    process = process_of(pool)
    pool.kill()
    assert process.returncode == -signal.SIGKILL


def test_process__is_not_in_the_group_that_hears_ctrl_c(job, monkeypatch):
    pool = start("import time; time.sleep(60)", job, monkeypatch)
    assert os.getpgid(process_of(pool).pid) != os.getpgid(0)
    pool.kill()


def test_process__imports_nothing_from_the_current_folder(tmp_path):
    for name in ("random", "json", "jax"):
        (tmp_path / f"{name}.py").write_text("import sys; sys.exit('a file of the folder')")
    done = subprocess.run(
        local.COMMAND, input=b"no JSON\n", cwd=tmp_path, capture_output=True, check=False
    )
    assert b"a file of the folder" not in done.stderr
    assert b"JSONDecodeError" in done.stderr


def test_process__sets_its_threads_before_numpy_is_imported():
    code = "import sys, gammaprime.sweeps.local; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"
