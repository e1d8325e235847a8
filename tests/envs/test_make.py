"""The right adapter for every task, and a helpful answer where there is none."""

import subprocess
import sys

import pytest

from gammaprime import envs
from gammaprime.envs.gym import GymEnv
from gammaprime.envs.mujoco import MujocoEnv


@pytest.mark.parametrize("task", ["HalfCheetah-v4", "Ant-v5", "Humanoid-v4"])
def test_make__batches_mujoco(task):
    env = envs.make(task, 2)
    assert isinstance(env, MujocoEnv)
    assert env.exact_resume


def test_make__hands_the_rest_to_gymnasium():
    env = envs.make("CartPole-v1", 2)
    assert type(env) is GymEnv
    assert not env.exact_resume


def test_make__adds_the_time_feature():
    env = envs.make("Hopper-v4", 2, time_feature=True)
    assert isinstance(env, envs.TimeFeature)
    assert env.observation.shape == (12,)


@pytest.mark.parametrize(
    ("task", "nearest"),
    [
        ("Hoper-v4", "Hopper-v4"),
        ("halfcheetah-v4", "HalfCheetah-v4"),
        ("Walker2D-v5", "Walker2d-v5"),
        ("Cartpole-v1", "CartPole-v1"),
        ("Humanoid-v9", "Humanoid-v5"),
        ("HalfCheetahBullet-v0", "HalfCheetahBulletEnv-v0"),
    ],
)
def test_make__answers_an_unknown_task_with_the_nearest(task, nearest):
    with pytest.raises(ValueError, match=rf"task='{task}': no such task; did you .*{nearest}"):
        envs.make(task)


def test_make__does_not_guess_wildly():
    with pytest.raises(ValueError, match="task='qqqq': no such task; it must be registered"):
        envs.make("qqqq")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_importing_the_room__imports_no_simulator():
    code = """
import sys
import gammaprime.envs, gammaprime.envs.probes
env = gammaprime.envs.probes.constant_reward().env(2)
env.reset(0)
print(sorted({"gymnasium", "mujoco", "pybullet", "jax"} & set(sys.modules)))
"""
    assert run(code).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("missing", "task", "extra"),
    [
        ("mujoco", "Hopper-v4", "train"),
        ("gymnasium", "Hopper-v4", "train"),
        ("gymnasium", "CartPole-v1", "train"),
        ("pybullet", "AntBulletEnv-v0", "bullet"),
        ("pybullet_envs_gymnasium", "AntBulletEnv-v0", "bullet"),
    ],
)
def test_missing_packages__are_answered_with_the_pip_line(missing, task, extra):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from gammaprime import envs
try:
    envs.make({task!r})
except ImportError as error:
    print(error)
"""
    answer = run(code).stdout
    assert f"need {missing}" in answer
    assert f"pip install 'gammaprime[{extra}]'" in answer
