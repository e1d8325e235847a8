"""Real processes: sweeps whose workers and drivers are killed, stopped, or meet each other."""

import json
import re
import signal
import tempfile

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.sweeps.forecast import forecast
from gammaprime.sweeps.spec import load_experiment
from sweeps.sweep_runs import (
    SPEC,
    fingerprints,
    finish,
    kill_workers,
    num_rows,
    start,
    wait_for,
    wait_for_rows,
    workers,
    write,
)

pytestmark = pytest.mark.slow


def test_killed_workers_and_drivers__change_no_bit(environment, calm_sweep, tmp_path):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment)
    wait_for_rows(out, 30, driver)
    kill_workers(out)
    before = num_rows(out)
    wait_for(lambda: num_rows(out) > before + 40 or len(workers(out)) == 2, driver)
    wait_for_rows(out, 80, driver)
    driver.kill()
    _, told = driver.communicate()
    assert "was killed by signal 9; again from step" in told
    # Its workers notice, save and stop; meanwhile the same command waits for them.
    second = start(file, out, environment)
    wait_for_rows(out, 140, second)
    kill_workers(out)
    second.kill()
    second.communicate()
    third = start(file, out, environment)
    out_text, err = third.communicate(timeout=400)
    assert third.returncode == 0, out_text + err
    assert "4 of 4 runs done" in out_text
    assert fingerprints(file, out) == calm_sweep


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_to_the_driver__saves_every_run_and_says_how_to_go_on(
    environment, calm_sweep, tmp_path, number, code
):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment)
    wait_for_rows(out, 30, driver)
    driver.send_signal(number)
    _, err = driver.communicate(timeout=100)
    assert driver.returncode == code
    assert "stopped, every run is saved; 0 of 4 runs are done; go on with: gammaprime run" in err
    assert "Traceback" not in err
    assert workers(out) == []
    rows = num_rows(out)
    finish(file, out, environment)
    assert rows >= 30
    assert fingerprints(file, out) == calm_sweep


def test_two_sweeps_on_one_folder__run_nothing_twice(environment, calm_sweep, tmp_path):
    file, out = write(tmp_path), tmp_path / "runs"
    drivers = [start(file, out, environment, "--workers", "1") for _ in range(2)]
    told = [driver.communicate(timeout=400) for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], told
    finished = [re.findall(r"^(.*): done$", err, re.MULTILINE) for _, err in told]
    assert all(finished), "both should have had a share"
    assert len(finished[0]) + len(finished[1]) == len(set(finished[0] + finished[1])) == 4
    assert all("4 of 4 runs done" in out_text for out_text, _ in told)
    assert fingerprints(file, out) == calm_sweep


def test_run_that_breaks_down__is_named_and_the_rest_is_done(environment, calm_sweep, tmp_path):
    broken = SPEC.replace("[figure]", '[[variants]]\nname = "wild"\nlearning_rate = 1e38\n[figure]')
    file, out = write(tmp_path, broken), tmp_path / "runs"
    driver = start(file, out, environment, "--seeds", "1")
    told, err = driver.communicate(timeout=400)
    assert driver.returncode == 3
    assert "2 of 3 runs done" in told
    assert re.search(r"missing:\n  wild on Hopper-v4, seed 1: .* is not finite", told)
    assert "to try these again: gammaprime run" in told
    assert err.count("wild on Hopper-v4, seed 1: ") == 3


def test_manifest__has_the_command_of_the_sweep_and_one_thread(environment, tmp_path):
    file, out = write(tmp_path), tmp_path / "runs"
    finish(file, out, environment, "--seeds", "3", "--steps", "256", "--tasks", "Swimmer-v4")
    folders = list(out.glob("ppo-*"))
    assert len(folders) == 2
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["command"][:3] == ["gammaprime", "run", str(file)]
        assert manifest["threads"]["NPROC"] == "1"
        config = json.loads((folder / "config.json").read_text())["settings"]
        assert (config["steps"], config["seed"], config["task"]) == (256, 3, "Swimmer-v4")


def test_cost__is_measured_by_processes_that_leave_nothing(environment, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    jobs = load_experiment(write(tmp_path)).change(steps=10**6).jobs(tmp_path / "runs")
    told = forecast(jobs, tmp_path / "runs", 2, lambda text: None)
    assert told.steps == 4 * 10**6
    assert 10 < told.seconds < 10**6
    assert 10**5 < told.num_bytes < 10**9
    assert [file.name for file in tmp_path.iterdir()] == ["small.toml"]
