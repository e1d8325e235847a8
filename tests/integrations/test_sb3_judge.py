"""`Judge` reports three returns side by side."""

import numpy as np
import pytest
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from gammaprime.integrations.sb3 import Judge
from integrations.tasks import Choice, Ends
from integrations.trainers import make


class Told(KVWriter):
    """A logger's output format that keeps every row."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def judge(model, callback, steps=64):
    told = Told()
    model.set_logger(Logger(None, [told]))
    model.learn(steps, callback)
    return [row for row in told.rows if "eval/mean_reward" in row]


@pytest.mark.parametrize("name", ["PPO", "RecurrentPPO", "SBX"])
def test_returns__are_those_of_the_one_episode_there_is(name):
    """A fixed policy in a task without chance: 1 at once, or 3 after five steps."""
    env = DummyVecEnv([lambda: Monitor(Choice())] * 2)
    model = make(name, DummyVecEnv([Choice] * 2))
    rows = judge(model, Judge(env, 0.99, eval_freq=8, n_eval_episodes=4))
    assert len(rows) == 4
    for row in rows:
        later = row["eval/mean_reward"] == 3.0
        assert row["eval/mean_reward"] in (1.0, 3.0)
        assert row["eval/J_gamma"] == pytest.approx(3 * model.gamma**5 if later else 1.0)
        assert row["eval/J_gamma_prime"] == pytest.approx(3 * 0.99**5 if later else 1.0)


def test_returns__are_of_raw_rewards_and_equal_at_gamma_prime_1():
    make_env = lambda: VecNormalize(DummyVecEnv([lambda: Monitor(Ends())] * 2))  # noqa: E731
    model = make("PPO", make_env())
    for row in judge(model, Judge(make_env(), 1.0, eval_freq=8, n_eval_episodes=6)):
        # A Monitor rounds to six digits.
        assert row["eval/J_gamma_prime"] == pytest.approx(row["eval/mean_reward"], abs=1e-5)
        assert row["eval/J_gamma"] != row["eval/mean_reward"]


@pytest.mark.parametrize("monitored", [True, False])
def test_returns__of_normalised_rewards_are_raw_and_the_mean_reward_with_a_monitor(monitored):
    def make_env():
        return VecNormalize(DummyVecEnv([lambda: Monitor(Choice()) if monitored else Choice()] * 2))

    model = make("PPO", make_env())
    rows = judge(model, Judge(make_env(), 0.99, eval_freq=16, n_eval_episodes=4, warn=False))
    assert len(rows) == 2
    for row in rows:
        raw = 3.0 if row["eval/J_gamma_prime"] > 1.5 else 1.0
        wanted = 3 * 0.99**5 if raw == 3.0 else 1.0
        assert row["eval/J_gamma_prime"] == pytest.approx(wanted)
        assert (row["eval/mean_reward"] == pytest.approx(raw)) == monitored


class Count(BaseCallback):
    def _on_step(self):
        return self.n_calls < 3


@pytest.mark.parametrize("name", ["PPO", "MaskablePPO"])
def test_arguments__of_the_evaluation_callback_reach_it(name):
    class Drawn(Choice):
        render_mode = "human"

        def render(self):
            drawn.append(self.age)

    if name == "MaskablePPO":
        kind = pytest.importorskip("gammaprime.integrations.contrib").Judge
    else:
        kind = Judge
    drawn, best, after, plain = [], Count(), Count(), DummyVecEnv([Drawn])
    settings = {"callback_on_new_best": best, "callback_after_eval": after}
    model = make(name, DummyVecEnv([Drawn]))
    # Warnings are errors: the environment has no Monitor.
    model.learn(64, kind(plain, 0.99, eval_freq=8, render=True, warn=False, **settings))
    assert model.num_timesteps == 24  # stopped at the third evaluation
    assert after.n_calls == 3
    assert best.n_calls >= 1
    assert len(drawn) == 3 * 10 * 6
    with pytest.warns(UserWarning, match="not wrapped with a ``Monitor``"):
        make(name, DummyVecEnv([Drawn])).learn(8, kind(plain, 0.99, eval_freq=8))


def test_maskable__needs_the_judge_that_masks():
    contrib = pytest.importorskip("gammaprime.integrations.contrib")
    env = DummyVecEnv([lambda: Monitor(Choice())])
    model = make("MaskablePPO", DummyVecEnv([Choice]))
    with pytest.raises(ValueError, match=r"integrations\.contrib\.Judge"):
        model.learn(16, Judge(env, 0.99, eval_freq=8))
    rows = judge(model, contrib.Judge(env, 0.99, eval_freq=8))
    assert all(np.isfinite(row["eval/J_gamma_prime"]) for row in rows)
    assert len(rows) == 8


def test_gamma_prime__is_checked():
    with pytest.raises(ValueError, match="gamma_prime"):
        Judge(DummyVecEnv([Choice]), 1.5)
