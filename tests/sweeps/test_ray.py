"""Real Ray clusters on this machine: the same bits as without one, also when a node is lost."""

import hashlib
import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("ray")

import ray

from gammaprime.runs import directory, lock
from gammaprime.runs.directory import to_json
from gammaprime.runs.interrupts import Interrupts
from gammaprime.sweeps import ray as ray_module
from gammaprime.sweeps.driver import Driver, State, Watcher
from gammaprime.sweeps.local import BUSY, DONE, FAILED, LOG, SAVED
from gammaprime.sweeps.ray import RayPool, bring_home, pack
from gammaprime.sweeps.spec import load_experiment
from sweeps.sweep_runs import (
    fingerprints,
    finish,
    num_rows,
    start,
    wait_for,
    wait_for_rows,
    workers,
    write,
)

# Ray warns of what it will do in some later version, and leaves sockets to the end of the process.
pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG = {"kind": "train", "settings": {"seed": 0}}
FILES = {
    "checkpoints/000000000096.json": b"{}\n",
    "checkpoints/000000000096.safetensors": b"state",
    "config.json": to_json(CONFIG),
    "done": to_json({"metrics_sha256": hashlib.sha256(b"{}\n").hexdigest()}),
    "manifest.json": b"{}\n",
    "metrics.jsonl": b"{}\n",
    "policy.npz": b"policy",
    "tensorboard/events": b"events",
    LOG: b"said",
}


@pytest.mark.parametrize("written", range(len(FILES) + 1))
def test_files_that_come_home__are_a_run_wherever_that_is_cut(tmp_path, monkeypatch, written):
    whole, left = directory.write_whole, [*range(written)]

    def write(path, content):
        if not left:
            raise OSError("no space left on device")
        left.pop()
        whole(path, content)

    monkeypatch.setattr(ray_module, "write_whole", write)
    path = tmp_path / "run"
    if written < len(FILES):
        with pytest.raises(OSError, match="no space"):
            bring_home(path, FILES)
    else:
        bring_home(path, FILES)
        (path / ".lock-000001").touch()
        assert pack(path) == FILES
    assert directory.is_done(path, CONFIG) == (written == len(FILES))
    states = {file.stem for file in path.glob("checkpoints/*.json")}
    assert states <= {file.stem for file in path.glob("checkpoints/*.safetensors")}
    assert not states or (path / "metrics.jsonl").is_file()


def test_tokens__of_drivers_that_have_ended_are_removed(tmp_path):
    ended, living = tmp_path / ".shared-a", tmp_path / ".shared-b"
    ended.write_bytes(to_json(lock.this_process() | {"created": 1.0}))
    living.write_bytes(to_json(lock.this_process()))
    token = ray_module._make_token(tmp_path)
    assert set(tmp_path.iterdir()) == {living, token}


@pytest.fixture
def job(tmp_path):
    return load_experiment("smoke").jobs(tmp_path)[0]


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """A pool without a cluster, whose tasks are what they return or raise."""
    monkeypatch.setattr(ray_module, "_connect", lambda address, workers: None)
    monkeypatch.setattr(ray_module.ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray_module.ray, "wait", lambda tasks, num_returns, timeout: (tasks, []))

    def get(ending):
        if isinstance(ending, Exception):
            raise ending
        return ending.value

    monkeypatch.setattr(ray_module.ray, "get", get)
    made = RayPool("local", tmp_path, 1, 30.0)
    yield made
    made.close()
    assert list(tmp_path.glob(".shared-*")) == []


class Task:
    """A task that has ended with this."""

    def __init__(self, *value):
        self.value = value


def end(pool, job, ending, apart=False):
    """What the pool makes of a task that ends so."""
    pool.shared = not apart
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ray_module, "train_on_node", type("Function", (), {"remote": lambda *words: ending})
        )
        pool.start(job)
    assert (lock.read(job.path) is not None) == apart
    ((ended, code, message),) = pool.ended()
    assert ended is job
    assert lock.read(job.path) is None
    return code, message


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ray.exceptions.NodeDiedError("unplugged"), FAILED),
        (ray.exceptions.WorkerCrashedError(), FAILED),
        (ray.exceptions.OutOfMemoryError("it takes too much"), FAILED),
        (ray.exceptions.RuntimeEnvSetupError("no such package"), FAILED),
        (ray.exceptions.TaskCancelledError(), 143),
    ],
)
def test_task_that_ray_gives_up__has_failed_unless_it_was_cancelled(pool, job, error, code):
    assert end(pool, job, error)[0] == code
    assert 143 in SAVED


def test_files_of_a_task__are_brought_home(pool, job):
    assert end(pool, job, Task(DONE, "", {"done": b"{}"}, True), apart=True) == (DONE, "")
    assert (job.path / "done").is_file()


def test_files_that_cannot_be_brought_home__are_a_failure(pool, job, monkeypatch):
    def full(path, files):
        raise OSError("no space left on device")

    monkeypatch.setattr(ray_module, "bring_home", full)
    found = end(pool, job, Task(DONE, "", {"done": b"{}"}, True), apart=True)
    assert found == (FAILED, "could not be brought home: no space left on device")


