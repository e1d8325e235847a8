"""The replay: what is added can be drawn, whole and with its own successor; nothing else can."""

import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

pytest.importorskip("jax")

from gammaprime.agents.off_policy import Batch
from gammaprime.loops.replay import Replay
from gammaprime.types import Trajectory

INPUTS, ACTIONS = 3, 2


def number(start, num_steps, num_envs=1):
    """A trajectory in which every number tells which transition it is of, counted from start."""
    n = np.arange(start, start + num_steps * num_envs, dtype=float).reshape(num_steps, num_envs)
    return Trajectory(
        obs=n[..., None] + np.array([0.0, 0.25, 0.5]),
        next_obs=np.repeat(n[..., None], INPUTS, -1) + 0.75,
        action=-np.repeat(n[..., None], ACTIONS, -1),
        reward=10 * n,
        terminated=n % 3 == 0,
        truncated=n % 5 == 0,
        step=n.astype(int) % 7,
    )


def assert_whole(batch):
    """Every field of every transition is of the same transition."""
    n = batch.obs[..., 0]
    np.testing.assert_array_equal(batch.obs[..., 2], n + 0.5)
    np.testing.assert_array_equal(batch.next_obs, np.repeat(n[..., None], INPUTS, -1) + 0.75)
    np.testing.assert_array_equal(batch.action, -np.repeat(n[..., None], ACTIONS, -1))
    np.testing.assert_array_equal(batch.reward, 10 * n)
    np.testing.assert_array_equal(batch.terminated, n % 3 == 0)
    np.testing.assert_array_equal(batch.step, n % 7)
    assert batch.terminated.dtype == bool
    assert batch.obs.dtype == batch.reward.dtype == np.float32


@given(
    size=st.integers(1, 40),
    lengths=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=8),
)
def test_replay__draws_only_the_latest_that_were_added_and_all_of_them(size, lengths):
    replay, count = Replay(size, INPUTS, ACTIONS), 0
    for num_steps, num_envs in lengths:
        replay.add(number(count, num_steps, num_envs))
        count += num_steps * num_envs
    assert replay.count == count
    assert len(replay) == min(count, size)
    batch = replay.draw(np.random.default_rng(0), 20, 60)
    assert batch.obs.shape == (20, 60, INPUTS)
    assert batch.reward.shape == (20, 60)
    assert_whole(batch)
    # 1,200 draws from at most 40: one is missed with a chance below 40·(39/40)^1200 < 1e-11.
    assert set(np.unique(batch.obs[..., 0])) == set(range(max(0, count - size), count))


@given(size=st.integers(1, 40), count=st.integers(1, 90), recent_size=st.integers(1, 50))
def test_recent__is_the_newest_part_of_the_same_ring(size, count, recent_size):
    replay = Replay(size, INPUTS, ACTIONS)
    for start in range(count):
        replay.add(number(start, 1))
    recent = replay.draw_recent(np.random.default_rng(0), 20, 60, recent_size)
    assert recent.obs.shape == (20, 60, INPUTS)
    wanted = range(max(0, count - min(size, recent_size)), count)
    assert set(np.unique(recent.obs[..., 0])) == set(wanted)
    np.testing.assert_array_equal(recent.step, recent.obs[..., 0] % 7)


def test_draw__gives_every_transition_the_same_chance():
    replay = Replay(50, INPUTS, ACTIONS)
    replay.add(number(0, 70))
    drawn = replay.draw(np.random.default_rng(1), 100, 1000).obs[..., 0].ravel()
    counts = np.bincount(drawn.astype(int), minlength=70)[20:]
    # 100,000 draws from 50: 2,000 each, with a standard error of 44.
    assert np.abs(counts - 2000).max() < 5 * 44


def test_rows__go_in_with_the_earlier_steps_first():
    replay = Replay(4, INPUTS, ACTIONS)
    replay.add(number(0, num_steps=3, num_envs=2))
    np.testing.assert_array_equal(replay.take(2, 6)["reward"], [20, 30, 40, 50])


@given(size=st.integers(1, 30), count=st.integers(1, 80), data=st.data())
def test_take_and_put__carry_a_replay_over_piece_by_piece(size, count, data):
    replay, other = Replay(size, INPUTS, ACTIONS), Replay(size, INPUTS, ACTIONS)
    for start in range(count):
        replay.add(number(start, 1))
    cut = data.draw(st.integers(replay.oldest, count))
    for start, stop in ((replay.oldest, cut), (cut, count)):
        if start < stop:
            other.put(start, replay.take(start, stop))
    other.count = count
    for name, field in replay.fields.items():
        np.testing.assert_array_equal(other.fields[name], field, strict=True)


def test_take__refuses_what_is_gone_or_not_there_yet():
    replay = Replay(4, INPUTS, ACTIONS)
    replay.add(number(0, 6))
    for start, stop in ((1, 3), (4, 7), (3, 3)):
        with pytest.raises(ValueError, match=rf"start={start}.*must lie in \[2, 6\]"):
            replay.take(start, stop)


def test_put__refuses_transitions_of_another_task():
    replay = Replay(4, INPUTS, ACTIONS)
    replay.add(number(0, 2))
    held = replay.take(0, 2)
    with pytest.raises(ValueError, match=r"transitions hold obs as \(2, 5\): must be \(2, 3\)"):
        replay.put(0, held | {"obs": np.zeros((2, 5), np.float32)})
    with pytest.raises(ValueError, match="'colour' must be in both"):
        replay.put(0, held | {"colour": np.zeros(2)})


def test_empty_replay__is_not_drawn_from():
    replay = Replay(4, INPUTS, ACTIONS)
    with pytest.raises(ValueError, match="the replay is empty"):
        replay.draw(np.random.default_rng(0), 1, 1)
    with pytest.raises(ValueError, match="the replay is empty"):
        replay.draw_recent(np.random.default_rng(0), 1, 1, 1)


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_size_that_holds_nothing__is_refused(size):
    with pytest.raises(ValueError, match=f"size={size}: must be an integer >= 1"):
        Replay(size, INPUTS, ACTIONS)


def test_a_million_transitions_of_ant__take_less_than_a_third_of_a_gibibyte():
    fields = Replay(1_000_000, 27, 8).fields
    assert sum(field.nbytes for field in fields.values()) < 2**30 / 3
    assert set(Batch._fields) < fields.keys()


FILL = """
import numpy as np
from pathlib import Path
from gammaprime.loops.replay import Replay
from gammaprime.types import Trajectory
# The peak of this program alone: getrusage begins with that of the process it was forked from.
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before = peak()
replay, T = Replay(1_000_000, 27, 8), 1000
ones = lambda *shape: np.ones((T, 1, *shape))
flag = ones().astype(bool)
for _ in range(1100):
    replay.add(Trajectory(ones(27), ones(27), ones(8), ones(), flag, flag, ones().astype(int)))
replay.draw(np.random.default_rng(0), 50, 100)
print((peak() - before) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_million_transitions_of_ant__filled__stay_under_the_memory_that_is_allowed():
    done = subprocess.run([sys.executable, "-c", FILL], capture_output=True, text=True, check=True)
    gibibytes = float(done.stdout)
    assert 0.2 < gibibytes < 1.2
