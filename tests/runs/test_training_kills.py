"""Real processes: kill -9 at random moments, other cores, the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from runs.training_runs import fingerprint

OFF_POLICY = (
    "--num-envs 2 --num-steps 32 --updates-per-step 0.25 --hidden 8 --batch-size 8 "
    "--replay-size 3000 --random-steps 640 --learning-starts 640"
)
SMALL = {
    "ppo": "ppo --num-envs 2 --num-steps 64 --hidden 8 --epochs 2 --minibatches 4",
    "trpo": "trpo --num-envs 2 --num-steps 64 --hidden 8 --critic.epochs 2 --normalise-obs",
    "pg": "pg --num-envs 2 --num-steps 64 --hidden 8 --critic.epochs 2 --scale-rewards",
    "td3": f"td3 {OFF_POLICY}",
    "sac": f"sac {OFF_POLICY}",
}
RATIO = ["weighting:density-ratio", "--weighting.recent-size=500", "--weighting.batch-size=8"]
EVALUATION = "--evaluation.every 4000 --evaluation.episodes 2"
SHARED = f"--seed 5 {EVALUATION} --checkpoint-seconds 0 --no-tensorboard"


START = """
import os, sys
if "ONLY_CORE" in os.environ:
    os.sched_setaffinity(0, {int(os.environ["ONLY_CORE"])})
from gammaprime.cli import main
sys.exit(main(sys.argv[1:]))
"""


def command(kind, task, steps, out, *more):
    options = f"train {SMALL[kind]} --task {task} --steps {steps} {SHARED} --out {out}".split()
    return [sys.executable, "-c", START, *options, *more]


def finish(arguments, environment):
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def num_rows(out):
    file = out / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.is_file() else 0


def kill_at_random(arguments, environment, out, rng):
    """Kill -9 a process some updates after it has gone on; False if it was done before."""
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # A resumed run first cuts its metrics back, so any change of the file is its own.
    before = num_rows(out)
    wanted = before + rng.randrange(1, 25)
    deadline = time.monotonic() + 200
    while num_rows(out) < wanted and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, 0.02))
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def assert_survives_kills(kind, task, steps, kills, environment, tmp_path, *more):
    """``more``: options of the run that is killed, which change no number."""
    calm, hunted = tmp_path / "calm", tmp_path / "hunted"
    finish(command(kind, task, steps, calm), environment)
    rng = random.Random(kind + task)
    killed = 0
    for _ in range(kills):
        arguments = command(kind, task, steps, hunted, *more)
        killed += kill_at_random(arguments, environment, hunted, rng)
    assert killed == kills, "the run was too short to be killed that often"
    finish(command(kind, task, steps, hunted, *more), environment)
    assert fingerprint(hunted) == fingerprint(calm)
    assert (hunted / "done").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
def test_kill_at_random_moments__changes_no_bit(environment, tmp_path, threads):
    more = ("--threads", threads)
    assert_survives_kills("ppo", "Hopper-v4", 12_800, 3, environment, tmp_path, *more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "task"),
    [
        *(("ppo", "Ant-v5"), ("trpo", "Ant-v5"), ("pg", "Walker2d-v4")),
        *(("ppo", "HalfCheetahBulletEnv-v0"), ("trpo", "HalfCheetahBulletEnv-v0")),
        ("ppo", "Walker2DBulletEnv-v0"),
    ],
)
def test_many_kills__change_no_bit(environment, tmp_path, kind, task):
    if "Bullet" in task:
        pytest.importorskip("pybullet_envs_gymnasium")
    assert_survives_kills(kind, task, 19_200, 5, environment, tmp_path)


@pytest.mark.slow
def test_kills__change_no_bit_of_a_time_aware_run_with_many_heads(environment, tmp_path):
    slots = ["--time-feature", "--time-limit", "100", "advantage:taylor-critic"]
    slots += ["--advantage.order", "3", "weighting:taylor-weight", "--weighting.order", "10"]
    calm, hunted = tmp_path / "calm", tmp_path / "hunted"
    finish(command("ppo", "Hopper-v5", 19_200, calm, *slots), environment)
    rng = random.Random(0)
    for _ in range(4):
        assert kill_at_random(
            command("ppo", "Hopper-v5", 19_200, hunted, *slots), environment, hunted, rng
        )
    finish(command("ppo", "Hopper-v5", 19_200, hunted, *slots), environment)
    assert fingerprint(hunted) == fingerprint(calm)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "task"), [("td3", "Ant-v4"), ("sac", "Hopper-v4")])
def test_many_kills__change_no_bit_of_a_run_with_a_replay(environment, tmp_path, kind, task):
    calm, hunted = tmp_path / "calm", tmp_path / "hunted"
    finish(command(kind, task, 12_800, calm, *RATIO), environment)
    rng = random.Random(kind + task)
    for _ in range(5):
        arguments = command(kind, task, 12_800, hunted, *RATIO)
        assert kill_at_random(arguments, environment, hunted, rng)
    assert list((hunted / "checkpoints/replay").glob("*.safetensors"))
    cut_newest_checkpoint(hunted)
    resumed = finish(command(kind, task, 12_800, hunted, *RATIO), environment)
    assert "going back to step" in resumed.stderr
    assert fingerprint(hunted) == fingerprint(calm)
    assert not (hunted / "checkpoints/replay").exists()


def cut_newest_checkpoint(out):
    """As a disk does that lies about what it has written."""
    newest = max((out / "checkpoints").glob("*.json")).with_suffix(".safetensors")
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ppo", "td3"])
def test_two_processes__on_all_cores_and_on_one__give_the_same_bits(environment, tmp_path, kind):
    free, bound, uncached = (tmp_path / name for name in ("free", "bound", "uncached"))
    core = min(os.sched_getaffinity(0))
    finish(command(kind, "Hopper-v4", 1_280, free), environment)
    finish(
        command(kind, "Hopper-v4", 1_280, bound),
        # Whatever the user's shell says of threads, a run has one.
        environment | {"OMP_NUM_THREADS": "2", "NPROC": "2", "ONLY_CORE": str(core)},
    )
    finish(command(kind, "Hopper-v4", 1_280, uncached, "--no-compilation-cache"), environment)
    assert fingerprint(bound) == fingerprint(free)
    assert fingerprint(uncached) == fingerprint(free)
    cores = [json.loads((out / "manifest.json").read_text())["cores"] for out in (free, bound)]
    assert cores[1] == 1
    threads = json.loads((bound / "manifest.json").read_text())["threads"]
    assert {name: threads[name] for name in ("NPROC", "OMP_NUM_THREADS")} == {
        "NPROC": "1",
        "OMP_NUM_THREADS": "1",
    }


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal__exits_with_its_code_and_the_resume_command(environment, tmp_path, number, code):
    out = tmp_path / "run"
    process = subprocess.Popen(
        command("ppo", "Hopper-v4", 192_000, out),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    while num_rows(out) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"go on with: gammaprime resume {out}" in err
    assert "Traceback" not in err
