"""Small sweeps in real processes, and what of them must be the same bits."""

import os
import signal
import subprocess
import sys
import time

from gammaprime.runs import lock
from gammaprime.sweeps.spec import load_experiment
from runs.training_runs import fingerprint

SPEC = """
title = "a small sweep"
base = { kind = "ppo", num_envs = 2, num_steps = 64, hidden = [8], epochs = 2, minibatches = 4 }
tasks = ["Hopper-v4"]
seeds = [0, 1]
steps = 19_200
evaluation = { every = 4_000, episodes = 2 }
[[variants]]
name = "PPO"
[[variants]]
name = "PPO(K)"
advantage = "taylor_q"
[figure]
kind = "curves"
"""
DRIVER = "import sys; from gammaprime.cli import main; sys.exit(main(sys.argv[1:]))"
QUICK = ("--checkpoint-seconds", "0")


def write(folder, text=SPEC):
    file = folder / "small.toml"
    file.write_text(text)
    return file


def command(file, out, *more):
    return [sys.executable, "-c", DRIVER, "run", str(file), "--out", str(out), *QUICK, *more]


def start(file, out, environment, *more):
    """A driver in a process of its own."""
    return subprocess.Popen(
        command(file, out, *more),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(file, out, environment, *more):
    done = subprocess.run(
        command(file, out, *more), env=environment, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def num_rows(out):
    return sum(file.read_bytes().count(b"\n") for file in out.glob("*/metrics.jsonl"))


def wait_for(condition, process=None):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "this takes too long"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.005)


def wait_for_rows(out, number, process):
    wait_for(lambda: num_rows(out) >= number, process)


def workers(out):
    """Process numbers of those that are training in a folder now."""
    holders = (lock.read(folder) for folder in out.glob("*") if folder.is_dir())
    return [holder.pid for holder in holders if holder is not None and holder.pid]


def kill_workers(out):
    for pid in workers(out):
        os.kill(pid, signal.SIGKILL)


def fingerprints(file, out):
    paths = {job.path for job in load_experiment(file).jobs(out)}
    assert all((path / "done").is_file() for path in paths)
    return {path.name: fingerprint(path) for path in paths}
