"""Real Ray clusters on this machine: the same bits as without one, also when a node is lost."""

import signal
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("ray")

import ray

from gammaprime.runs.interrupts import Interrupts
from gammaprime.runs.lease import Watch, read, take
from gammaprime.sweeps import node, ray_pool, spec
from gammaprime.sweeps.pool import GONE
from gammaprime.sweeps.schedule import FINISHED, Schedule, plan
from gammaprime.sweeps.worker import DONE, FAILED, HELD, LOST, SAVED, Order
from sweeps.sweep_runs import (
    SPEC,
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
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


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


def test_node_that_is_killed__changes_no_bit(environment, calm_sweep, cluster, tmp_path):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment, "--ray", cluster.address)
    wait_for(lambda: len(workers(out)) == 2, driver)
    wait_for_rows(out, 40, driver)
    cluster.remove_node(cluster.second, allow_graceful=False)
    told, err = driver.communicate(timeout=500)
    assert driver.returncode == 0, told + err
    assert "its worker or node was lost" in err
    assert "again from step" in err
    assert fingerprints(file, out) == calm_sweep


def test_driver_that_is_killed__is_followed_by_the_same_command(
    environment, calm_sweep, cluster, tmp_path
):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment, "--ray", cluster.address)
    wait_for_rows(out, 40, driver)
    driver.kill()
    driver.communicate()
    # Ray ends the tasks of a driver that is gone, and their processes save and stop.
    finish(file, out, environment, "--ray", cluster.address)
    assert fingerprints(file, out) == calm_sweep


def test_signal__saves_the_runs_on_the_cluster(environment, cluster, tmp_path):
    file, out = write(tmp_path), tmp_path / "runs"
    driver = start(file, out, environment, "--ray", cluster.address)
    wait_for_rows(out, 20, driver)
    driver.send_signal(signal.SIGTERM)
    _, err = driver.communicate(timeout=200)
    assert driver.returncode == 143
    assert "go on with: gammaprime run" in err
    assert "Traceback" not in err
    wait_for(lambda: not workers(out))
    assert num_rows(out) >= 20


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ray.exceptions.NodeDiedError("unplugged"), GONE),
        (ray.exceptions.LocalRayletDiedError(), GONE),
        (ray.exceptions.WorkerCrashedError(), GONE),
        (ray.exceptions.OwnerDiedError("00", None, ""), GONE),
        (ray.exceptions.OutOfMemoryError("it takes too much"), FAILED),
        (ray.exceptions.TaskUnschedulableError("no such node"), FAILED),
        (ray.exceptions.RuntimeEnvSetupError("no such package"), FAILED),
        (ray.exceptions.TaskCancelledError(), ray_pool.UNBEGUN.code),
    ],
)
def test_end_of_a_task__is_blamed_on_its_node_or_on_its_run(monkeypatch, error, code):
    def get(task):
        raise error

    monkeypatch.setattr(ray_pool.ray, "get", get)
    assert ray_pool.told_by("a task").code == code


def test_node_that_does_not_see_the_folder__sends_the_files_home(environment, calm_sweep, tmp_path):
    """The task itself, given a folder of its node; whatever was at home before is replaced."""
    file, home = write(tmp_path), tmp_path / "home"
    planned = spec.load(str(file)).runs()[0]
    path = planned.path(home)
    (path / "checkpoints").mkdir(parents=True)
    (path / "checkpoints/000000000001.json").write_text("of a run that was lost")
    order = Order(path.name, str(path), planned.config, beat=0.1, cache=False)
    told = []
    scratch = f"{tmp_path}/node/{path.name}"
    report = node.look_after(order, scratch, told.append)
    assert report.code == DONE, report.message
    assert told[-1]["steps"] > 0
    assert (tmp_path / "node" / path.name / "done").is_file()
    node.bring_home(path, report.files)
    node.tidy(scratch)
    assert not (tmp_path / "node").exists()
    only = SPEC.replace("[0, 1]", "[0]").partition('[[variants]]\nname = "PPO(K)"')
    one = write(tmp_path, only[0] + '[figure]\nkind = "curves"\n')
    assert fingerprints(one, home) == {path.name: calm_sweep[path.name]}


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """A pool whose nodes do not see its folder, and that no other cluster's address leads away."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ray_pool, "every_node_sees", lambda token: False)
    pool = ray_pool.RayPool("local", tmp_path, 1)
    yield pool
    pool.close()
    assert list(tmp_path.glob(".shared-*")) == []


def test_run_that_another_has__is_not_started_on_the_cluster(apart, tmp_path):
    take(tmp_path / "run")
    apart.start(Order("run", str(tmp_path / "run"), {}))
    assert [(outcome.name, outcome.code) for outcome in apart.ended()] == [("run", HELD)]
    assert apart.ended() == []


def arrive(pool, path, report, held):
    """What the pool makes of a task that has told this."""
    order = Order("run", str(path), {})
    pool._tasks["run"] = (ray.put(report), order)
    if held is not None:
        pool._leases["run"] = held
    (outcome,) = pool.ended()
    return outcome


def test_files_that_cannot_be_brought_home__are_a_failed_attempt(apart, tmp_path, monkeypatch):
    def full(path, files):
        raise OSError("no space left on device")

    path, report = tmp_path / "run", node.Report(DONE, "", {"done": b"{}"}, "1" * 56)
    monkeypatch.setattr(ray_pool, "bring_home", full)
    outcome = arrive(apart, path, report, take(path))
    assert outcome == ("run", FAILED, "could not be brought home: no space left on device")
    assert apart._tidied == []
    assert read(path).free


def test_node_without_the_folder__begins_nothing_once_all_was_stopped(apart, tmp_path):
    path, report = tmp_path / "run", node.Report(ray_pool.UNSEEN, "", {})
    apart.stop()
    assert arrive(apart, path, report, None).code in SAVED
    assert not apart._tasks
    assert not path.exists()


def test_files_of_a_run_that_was_lost__are_not_brought_home(apart, tmp_path):
    path, report = tmp_path / "run", node.Report(DONE, "", {"done": b"{}"}, "1" * 56)
    held = take(path)
    take(path, stale=read(path).token)
    assert arrive(apart, path, report, held).code == LOST
    assert not (path / "done").exists()


@pytest.mark.parametrize("later", [False, True])
def test_pool_without_shared_storage__holds_the_leases_and_brings_all_home(
    environment, calm_sweep, tmp_path, monkeypatch, later
):
    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    monkeypatch.setattr(ray_pool, "every_node_sees", lambda token: later)
    file, home = write(tmp_path), tmp_path / "home"
    jobs = plan(spec.load(str(file)).runs(), home)
    held = []

    def show(schedule):
        held.extend(job.name for job in jobs if (s := read(job.path)) is not None and not s.free)

    pool = ray_pool.RayPool("local", home, 2)
    # As for a node that comes later, where there is no such file.
    pool._token.unlink()
    try:
        work = Schedule(
            jobs,
            pool,
            lambda job, stale: Order(job.name, str(job.path.absolute()), job.planned.config, stale),
            lambda text: None,
            Watch(),
        )
        work.run(Interrupts(active=False), show)
    finally:
        pool.close()
    assert work.count(FINISHED) == 4
    assert set(held) == {job.name for job in jobs}
    assert not (Path(tempfile.gettempdir()) / pool._scratch("")).exists()
    assert list(home.glob("*/.worker.log")) == []
    assert fingerprints(file, home) == calm_sweep
