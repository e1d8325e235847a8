"""Threads take every row once, end when they are told to, and are refused where they would idle."""

import gc
import sys
import threading
import time
import weakref
from collections import deque
from queue import SimpleQueue

import numpy as np
import pytest

from gammaprime import envs
from gammaprime.envs.mujoco import MujocoEnv
from gammaprime.envs.threads import Threads


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_run__gives_every_row_to_one_thread(threads):
    team = Threads(threads, 8)
    for _ in range(200):
        taken = []
        team.run(lambda rows: taken.extend(rows))  # noqa: B023  (called before it changes)
        assert sorted(taken) == list(range(8))
    team.close()


def test_run__works_on_as_many_rows_at_a_time_as_there_are_threads():
    team = Threads(3, 3)
    together = threading.Barrier(3, timeout=60)

    def work(rows):
        for _ in rows:
            together.wait()  # passes only when three are inside

    for _ in range(20):
        team.run(work)
    team.close()


def test_run__does_not_wait_for_a_thread_without_a_row():
    team = Threads(2, 2)
    asleep, awake = threading.Event(), threading.Event()

    def sleep(rows):
        for _ in rows:
            asleep.set()
            awake.wait(60)

    # The only helper is busy elsewhere.
    team._rounds.put((sleep, deque([0]), SimpleQueue()))
    assert asleep.wait(60)
    taken = []
    team.run(taken.extend)
    assert taken == [0, 1]
    awake.set()
    team.close()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("bad", [0, 3])
def test_run__raises_what_a_row_has_raised_and_can_go_on(threads, bad):
    team = Threads(threads, 4)

    def fail(rows):
        for row in rows:
            if row == bad:
                raise RuntimeError(f"row {row}")

    with pytest.raises(RuntimeError, match=f"row {bad}"):
        team.run(fail)
    taken = []
    team.run(lambda rows: taken.extend(rows))
    assert sorted(taken) == [0, 1, 2, 3]
    team.close()


def test_run__ends_when_every_thread_fails():
    team = Threads(2, 6)

    def fail(rows):
        for row in rows:
            raise RuntimeError(f"row {row}")

    with pytest.raises(RuntimeError, match="row"):
        team.run(fail)
    team.close()


@pytest.mark.parametrize("how", ["close", "forget"])
def test_threads__end_with_their_environment(how):
    before = set(threading.enumerate())
    env = MujocoEnv("Hopper-v4", 4, threads=4)
    env.reset(0)
    env.step(np.zeros((4, 3), np.float32))
    started = set(threading.enumerate()) - before
    assert len(started) == 3
    gone = weakref.ref(env)
    if how == "close":
        env.close()
        env.close()
    else:
        del env
        gc.collect()
        assert gone() is None
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()


def test_one_thread__starts_none():
    before = threading.active_count()
    env = envs.make("Hopper-v4", 4)
    assert threading.active_count() == before
    env.close()


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_make__refuses_what_is_no_number_of_threads(threads):
    with pytest.raises(ValueError, match=rf"threads={threads!r}: must be an integer >= 1"):
        envs.make("Hopper-v4", 4, threads=threads)


def test_make__refuses_threads_that_would_idle():
    with pytest.raises(
        ValueError, match=r"threads=5: must be at most num_envs=2; .* so 3 would idle"
    ):
        envs.make("Hopper-v4", 2, threads=5)


def make_cart_pole():
    import gymnasium

    return gymnasium.make("CartPole-v1")


@pytest.mark.parametrize(
    ("task", "where"),
    [
        ("CartPole-v1", "CartPole-v1, which goes through Gymnasium"),
        (make_cart_pole, "an environment of one's own"),
    ],
)
def test_make__refuses_threads_where_nothing_would_use_them(task, where):
    with pytest.raises(ValueError, match=f"threads=2: must be 1 for {where}; only MuJoCo tasks"):
        envs.make(task, 2, threads=2)


def test_make__refuses_threads_for_pybullet():
    pytest.importorskip("pybullet_envs_gymnasium")
    with pytest.raises(
        ValueError, match=r"threads=2: must be 1 for PyBullet, which keeps Python's"
    ):
        envs.make("AntBulletEnv-v0", 2, threads=2)


def counted_meanwhile(call):
    """Return how often another thread came to count while ``call`` ran."""
    count, stop, started = [0], threading.Event(), threading.Event()

    def work():
        started.set()
        while not stop.is_set():
            count[0] += 1
            time.sleep(1e-5)  # gives the lock back

    other = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    other.start()
    started.wait()
    # From here on the lock changes hands only where it is released.
    sys.setswitchinterval(1000.0)
    try:
        before = count[0]
        call()
        return count[0] - before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        other.join()


def test_mj_step__releases_the_lock():
    env = envs.make("Ant-v4", 4)
    env.reset(0)
    actions = np.zeros((4, 8), np.float32)
    assert counted_meanwhile(lambda: [env.step(actions) for _ in range(200)]) > 0


def test_pybullet__keeps_the_lock():
    # The day this fails, PyBullet's rows can have threads too.
    pytest.importorskip("pybullet_envs_gymnasium")
    env = envs.make("AntBulletEnv-v0", 1)
    env.reset(0)
    pushed = [0.0] * 8
    assert counted_meanwhile(lambda: [env.robots[0].push(pushed) for _ in range(200)]) == 0
