"""How the tests of this room act, and what they keep of it."""

import numpy as np
import pytest

from gammaprime.envs import Discrete


def draw_actions(env, num_steps, rng):
    """(T, N, ...) uniform actions."""
    if isinstance(env.action, Discrete):
        return rng.integers(env.action.n, size=(num_steps, env.num_envs))
    shape = (num_steps, env.num_envs, *env.action.shape)
    return rng.uniform(env.action.low, env.action.high, shape).astype(np.float32)


def play_actions(env, actions):
    """The answers to actions, field by field, stacked over time."""
    answers = [env.step(action) for action in actions]
    none = np.zeros(env.num_envs, bool)
    answers = [x._replace(early=none) if x.early is None else x for x in answers]
    return type(answers[0])(*(np.stack(field) for field in zip(*answers, strict=True)))


@pytest.fixture
def draw():
    return draw_actions


@pytest.fixture
def play():
    return play_actions


@pytest.fixture
def assert_same():
    def check(first, second):
        for name, one, other in zip(first._fields, first, second, strict=True):
            if one is None or other is None:
                assert one is other, name
                continue
            assert one.dtype == other.dtype, name
            assert one.tobytes() == other.tobytes(), name

    return check
