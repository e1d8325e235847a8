"""The MuJoCo batch is Gymnasium to the last bit, and continues to the last bit."""

import hashlib
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from gammaprime import envs
from gammaprime.envs.mujoco import MujocoEnv

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")

PAPER = [f"{name}-v{v}" for name in ("HalfCheetah", "Ant", "Walker2d", "Hopper") for v in (4, 5)]
OTHERS = [task for task in envs.MUJOCO_TASKS if task not in PAPER]


THREADS = (1, 2, 4)
PEERS = 2


def assert_parity(task, num_steps, scale, rng, time_limit=1000):
    """Gymnasium's own environments beside two of four rows, for every number of threads.

    Gives how many episodes of Gymnasium's ended.
    """
    team = [MujocoEnv(task, 4, time_limit=time_limit, threads=threads) for threads in THREADS]
    env = team[0]
    obs = [member.reset(3) for member in team]
    peers = [gymnasium.make(task, max_episode_steps=time_limit) for _ in range(PEERS)]
    for i, peer in enumerate(peers):
        assert peer.reset(seed=env.seeds[i])[0].tobytes() == obs[0][i].tobytes()
    ended = 0
    for _ in range(num_steps):
        unit = rng.uniform(-scale, scale, (env.num_envs, *env.action.shape))
        action = (unit * env.action.high).astype(np.float32)
        answer, *others = (member.step(action) for member in team)
        for i, peer in enumerate(peers):
            next_obs, reward, terminated, truncated, _ = peer.step(action[i])
            assert next_obs.tobytes() == answer.next_obs[i].tobytes()
            assert np.float64(reward).tobytes() == answer.reward[i].tobytes()
            assert (terminated, truncated) == (answer.terminated[i], answer.truncated[i])
            over = terminated or truncated
            ended += over
            after = peer.reset()[0] if over else next_obs
            assert after.tobytes() == answer.obs[i].tobytes()
        for other in others:
            assert [x.tobytes() for x in other[:-1]] == [x.tobytes() for x in answer[:-1]]
    for member in team:
        member.close()
    return ended


@pytest.mark.parametrize("task", PAPER)
def test_batch__is_gymnasium_bit_for_bit(task, rng):
    ended = assert_parity(task, 2000, 1.0, rng)
    assert ended >= {"HalfC": 4, "Ant-v": 10, "Walke": 100, "Hoppe": 100}[task[:5]]


@pytest.mark.parametrize("task", OTHERS)
def test_batch__is_gymnasium_bit_for_bit_on_the_other_tasks(task, rng):
    assert_parity(task, 600, 1.0, rng, time_limit=250)


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Ant-v5", "Hopper-v4", "Humanoid-v5"])
def test_batch__treats_actions_beyond_their_bounds_as_gymnasium_does(task, rng):
    assert_parity(task, 250, 3.0, rng, time_limit=100)


@pytest.mark.parametrize("task", envs.MUJOCO_TASKS)
def test_spaces__are_gymnasiums(task):
    env, peer = MujocoEnv(task), gymnasium.make(task)
    assert env.observation.shape == peer.observation_space.shape
    assert env.observation.dtype == peer.observation_space.dtype
    assert env.action.dtype == peer.action_space.dtype
    assert (env.action.low == peer.action_space.low).all()
    assert (env.action.high == peer.action_space.high).all()
    assert env.time_limit == peer.spec.max_episode_steps == 1000


def test_rows__do_not_know_of_each_other(draw, play, rng, assert_same):
    one, many = MujocoEnv("Walker2d-v4", 1), MujocoEnv("Walker2d-v4", 3)
    one.reset(11)
    many.reset(11)
    assert one.seeds == many.seeds[:1]
    actions = draw(many, 200, rng)
    answer = play(many, actions)
    assert_same(play(one, actions[:, :1]), type(answer)(*(field[:, :1] for field in answer)))


def test_step__a_fall_at_the_limit_is_terminated_and_truncated(draw, play, rng):
    env = MujocoEnv("Hopper-v4", 4)
    env.reset(0)
    actions = draw(env, 60, rng)
    free = play(env, actions)
    falls = [int(free.terminated[:, row].argmax()) for row in range(4)]
    limit = falls[1] + 1
    assert len({*falls}) > 1
    cut = MujocoEnv("Hopper-v4", 4, time_limit=limit)
    cut.reset(0)
    answer = play(cut, actions[:limit])
    assert answer.terminated[-1, 1]
    assert answer.truncated[-1, 1]
    for row, fall in enumerate(falls):
        if fall > falls[1]:
            assert answer.truncated[-1, row]
            assert not answer.terminated[-1, row]
        if fall < falls[1]:
            assert answer.terminated[fall, row]
            assert not answer.truncated[fall, row]


