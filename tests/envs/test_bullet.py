"""PyBullet's tasks stepped in place: Gymnasium to the last bit, resumed to the last bit."""

import hashlib
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest

pytest.importorskip("pybullet", reason="PyBullet has no wheel here: pip install .[bullet]")

import pybullet

from gammaprime import envs
from gammaprime.envs.bullet import BulletEnv
from gammaprime.envs.gym import GymEnv

LEAST_ENDS = {"HalfCheetah": 4, "Ant": 4, "Walker2D": 100, "Hopper": 100}


def assert_parity(env, seed, num_steps, scale, rng):
    """Gymnasium's own environments, side by side; gives how many episodes ended."""
    obs = env.reset(seed)
    peers = [gymnasium.make(env.task, max_episode_steps=env.time_limit) for _ in env.seeds]
    for i, peer in enumerate(peers):
        assert peer.reset(seed=env.seeds[i])[0].tobytes() == obs[i].tobytes()
    ended = 0
    for _ in range(num_steps):
        shape = (env.num_envs, *env.action.shape)
        action = rng.uniform(-scale, scale, shape).astype(np.float32)
        answer = env.step(action)
        for i, peer in enumerate(peers):
            next_obs, reward, terminated, truncated, _ = peer.step(action[i])
            assert next_obs.dtype == answer.next_obs.dtype
            assert next_obs.tobytes() == answer.next_obs[i].tobytes()
            assert np.float64(reward).tobytes() == answer.reward[i].tobytes()
            assert (terminated, truncated) == (answer.terminated[i], answer.truncated[i])
            over = terminated or truncated
            ended += over
            after = peer.reset()[0] if over else next_obs
            assert after.tobytes() == answer.obs[i].tobytes()
    for peer in peers:
        peer.close()
    return ended


@pytest.mark.parametrize("task", envs.BULLET_TASKS)
def test_rows__are_gymnasium_bit_for_bit(task, rng):
    env = envs.make(task, 2)
    assert type(env) is BulletEnv
    assert assert_parity(env, 3, 2000, 1.0, rng) >= LEAST_ENDS[task.partition("Bullet")[0]]


@pytest.mark.parametrize("task", envs.BULLET_TASKS)
def test_rows__treat_actions_beyond_their_bounds_as_gymnasium_does(task, rng):
    assert_parity(BulletEnv(task, 1, time_limit=100), 4, 250, 3.0, rng)


@pytest.mark.parametrize("task", envs.BULLET_TASKS)
def test_reset__starts_as_a_new_environment_would(task, draw, play, rng):
    # The original's first episode differs from its later ones: the floor is no part of it yet.
    env = BulletEnv(task, 2, time_limit=40)
    env.reset(9)
    play(env, draw(env, 90, rng))
    assert_parity(env, 1, 60, 1.0, rng)


@pytest.mark.parametrize("task", envs.BULLET_TASKS)
def test_spaces__are_gymnasiums(task):
    env, peer = BulletEnv(task), gymnasium.make(task)
    for ours, theirs in (
        (env.observation, peer.observation_space),
        (env.action, peer.action_space),
    ):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert (ours.low == theirs.low).all()
        assert (ours.high == theirs.high).all()
    assert env.time_limit == peer.spec.max_episode_steps == 1000


def test_rows__do_not_know_of_each_other(draw, play, rng, assert_same):
    one, many = BulletEnv("Walker2DBulletEnv-v0", 1), BulletEnv("Walker2DBulletEnv-v0", 3)
    one.reset(11)
    many.reset(11)
    assert one.seeds == many.seeds[:1]
    actions = draw(many, 200, rng)
    answer = play(many, actions)
    assert_same(play(one, actions[:, :1]), type(answer)(*(field[:, :1] for field in answer)))


def test_step__a_fall_at_the_limit_is_terminated_and_truncated(draw, play, rng):
    env = BulletEnv("HopperBulletEnv-v0", 3)
    env.reset(0)
    actions = draw(env, 60, rng)
    falls = [int(ends.argmax()) for ends in play(env, actions).terminated.T]
    assert len({*falls}) > 1
    last = max(falls)
    cut = BulletEnv("HopperBulletEnv-v0", 3, time_limit=last + 1)
    cut.reset(0)
    answer = play(cut, actions[: last + 1])
    row = falls.index(last)
    assert answer.terminated[:, row].tolist() == answer.truncated[:, row].tolist()
    assert answer.terminated[-1, row]
    for row, fall in enumerate(falls):
        assert answer.terminated[fall, row]
        assert answer.truncated[fall, row] == (fall == last)


def test_half_cheetah__never_ends_by_itself(draw, play, rng):
    env = BulletEnv("HalfCheetahBulletEnv-v0", 2, time_limit=300)
    env.reset(0)
    answer = play(env, draw(env, 300, rng))
    assert not answer.terminated.any()
    assert answer.truncated[-1].all()


