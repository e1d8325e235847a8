"""`Taylor` in the on-policy trainers of the Stable-Baselines3 family."""

import warnings

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from gammaprime.agents import TaylorQ, TaylorWeight
from gammaprime.integrations.sb3 import Taylor
from integrations import written_out
from integrations.settings import EXPANSIONS, GAMMA, LAM, NUM_ENVS, NUM_STEPS, ONES, PLAIN
from integrations.tasks import Choice, check_waiting
from integrations.trainers import ON_POLICY, TORCH, Witness, in_torch, make, parameters
from integrations.vec_envs import Recorder, make_ends


def trained(name, callback, env=None, rollouts=3, **settings):
    model = make(name, make_ends() if env is None else env, **settings)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="taylor/tail_share")
        model.learn(rollouts * NUM_STEPS * NUM_ENVS, callback=callback)
    return model


@pytest.mark.parametrize("name", ON_POLICY)
def test_nothing_asked__nothing_changed(name):
    plain = parameters(trained(name, None))
    for slot in PLAIN:
        assert np.array_equal(parameters(trained(name, Taylor(slot))), plain)
    weighted = parameters(trained(name, Taylor(weighting=ONES)))
    if name == "SBX":  # standardised outside of its compiled update
        np.testing.assert_allclose(weighted, plain, rtol=1e-6, atol=1e-6)
    else:
        assert np.array_equal(weighted, plain)


@pytest.mark.parametrize(
    "make_env", [lambda: VecNormalize(make_ends()), lambda: make_ends(actions="box")]
)
def test_nothing_asked_of_sbx__nothing_changed_with_normalised_rewards_or_box_actions(make_env):
    plain, expanded, weighted = (
        parameters(trained("SBX", callback, make_env()))
        for callback in (None, Taylor(PLAIN[0]), Taylor(PLAIN[0], ONES))
    )
    assert np.array_equal(expanded, plain)
    np.testing.assert_allclose(weighted, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", TORCH)
def test_something_asked__something_changed(name):
    plain = parameters(trained(name, None))
    assert not np.array_equal(parameters(trained(name, Taylor(TaylorQ(0.99)))), plain)
    weights = TaylorWeight(GAMMA, 0)
    assert not np.array_equal(parameters(trained(name, Taylor(weighting=weights))), plain)


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize(
    "kind", ["normalised", "dict", "box", "gSDE", "subprocesses", "unstandardised", "subsampled"]
)
def test_nothing_asked__nothing_changed_in_any_environment(name, kind):
    absent = (name == "MaskablePPO" and kind == "box") or (name != "TRPO" and kind == "subsampled")
    if absent or (name != "PPO" and kind in {"gSDE", "subprocesses"}):
        pytest.skip("the trainer has no such setting, or another is tested with it")
    settings = {"dict_obs": kind == "dict"}
    if kind == "gSDE":
        settings["use_sde"] = True
    if kind == "unstandardised":
        settings["normalize_advantage"] = name == "A2C"
    if kind == "subsampled":
        settings["sub_sampling_factor"] = 2
    results = []
    for callback in (None, Taylor(PLAIN[0], ONES)):
        env = make_ends(
            vec_env=SubprocVecEnv if kind == "subprocesses" else DummyVecEnv,
            actions="box" if kind in {"box", "gSDE"} else "discrete",
            observations="dict" if kind == "dict" else "box",
        )
        env = VecNormalize(env) if kind == "normalised" else env
        results.append(parameters(trained(name, callback, env, **settings)))
        env.close()
    assert np.array_equal(*results)


def columns(steps):
    """How the rows of each environment ended, by its own account."""
    for i in range(NUM_ENVS):
        flags = [truths[i] for _, truths in steps]
        terminated = [death for death, *_ in flags]
        yield i, terminated, [limit and not death for death, limit, _ in flags]


def written_advantages(slot, rollout, steps):
    """The advantages that the buffer should hold."""
    terminal = iter(rollout["terminal"][:-1])
    boots = np.zeros((NUM_STEPS, NUM_ENVS))
    boots[-1] = rollout["terminal"][-1]
    for t, (_, truths) in enumerate(steps):
        for i, (terminated, truncated, _) in enumerate(truths):
            if truncated and not terminated:
                boots[t, i] = next(terminal)[0]
    table = []
    for i, terminated, truncated in columns(steps):
        rewards = [float(row[i]) for row, _ in steps]
        values = [float(x) for x in rollout["values"][:, i]]
        table.append((rewards, values, boots[:, i], terminated, truncated))
    return np.array(written_out.expanded(slot, table, GAMMA, LAM)).T


@pytest.mark.parametrize("name", ON_POLICY)
@pytest.mark.parametrize("slot", EXPANSIONS, ids=str)
def test_advantages__are_sums_over_episodes(name, slot):
    env, witness = Recorder(make_ends()), Witness()
    trained(name, [Taylor(slot), witness], env)
    assert len(witness.rollouts) == 3
    kinds = {truth[:2] for _, truths in env.steps for truth in truths}
    assert kinds == {(False, False), (True, False), (False, True), (True, True)}
    for k, rollout in enumerate(witness.rollouts):
        steps = env.steps[k * NUM_STEPS : (k + 1) * NUM_STEPS]
        expected = written_advantages(slot, rollout, steps)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(rollout["advantages"], expected, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv])
