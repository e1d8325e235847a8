"""Runs from Python and on the command line whose terminal is closed, or that are stopped early."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.runs.directory import from_json
from gammaprime.runs.interrupts import Interrupted, Interrupts

SCRIPT = """
import os, signal, sys
import gammaprime as gp

class Kill(gp.Callback):
    def on_update(self, update):
        if update.steps == 32 and "kill" in sys.argv:
            os.kill(os.getpid(), signal.SIGTERM)

agent = gp.PPO(num_steps=16, hidden=(4,), epochs=1, minibatches=1)
progress = True if "progress" in sys.argv else None
gp.train(agent, "Hopper-v4", 64, out="run", callbacks=Kill(), progress=progress, tensorboard=False,
         evaluation=gp.Evaluation(every=0), checkpoint_seconds=1e9)
"""
TRAIN = "train ppo --task Hopper-v4 --num-steps 16 --hidden 4 --epochs 1 --minibatches 1"
TRAIN += " --evaluation.every 0 --no-tensorboard --out run"


def python(folder, words, closed="2>&-"):
    (folder / "script.py").write_text(SCRIPT)
    return subprocess.run(
        ["sh", "-c", f"{sys.executable} script.py {words} {closed}"], cwd=folder, timeout=300
    )


@pytest.mark.parametrize("words", ["", "progress"])
def test_run_from_python__needs_no_standard_error(tmp_path, words):
    assert python(tmp_path, words).returncode == 0
    assert (tmp_path / "run/done").is_file()


def test_run_that_is_stopped_without_a_standard_error__is_saved(tmp_path):
    assert python(tmp_path, "kill").returncode != 0
    assert [file.name for file in tmp_path.glob("run/checkpoints/*.json")] == ["000000000032.json"]


def start(folder, steps, **streams):
    # A shell lets its background jobs ignore Ctrl-C, and they their children.
    hear = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    hear += "from gammaprime.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", hear, *TRAIN.split(), "--steps", str(steps)]
    return subprocess.Popen(words, cwd=folder, **streams)


def test_command__goes_on_when_its_terminal_hangs_up_and_nobody_reads(tmp_path):
    process = start(tmp_path, 32_000, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (tmp_path / "run/metrics.jsonl").is_file():
        time.sleep(0.05)
        assert process.poll() is None
    process.stdout.close()
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=300) == 0
    assert (tmp_path / "run/done").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 1.3, 1.6, 1.9, 2.2, 2.6, 3.0, 4.0])
def test_ctrl_c_at_any_moment_of_the_start__stops_without_a_traceback(tmp_path, seconds):
    process = start(tmp_path, 1_000_000, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    try:
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    # Python itself ends by the signal if it came while code in a text was evaluated.
    assert process.returncode in (130, -signal.SIGINT), told
    assert "Traceback" not in told
    assert told.strip().splitlines()[-1].startswith("gammaprime: ")


def test_signal_before_the_first_update__stops_a_run_that_can_go_on(tmp_path):
    from runs.training_runs import run

    out = tmp_path / "run"
    with Interrupts(active=True):
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted, match="stopped before it began; go on with: gammaprime"):
            run(out)
    assert from_json(out / "config.json")["kind"] == "train"
    assert not list(Path(out).glob("checkpoints/*"))
    assert run(out).done