def test_step__names_the_row_whose_observation_is_not_finite(draw, rng):
    env = BulletEnv("AntBulletEnv-v0", 3)
    env.reset(0)
    actions = draw(env, 3, rng)
    for action in actions[:2]:
        env.step(action)
    numbers = env.robots[1].look()
    numbers[4] = float("nan")
    env.robots[1].look = lambda: numbers
    with pytest.raises(ValueError, match=r"next_obs\[1, 4\]=nan in row 1 at step 2"):
        env.step(actions[2])


def test_bullet_env__names_the_tasks_it_knows():
    with pytest.raises(
        ValueError, match=r"task='HumanoidBulletEnv-v0': must be one of HalfCheetah"
    ):
        BulletEnv("HumanoidBulletEnv-v0")


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
    for field in env.step(action)[:-1]:
        digest.update(np.ascontiguousarray(field).tobytes())
print(digest.hexdigest())
"""


def continue_here(env):
    rng = np.random.default_rng(7)
    digest = hashlib.sha256()
    for _ in range(150):
        action = rng.uniform(-1, 1, (2, *env.action.shape)).astype(np.float32)
        for field in env.step(action)[:-1]:
            digest.update(np.ascontiguousarray(field).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("steps", [0, 1, 30, 130])  # at a reset, in a first, in a later episode
@pytest.mark.parametrize("task", ["HalfCheetahBulletEnv-v0", "Walker2DBulletEnv-v0"])
def test_restore__replays_bit_for_bit(task, steps, draw, rng, assert_same, play):
    env = BulletEnv(task, 2, time_limit=60, stagger=True)
    last = env.reset(3)
    if steps:
        last = play(env, draw(env, steps, rng)).obs[-1]
    snapshot = env.snapshot()
    other = BulletEnv(task, 2, time_limit=60, stagger=True)
    assert other.restore(snapshot).tobytes() == last.tobytes()
    assert (other.age == env.age).all()
    again = {name: array.tobytes() for name, array in other.snapshot().items()}
    assert again == {name: array.tobytes() for name, array in snapshot.items()}
    actions = draw(env, 70, rng)
    assert_same(play(other, actions), play(env, actions))


@pytest.mark.parametrize("task", envs.BULLET_TASKS)
def test_restore__replays_bit_for_bit_in_a_used_object(task, draw, play, rng):
    env, other = BulletEnv(task, 2), BulletEnv(task, 2)
    env.reset(0)
    play(env, draw(env, 77, rng))
    other.reset(1)
    play(other, draw(other, 20, rng))
    other.restore(env.snapshot())
    assert continue_here(other) == continue_here(env)


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
    env = BulletEnv("HalfCheetahBulletEnv-v0", 2)
    env.reset(0)
    play(env, draw(env, 5, rng))
    snapshot = env.snapshot()
    snapshot["actions"][1, 2, 0] *= -1
    with pytest.raises(ValueError, match="row 1 replayed 5 steps and did not arrive"):
        env.restore(snapshot)


def test_snapshot__keeps_the_actions_that_were_played(draw, rng):
    env = BulletEnv("HopperBulletEnv-v0")
    env.reset(0)
    buffer = np.empty((1, *env.action.shape), np.float32)
    for action in draw(env, 5, rng):
        buffer[:] = action
        env.step(buffer)
    env.restore(env.snapshot())


def joint_states(robot):
    return pybullet.getJointStates(robot.body, robot.joints, robot.client)


def test_bullets_own_state__is_no_snapshot(tmp_path):
    """Where PyBullet restores what it saved, the next step is not always the same."""
    saved, restored = (BulletEnv("HalfCheetahBulletEnv-v0").robots[0] for _ in range(2))
    pybullet.setPhysicsEngineParameter(enableFileCaching=0, physicsClientId=restored.client)
    hard = np.random.default_rng(3).choice([-1.0, 1.0], (20, 6)).repeat(20, axis=0).tolist()
    saved.reset([0.0] * 6, first=True)
    apart = 0
    for action in hard:
        file = str(tmp_path / "state.bullet")
        pybullet.saveBullet(file, physicsClientId=saved.client)
        pybullet.restoreState(fileName=file, physicsClientId=restored.client)
        saved.push(action)
        restored.push(action)
        apart += joint_states(saved) != joint_states(restored)
    assert 0 < apart < len(hard) / 2


def test_other_bullet_tasks__go_through_gymnasium_and_say_so_once():
    task = "InvertedPendulumBulletEnv-v0"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for env in (envs.make(task), envs.make(task)):
            assert type(env) is GymEnv
            assert not env.exact_resume
            assert env.action.shape == (1,)
    (words,) = (str(warning.message) for warning in said)
    assert words.startswith("task='InvertedPendulumBulletEnv-v0' goes through Gymnasium, ")
    assert words.endswith("HopperBulletEnv-v0")


def test_task_with_keyword_arguments__says_that_it_goes_through_gymnasium():
    with pytest.warns(UserWarning, match="HopperBulletEnv-v0' goes through Gymnasium, .*episodes$"):
        env = envs.make("HopperBulletEnv-v0", env_kwargs={"render_mode": None})
    env.close()