def test_advantages__of_normalised_rewards(vec_env):
    slot, witness = EXPANSIONS[0], Witness()
    env = Recorder(VecNormalize(make_ends(vec_env=vec_env)))
    trained("PPO", [Taylor(slot), witness], env)
    env.close()
    expected = written_advantages(slot, witness.rollouts[-1], env.steps[-NUM_STEPS:])
    scale = np.abs(expected).max()
    found = witness.rollouts[-1]["advantages"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * scale)


def test_returns__stay_the_targets_of_the_critic():
    plain, taylor = Witness(), Witness()
    trained("PPO", plain, rollouts=1)
    trained("PPO", [Taylor(EXPANSIONS[0]), taylor], rollouts=1)
    assert np.array_equal(plain.rollouts[0]["returns"], taylor.rollouts[0]["returns"])
    assert not np.array_equal(plain.rollouts[0]["advantages"], taylor.rollouts[0]["advantages"])


class Weights(BaseCallback):
    """The weights of every rollout, read where minibatches are made."""

    def __init__(self, taylor):
        super().__init__()
        self.taylor, self.found = taylor, []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        flat = self.taylor.rollout.weights
        self.found.extend(flat.reshape(NUM_ENVS, NUM_STEPS).T)


@pytest.mark.parametrize("name", ON_POLICY)
def test_ages__are_the_environments_own_across_rollouts_and_calls(name):
    """w_0(t) = γ^t tells the age."""
    env, found = Recorder(make_ends()), []
    model = make(name, env)
    for call in range(3):
        # With the same callback and with a new one.
        if call != 1:
            taylor = Taylor(weighting=TaylorWeight(0.99, 0))
        weights = Weights(taylor)
        model.learn(2 * NUM_STEPS * NUM_ENVS, [taylor, weights], reset_num_timesteps=call == 0)
        found.extend(weights.found)
    ages = [[truth[2] for truth in truths] for _, truths in env.steps]
    expected = [[GAMMA**age for age in row] for row in ages]
    assert np.max(ages) > 3
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_ages__are_known_after_an_early_stop():
    class Stop(BaseCallback):
        def _on_step(self):
            return self.n_calls < 21

    env, taylor = Recorder(make_ends()), Taylor(weighting=TaylorWeight(0.99, 0))
    model = make("PPO", env)
    model.learn(10**6, [taylor, Stop()])
    weights = Weights(taylor)
    model.learn(NUM_STEPS * NUM_ENVS, [taylor, weights], reset_num_timesteps=False)
    ages = [[truth[2] for truth in truths] for _, truths in env.steps[21:]]
    np.testing.assert_allclose(weights.found, GAMMA ** np.array(ages), rtol=1e-6)


def test_ages__that_are_not_known_are_refused_before_anything_is_done():
    model = trained("PPO", None)
    before, taylor = parameters(model), Taylor(EXPANSIONS[0], TaylorWeight(0.99))
    with pytest.raises(ValueError, match="ages of the running episodes are not known"):
        model.learn(NUM_STEPS, taylor, reset_num_timesteps=False)
    assert np.array_equal(parameters(model), before)
    model.set_env(model.get_env())
    model.learn(NUM_STEPS, taylor, reset_num_timesteps=False)
    assert not np.array_equal(parameters(model), before)


