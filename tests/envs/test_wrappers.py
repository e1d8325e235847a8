"""The time feature: the age in sight, and the limit as the end."""

import numpy as np
import pytest

from gammaprime import envs
from gammaprime.envs import probes


@pytest.fixture
def pair():
    """The same environment, plain and with the feature."""
    plain = envs.make("Walker2d-v4", 3, time_limit=20, stagger=True)
    timed = envs.make("Walker2d-v4", 3, time_limit=20, stagger=True, time_feature=True)
    return plain, timed


def test_time_feature__is_the_age_between_minus_one_and_one(pair, draw, play, rng):
    plain, timed = pair
    first = timed.reset(0)
    assert (first[:, :-1] == plain.reset(0)).all()
    assert (first[:, -1] == -1.0).all()
    actions = draw(plain, 80, rng)
    inner, outer = play(plain, actions), play(timed, actions)
    assert (outer.next_obs[..., :-1] == inner.next_obs).all()
    assert (outer.obs[..., :-1] == inner.obs).all()
    assert (outer.reward == inner.reward).all()
    assert (outer.step == inner.step).all()
    # The successor is one step older, also where the next observation is a reset.
    assert (outer.next_obs[..., -1] == 2.0 * (inner.step + 1) / 20 - 1.0).all()
    ended = inner.terminated | inner.truncated
    assert (outer.obs[..., -1] == np.where(ended, -1.0, outer.next_obs[..., -1])).all()
    assert outer.next_obs[..., -1].max() == 1.0
    assert timed.observation.low[-1] == -1.0
    assert timed.observation.high[-1] == 1.0


@pytest.mark.paper("x:time-feature")
def test_time_feature__makes_the_limit_terminal_and_nothing_else(pair, draw, play, rng):
    plain, timed = pair
    for env in pair:
        env.reset(0)
    actions = draw(plain, 80, rng)
    inner, outer = play(plain, actions), play(timed, actions)
    at_limit = inner.step == 19
    early = inner.truncated & ~at_limit
    assert (inner.truncated & at_limit).any()
    assert early.any()  # a staggered first episode is cut, not over
    assert (outer.terminated == (inner.terminated | at_limit)).all()
    assert (outer.truncated == early).all()


def test_time_feature__keeps_the_dtype_and_the_snapshot(draw, play, rng, assert_same):
    make = lambda: envs.TimeFeature(probes.delayed_reward(5).env(2, time_limit=4))  # noqa: E731
    env, other = make(), make()
    assert env.reset(0).dtype == np.float32
    play(env, draw(env, 6, rng))
    actions = draw(env, 20, rng)
    obs = other.restore(env.snapshot())
    assert (obs[:, -1] == 2.0 * env.age / 4 - 1.0).all()
    assert (env.age == 2).all()
    assert_same(play(other, actions), play(env, actions))


def test_time_feature__needs_a_limit():
    with pytest.raises(ValueError, match="time_limit=None"):
        envs.TimeFeature(probes.constant_reward().env())
