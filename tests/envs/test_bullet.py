"""PyBullet's tasks: Gymnasium to the last bit, and resumed to the last bit by replay."""

import hashlib
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

pytest.importorskip("pybullet", reason="PyBullet has no wheel here: pip install .[bullet]")

from gammaprime import envs
from gammaprime.envs.bullet import BulletEnv

CONTINUE = """
import hashlib, sys
import numpy as np
from gammaprime import envs

task, file = sys.argv[1:]
env = envs.make(task, 2)
env.restore(dict(np.load(file)))
rng = np.random.default_rng(7)
digest = hashlib.sha256()
for _ in range(150):
    action = rng.uniform(-1, 1, (2, *env.action.shape)).astype(np.float32)
    for field in env.step(action):
        digest.update(np.ascontiguousarray(field).tobytes())
print(digest.hexdigest())
"""


def continue_here(env):
    rng = np.random.default_rng(7)
    digest = hashlib.sha256()
    for _ in range(150):
        action = rng.uniform(-1, 1, (2, *env.action.shape)).astype(np.float32)
        for field in env.step(action):
            digest.update(np.ascontiguousarray(field).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("task", envs.BULLET_TASKS)
def test_rows__are_gymnasiums_bit_for_bit(task, draw, rng):
    env = envs.make(task, 2, time_limit=50)
    assert isinstance(env, BulletEnv)
    env.reset(9)
    env.step(draw(env, 1, rng)[0])
    # A second reset must not inherit anything from the first.
    obs = env.reset(1)
    peers = [gymnasium.make(task, max_episode_steps=50) for _ in range(2)]
    for i, peer in enumerate(peers):
        assert (peer.reset(seed=env.seeds[i])[0] == obs[i]).all()
    for action in draw(env, 120, rng):
        answer = env.step(action)
        for i, peer in enumerate(peers):
            next_obs, reward, *flags, _ = peer.step(action[i])
            assert (next_obs == answer.next_obs[i]).all()
            assert reward == answer.reward[i]
            assert flags == [answer.terminated[i], answer.truncated[i]]
            assert ((peer.reset()[0] if any(flags) else next_obs) == answer.obs[i]).all()
    env.close()


@pytest.mark.parametrize("steps", [0, 30, 130])  # at a reset, in a first, in a later episode
@pytest.mark.parametrize("task", ["HalfCheetahBulletEnv-v0", "Walker2DBulletEnv-v0"])
def test_restore__replays_bit_for_bit(task, steps, draw, rng, assert_same, play):
    env = envs.make(task, 2, time_limit=60, stagger=True)
    last = env.reset(3)
    if steps:
        last = play(env, draw(env, steps, rng)).obs[-1]
    snapshot = env.snapshot()
    other = envs.make(task, 2, time_limit=60, stagger=True)
    assert other.restore(snapshot).tobytes() == last.tobytes()
    assert (other.age == env.age).all()
    again = {name: array.tobytes() for name, array in other.snapshot().items()}
    assert again == {name: array.tobytes() for name, array in snapshot.items()}
    actions = draw(env, 70, rng)
    assert_same(play(other, actions), play(env, actions))


@pytest.mark.parametrize("task", envs.BULLET_TASKS[:3])
def test_restore__replays_bit_for_bit_in_a_new_process(task, draw, play, rng, tmp_path):
    env = envs.make(task, 2)
    env.reset(0)
    play(env, draw(env, 150, rng))
    np.savez(tmp_path / "snapshot.npz", **env.snapshot())
    command = [sys.executable, "-c", CONTINUE, task, str(tmp_path / "snapshot.npz")]
    there = subprocess.run(command, capture_output=True, text=True, check=True)
    # Nothing but the digest: PyBullet's greetings are for nobody.
    assert there.stdout.strip() == continue_here(env)
    assert there.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("task", envs.BULLET_TASKS)
def test_restore__replays_bit_for_bit_after_many_episodes(task, draw, play, rng, assert_same):
    env, other = envs.make(task, 2), envs.make(task, 2)
    env.reset(0)
    play(env, draw(env, 3500, rng))
    other.restore(env.snapshot())
    actions = draw(env, 1200, rng)
    assert_same(play(other, actions), play(env, actions))


def test_restore__notices_that_the_replay_went_elsewhere(draw, play, rng):
    env = envs.make("HalfCheetahBulletEnv-v0", 2)
    env.reset(0)
    play(env, draw(env, 5, rng))
    snapshot = env.snapshot()
    snapshot["actions"][1, 2, 0] *= -1
    with pytest.raises(ValueError, match="row 1 replayed 5 steps and did not arrive"):
        env.restore(snapshot)


def test_other_bullet_tasks__resume_statistically():
    env = envs.make("InvertedPendulumBulletEnv-v0")
    assert not env.exact_resume
    assert env.action.shape == (1,)