def test_files_of_a_run_that_was_lost__are_not_brought_home(pool, job):
    class Late(Task):
        """Ends after another process has taken the run."""

        @property
        def value(self):
            (job.path / ".lock-000002").write_text('{"free": true}')
            return (DONE, "", {"done": b"{}"}, True)

        @value.setter
        def value(self, value):
            pass

    assert end(pool, job, Late(), apart=True)[0] == BUSY
    assert not (job.path / "done").exists()


def test_node_that_does_not_see_the_folder__is_met_once(pool, job):
    unseen = Task(BUSY, "its node does not see the results folder", {}, False)
    assert end(pool, job, unseen)[0] == BUSY
    assert not pool.shared


def test_run_that_another_process_trains__is_not_given_to_the_cluster(pool, job):
    pool.shared = False
    with lock.hold(job.path), pytest.raises(lock.BusyError):
        pool.start(job)
    assert pool.ended() == []


def test_pool_that_cannot_be_made__leaves_no_ray_behind(tmp_path, monkeypatch):
    def full(folder):
        assert ray.is_initialized()
        raise OSError("no space left on device")

    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # a cluster that "local" must not join
    monkeypatch.setattr(ray_module, "_make_token", full)
    with pytest.raises(OSError, match="no space"):
        RayPool("local", tmp_path, 1, 30.0)
    assert not ray.is_initialized()


def test_workers__import_nothing_from_the_current_folder_or_that_of_the_runs(tmp_path, monkeypatch):
    here, runs = tmp_path / "here", tmp_path / "runs"
    for folder in (here, runs):
        folder.mkdir()
        (folder / "colorsys.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(here)

    @ray.remote
    def imported():
        import colorsys

        return colorsys.__file__

    pool = RayPool("local", runs, 1, 30.0)
    try:
        assert not ray.get(imported.remote(), timeout=100).startswith(str(tmp_path))
    finally:
        pool.close()
    assert Path.cwd() == here


@pytest.fixture
def cluster(environment, monkeypatch):
    """Two nodes of one core each; the second can be killed."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.second = made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.mark.slow
def test_node_that_is_killed__changes_no_bit(environment, calm_sweep, cluster, tmp_path):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment, "--ray", cluster.address)
    wait_for(lambda: len(workers(out)) == 2, driver)
    wait_for_rows(out, 40, driver)
    before = set(workers(out))
    cluster.remove_node(cluster.second, allow_graceful=False)
    told, err = driver.communicate(timeout=500)
    assert driver.returncode == 0, told + err
    assert "4 of 4 runs done" in told
    assert any(not _alive(pid) for pid in before)
    assert fingerprints(file, out) == calm_sweep


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_driver_that_is_killed__is_followed_by_the_same_command(
    environment, calm_sweep, cluster, tmp_path
):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment, "--ray", cluster.address)
    wait_for_rows(out, 40, driver)
    driver.kill()
    driver.communicate()
    # Ray ends the tasks of a driver that is gone.
    finish(file, out, environment, "--ray", cluster.address)
    assert fingerprints(file, out) == calm_sweep


@pytest.mark.slow
def test_signal__saves_the_runs_on_the_cluster(environment, calm_sweep, cluster, tmp_path):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment, "--ray", cluster.address)
    wait_for_rows(out, 20, driver)
    driver.send_signal(signal.SIGTERM)
    _, err = driver.communicate(timeout=200)
    assert driver.returncode == 143
    assert "stopped, every run is saved; 0 of 4 runs are done; go on with: gammaprime run" in err
    assert "Traceback" not in err
    assert workers(out) == []
    assert num_rows(out) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
def test_cluster_without_shared_storage__holds_the_locks_and_brings_all_home(
    environment, calm_sweep, tmp_path, monkeypatch, known
):
    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    file, home = write(tmp_path), tmp_path / "home"
    jobs = load_experiment(file).jobs(home)
    held = set()

    class Looking(Watcher):
        def on_round(self, driver):
            held.update(job.path for job in jobs if lock.read(job.path) is not None)

    pool = RayPool("local", home, 2, 30.0)
    # As on a node that does not see the folder, which is known before or met by the first runs.
    pool._token.unlink()
    pool.shared = not known
    try:
        driver = Driver(jobs, pool, Looking())
        driver.run(Interrupts(active=False))
    finally:
        pool.close()
    assert driver.count(State.DONE) == 4
    assert held == {job.path for job in jobs}
    assert fingerprints(file, home) == calm_sweep


@pytest.mark.slow
def test_run_that_is_stopped_without_shared_storage__comes_home_and_goes_on(
    environment, calm_sweep, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    file, home, scratch = write(tmp_path), tmp_path / "home", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    monkeypatch.setenv("TMPDIR", str(scratch))
    jobs = load_experiment(file).change(seeds=[0]).jobs(home)
    pool = RayPool("local", home, 2, 0.0)
    pool.shared = False
    interrupts = Interrupts(active=False)

    class Stop(Watcher):
        def on_round(self, driver):
            files = list(scratch.glob("*/*/metrics.jsonl"))
            if len(files) == 2 and all(file.read_bytes().count(b"\n") > 20 for file in files):
                interrupts.asked = signal.SIGTERM

    try:
        driver = Driver(jobs, pool, Stop())
        driver.run(interrupts)
    finally:
        pool.close()
    assert not any(job.unsaved for job in jobs)
    assert [job.steps_left > 0 for job in jobs] == [True, True]
    finish(file, home, environment)
    assert fingerprints(file, home) == calm_sweep