@pytest.mark.parametrize("name", ON_POLICY)
def test_ages__of_episodes_begun_in_a_plain_training_of_the_same_length_are_refused(name):
    steps, taylor = 2 * NUM_STEPS * NUM_ENVS, Taylor(weighting=TaylorWeight(0.99, 0))
    model = trained(name, taylor, rollouts=2)
    model.learn(steps)
    with pytest.raises(ValueError, match="ages of the running episodes are not known"):
        model.learn(NUM_STEPS, taylor, reset_num_timesteps=False)
    assert model.num_timesteps == steps


@pytest.mark.parametrize("name", ON_POLICY)
def test_ages__are_known_after_a_stop_at_the_first_step(name):
    """The trainer then still holds the flags of the reset."""

    class Stop(BaseCallback):
        def _on_step(self):
            return False

    env, taylor = Recorder(make_ends()), Taylor(weighting=TaylorWeight(0.99, 0))
    model = make(name, env)
    model.learn(10**6, [taylor, Stop()])
    weights = Weights(taylor)
    for _ in range(2):
        model.learn(NUM_STEPS * NUM_ENVS, [taylor, weights], reset_num_timesteps=False)
        model.set_env(model.get_env())  # begins new episodes
    ages = [[truth[2] for truth in truths] for _, truths in env.steps[1:]]
    np.testing.assert_allclose(weights.found, GAMMA ** np.array(ages), rtol=1e-6)


class Look(BaseCallback):
    """Minibatches of a rollout, as the trainer gets them, with the values of their rows."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buffer, model = self.model.rollout_buffer, self.model
        for batch in buffer.get(24):
            kept = batch.mask > 0.5 if "mask" in batch._fields else slice(None)
            assert not model.normalize_advantage
            self.batches.append([x[kept].numpy() for x in (batch.advantages, batch.old_values)])
        assert model.normalize_advantage


@pytest.mark.parametrize("name", ON_POLICY)
def test_minibatches__hold_standardised_and_weighted_advantages(name):
    """Sub-sampled by TRPO, padded by RecurrentPPO, with N in the deviation by SBX."""
    factor = 2 if name == "TRPO" else 1
    settings = {"sub_sampling_factor": 2} if name == "TRPO" else {}
    env, witness, look = Recorder(make_ends()), Witness(), Look()
    taylor = Taylor(weighting=TaylorWeight(0.97, 2))
    trained(name, [taylor, witness, look], env, 1, normalize_advantage=True, **settings)
    (rollout,) = witness.rollouts
    ages = np.array([[truth[2] for truth in truths] for _, truths in env.steps])
    # A row is known by the critic's value of its state.
    rows = {value: divmod(i, NUM_ENVS) for i, value in enumerate(rollout["values"].ravel())}
    assert len(rows) == ages.size
    for advantages, values in look.batches:
        where = tuple(np.array([rows[value] for value in values]).T)
        raw = rollout["advantages"][where].astype(np.float64)
        weights = [written_out.update_weight(int(t), GAMMA, 0.97, 2) for t in ages[where]]
        counted = raw[::factor]
        standard = (raw - counted.mean()) / counted.std(ddof=0 if name == "SBX" else 1)
        np.testing.assert_allclose(advantages, standard * weights, rtol=1e-4, atol=1e-5)


CLIPPED = {"learning_rate": 0.01, "n_epochs": 20, "clip_range": 0.9, "max_grad_norm": 5.0}
LEARNING = {
    "PPO": CLIPPED | {"batch_size": 384, "normalize_advantage": False},
    "A2C": {"learning_rate": 0.02},
    "TRPO": {"learning_rate": 0.01, "target_kl": 0.05, "batch_size": 384},
}


@pytest.mark.parametrize("name", ["PPO", "A2C", "TRPO", "SBX"])
def test_learning__order_3_waits_where_the_plain_trainer_takes_what_it_gets(name):
    settings = {"gamma": 0.5, "gae_lambda": 1.0, "n_steps": 384, "policy_kwargs": {}}
    settings |= LEARNING["PPO" if name == "SBX" else name]

    def train(slot):
        env = DummyVecEnv([Choice])
        model = make(name, env, **settings)
        model.learn(12 * 384, None if slot is None else Taylor(slot))
        return probability_of_one(model, env.reset())

    check_waiting(train)


def probability_of_one(model, obs):
    if in_torch(model):
        distribution = model.policy.get_distribution(torch.tensor(obs))
        return distribution.distribution.probs[0, 1].item()
    state = model.policy.actor_state
    return float(state.apply_fn(state.params, obs).probs_parameter()[0, 1])
