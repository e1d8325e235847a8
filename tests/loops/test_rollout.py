"""Rollouts and evaluations: what is collected, what is counted, what stops them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gammaprime import envs
from gammaprime.envs import FiniteEnv, probes
from gammaprime.envs.contract import NotFiniteError
from gammaprime.loops.evaluate import evaluate
from gammaprime.loops.rollout import BreakdownError, Returns, check_rollout, collect
from gammaprime.networks import Actor, Layer

GAMMAS = (0.9, 0.99)


def uniform_actor(num_inputs, num_actions=2):
    zero = Layer(np.zeros((num_inputs, num_actions), np.float32), np.zeros(num_actions, np.float32))
    return Actor((zero,), None, None, "tanh")


def roll(env, num_steps, returns=None, now=0):
    returns = returns or Returns(env.num_envs, *GAMMAS)
    actor = uniform_actor(env.observation.shape[0])
    return collect(env, actor, env.reset(1), num_steps, np.random.default_rng(0), returns, now)


def test_returns__are_the_discounted_sums_of_each_episode(rng):
    reward = rng.normal(size=(40, 3))
    ended = rng.random((40, 3)) < 0.15
    step = np.zeros((40, 3), int)
    for t in range(1, 40):
        step[t] = np.where(ended[t - 1], 0, step[t - 1] + 1)
    returns = Returns(3, *GAMMAS)
    cuts = [slice(0, 1), slice(1, 17), slice(17, 40)]
    episodes = []
    for c in cuts:
        whole, early = returns.add(reward[c], ended[c], step[c], 3 * c.start)
        episodes += whole
        assert early == []
    wanted = []
    for t, row in np.argwhere(ended):
        length = step[t, row] + 1
        path = reward[t + 1 - length : t + 1, row]
        sums = [(path * gamma ** np.arange(length)).sum() for gamma in (1.0, *GAMMAS)]
        wanted.append((3 * t + 3, length, *sums))
    assert len(episodes) == len(wanted) > 5
    np.testing.assert_allclose(np.array(episodes), np.array(wanted), rtol=1e-12)


def test_returns__go_on_from_a_snapshot_in_the_middle_of_an_episode(rng):
    reward = rng.normal(size=(6, 2))
    ended = np.zeros((6, 2), bool)
    ended[-1] = True
    first, second = Returns(2, *GAMMAS), Returns(2, *GAMMAS)
    step = np.arange(6).repeat(2).reshape(6, 2)
    first.add(reward[:3], ended[:3], step[:3], 0)
    second.restore(first.snapshot())
    answers = [r.add(reward[3:], ended[3:], step[3:], 6) for r in (first, second)]
    assert answers[0] == answers[1] != ([], [])


def test_collect__keeps_true_successors_and_acts_on_the_reset():
    env = probes.discount_chain(delay=4).env(3)
    rollout, obs, episodes, _ = roll(env, 30)
    ended = rollout.terminated | rollout.truncated
    assert ended.any()
    chained = (rollout.next_obs[:-1] == rollout.obs[1:]).all(axis=-1)
    np.testing.assert_array_equal(chained, ~ended[:-1])
    np.testing.assert_array_equal(rollout.step[1:], np.where(ended, 0, rollout.step + 1)[:-1])
    last = np.where(ended[-1][:, None], obs, rollout.next_obs[-1])
    np.testing.assert_array_equal(obs, last)
    assert len(episodes) == ended.sum()
    assert sorted(e.length for e in episodes) == sorted(rollout.step[ended] + 1)


def test_episodes__know_when_they_ended_across_rollouts():
    env = probes.constant_reward().env(2)
    _, _, episodes, _ = roll(env, 3, now=100)
    assert [e.ended_at for e in episodes] == [102, 102, 104, 104, 106, 106]


class Refusing:
    """An environment that refuses the third step."""

    def __init__(self, env, error=NotFiniteError):
        self.env, self.left, self.error = env, 2, error
        self.num_envs, self.action, self.observation = env.num_envs, env.action, env.observation

    def reset(self, seed):
        return self.env.reset(seed)

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            raise self.error("next_obs[0, 1]=nan in row 0 at step 2 of its episode: must be finite")
        return self.env.step(action)


def test_step_that_is_refused__is_a_breakdown_with_the_rollout_so_far():
    env = Refusing(probes.observation_reward().env(2))
    with pytest.raises(BreakdownError, match="must be finite") as broken:
        roll(env, 5)
    arrays = broken.value.arrays
    assert arrays["rollout/reward"].shape == (2, 2)
    assert arrays["last_action"].shape == (2,)
    env.left = 0
    with pytest.raises(BreakdownError) as broken:
        roll(env, 5)
    assert broken.value.arrays["rollout/obs"].size == 0


@pytest.mark.parametrize("error", [ValueError, RuntimeError, OSError])
def test_error_of_an_environment__is_its_own_and_no_breakdown(error):
    with pytest.raises(error, match="must be finite") as raised:
        roll(Refusing(probes.observation_reward().env(2), error), 5)
    assert type(raised.value) is error


@pytest.mark.parametrize("name", ["obs", "next_obs", "action", "reward"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rollout_with_what_is_no_number__names_it(rng, name, value):
    rollout, *_ = roll(probes.observation_reward().env(2), 4)
    rollout = rollout._replace(action=rollout.action.astype(np.float32))
    check_rollout(rollout)
    array = np.array(rollout._asdict()[name], np.float64)
    array[2, 1, ...] = value
    with pytest.raises(BreakdownError, match=f"^{name} at step 2 .* row 1"):
        check_rollout(rollout._replace(**{name: array}))


def test_evaluate__takes_the_same_number_of_episodes_from_every_row():
    env = probes.delayed_reward(delay=3).env(2)
    actor = uniform_actor(env.observation.shape[0])
    episodes = evaluate(actor, env, 6, 0, *GAMMAS)
    length = episodes[0].length
    assert len(episodes) == 6
    for episode in episodes:
        assert episode.undiscounted == 1.0
        np.testing.assert_allclose(episode.at_gamma, 0.9 ** (length - 1))
        np.testing.assert_allclose(episode.at_gamma_prime, 0.99 ** (length - 1))


def test_evaluate__depends_on_its_seed_alone():
    env = probes.observation_reward().env(4)
    actor = uniform_actor(env.observation.shape[0])
    first, other, again = (evaluate(actor, env, 32, seed, *GAMMAS) for seed in (0, 1, 0))
    assert first == again != other


def test_evaluate__draws_actions_where_it_is_given_a_generator():
    env = probes.action_reward().env(1)
    actor = uniform_actor(env.observation.shape[0])
    sure = evaluate(actor, env, 20, 0, *GAMMAS)
    drawn, again = (evaluate(actor, env, 20, 0, *GAMMAS, np.random.default_rng(7)) for _ in "ab")
    assert drawn == again != sure


def test_evaluate__refuses_a_number_that_rows_cannot_share():
    env = probes.constant_reward().env(2)
    with pytest.raises(ValueError, match=r"num_episodes=3: must be a multiple of num_envs=2"):
        evaluate(uniform_actor(1), env, 3, 0, *GAMMAS)


@pytest.mark.parametrize(("num_envs", "cut_at"), [(1, []), (4, [3, 5, 8])])
@pytest.mark.parametrize("task", ["Pendulum-v1", "HalfCheetah-v4"])
def test_collect__first_episodes_that_were_cut_to_stagger_the_rows_stand_apart(
    task, num_envs, cut_at
):
    env = envs.make(task, num_envs, time_limit=10, stagger=True)
    shape = env.observation.shape[0], env.action.shape[0]
    actor = replace(uniform_actor(*shape), log_std=np.zeros(shape[1], np.float32))
    returns, rng = Returns(num_envs, *GAMMAS), np.random.default_rng(0)
    obs, whole, cut = env.reset(1), [], []
    for i in range(8):
        _, obs, more, early = collect(env, actor, obs, 4, rng, returns, 4 * i * num_envs)
        whole, cut = whole + more, cut + early
    assert [episode.length for episode in cut] == cut_at
    assert {episode.length for episode in whole} == {10}


def test_collect__a_staggered_episode_that_ends_by_itself_is_whole():
    chain = np.zeros((3, 1, 3))
    chain[[0, 1, 2], 0, [1, 2, 2]] = 1.0
    mdp = SimpleNamespace(transition=chain, reward=np.array([[1.0], [1.0], [0.0]]))
    env = FiniteEnv(mdp, 2, time_limit=4, stagger=True)  # ends at 2, where row 0 is cut
    actor = uniform_actor(env.observation.shape[0], 1)
    returns = Returns(2, *GAMMAS)
    *_, whole, cut = collect(env, actor, env.reset(1), 2, np.random.default_rng(0), returns, 0)
    assert [episode.length for episode in whole] == [2, 2]
    assert cut == []