def test_stagger__cuts_first_episodes_and_changes_nothing_else(draw, play, rng):
    plain, staggered = (MujocoEnv("HalfCheetah-v4", 4, time_limit=40, stagger=s) for s in (0, 1))
    plain.reset(2)
    staggered.reset(2)
    actions = draw(plain, 120, rng)
    one, other = play(plain, actions), play(staggered, actions)
    for row, first in enumerate((10, 20, 30, 40)):
        assert (one.next_obs[:first, row] == other.next_obs[:first, row]).all()
        ends = np.flatnonzero(other.truncated[:, row])
        assert (ends == np.arange(first, 121, 40) - 1).all()
        assert (one.truncated[:, row].nonzero()[0] == [39, 79, 119]).all()
    # Out of phase for good: at any time the ages are a quarter of the limit apart.
    assert (np.diff(np.sort(other.step[40:], axis=1), axis=1) == 10).all()
    assert not other.terminated.any()


CONTINUE = """
import hashlib, sys
import numpy as np
from gammaprime.envs.mujoco import MujocoEnv

task, file, threads = sys.argv[1:]
env = MujocoEnv(task, 4, threads=int(threads))
env.restore(dict(np.load(file)))
rng = np.random.default_rng(7)
digest = hashlib.sha256()
for _ in range(300):
    action = rng.uniform(env.action.low, env.action.high, (4, *env.action.shape))
    for field in env.step(action.astype(np.float32))[:-1]:
        digest.update(np.ascontiguousarray(field).tobytes())
print(digest.hexdigest())
"""


def continue_here(env):
    rng = np.random.default_rng(7)
    digest = hashlib.sha256()
    for _ in range(300):
        action = rng.uniform(env.action.low, env.action.high, (4, *env.action.shape))
        for field in env.step(action.astype(np.float32))[:-1]:
            digest.update(np.ascontiguousarray(field).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("task", ["Ant-v5", "Humanoid-v4"])
def test_restore__continues_bit_for_bit_in_a_new_process(task, threads, draw, play, rng, tmp_path):
    env = MujocoEnv(task, 4)
    env.reset(0)
    play(env, draw(env, 150, rng))
    np.savez(tmp_path / "snapshot.npz", **env.snapshot())
    command = [sys.executable, "-c", CONTINUE, task, str(tmp_path / "snapshot.npz"), f"{threads}"]
    there = subprocess.run(command, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == continue_here(env)


@pytest.mark.parametrize("task", envs.MUJOCO_TASKS)
def test_restore__continues_bit_for_bit_in_a_used_object(task, draw, play, rng):
    env, *others = (MujocoEnv(task, 4, threads=threads) for threads in (1, *THREADS))
    env.reset(0)
    play(env, draw(env, 77, rng))
    for other in others:
        other.reset(1)
        play(other, draw(other, 20, rng))
        other.restore(env.snapshot())
    expected = continue_here(env)
    for other in others:
        assert continue_here(other) == expected


def test_restore__needs_more_than_positions_and_velocities(draw, play, rng):
    # What the snapshot holds beyond them matters: the test above would see it missing.
    env, other = MujocoEnv("Ant-v4", 2), MujocoEnv("Ant-v4", 2)
    env.reset(0)
    actions = draw(env, 200, rng)
    play(env, actions[:100])
    other.restore(env.snapshot())
    for data in other.data:
        data.qacc_warmstart[:] = 0.0
    assert (play(env, actions[100:]).next_obs != play(other, actions[100:]).next_obs).any()


def test_data__is_the_physics_of_the_rows(draw, play, rng):
    env = MujocoEnv("HalfCheetah-v4", 2)
    env.reset(0)
    answer = play(env, draw(env, 5, rng))
    for row, data in enumerate(env.data):
        assert (answer.obs[-1, row] == np.concatenate((data.qpos[1:], data.qvel))).all()
        assert data.time == pytest.approx(5 * 0.05)


def test_step__names_the_row_whose_observation_is_not_finite(draw, rng):
    env = MujocoEnv("HalfCheetah-v4", 3)
    env.reset(0)
    actions = draw(env, 3, rng)
    for action in actions[:2]:
        env.step(action)
    # MuJoCo notices NaN positions by itself and starts over; passed on, they must not pass us.
    env._physics[2] = np.full(9, np.nan)
    with pytest.raises(ValueError, match=r"next_obs\[1, 0\]=nan in row 1 at step 2"):
        env.step(actions[2])


def test_mujoco_env__names_the_tasks_it_knows():
    with pytest.raises(ValueError, match=r"task='Hopper-v3': must be one of HalfCheetah-v4, "):
        MujocoEnv("Hopper-v3")
