"""An MDP as environment behaves as its arrays say, within stated standard errors."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from gammaprime import tabular
from gammaprime.envs import Discrete, FiniteEnv

STATES, ACTIONS = 5, 3


def mortal_mdp(rng, sparse=False):
    """Four living states, and one that is absorbing; some transitions are impossible."""
    transition = rng.dirichlet(np.full(STATES, 0.5), size=(STATES, ACTIONS))
    transition[1, 2] = [0.0, 0.0, 1.0, 0.0, 0.0]
    transition[2, :, 3] = 0.0
    transition /= transition.sum(axis=-1, keepdims=True)
    transition[4] = np.eye(STATES)[4]
    reward = rng.uniform(-1.0, 1.0, (STATES, ACTIONS))
    reward[4] = 0.0
    if sparse:
        matrices = [sp.coo_array(transition[:, a]) for a in range(ACTIONS)]
        return tabular.MDP(matrices, reward), transition
    return tabular.MDP(transition, reward), transition


def record(env, num_steps, rng, draw):
    """Flat arrays of states, actions, successors, rewards."""
    state = env.reset(1).argmax(axis=1)
    rows = []
    for action in draw(env, num_steps, rng):
        answer = env.step(action)
        rows.append((state, action, answer.next_obs.argmax(axis=1), answer.reward))
        state = answer.obs.argmax(axis=1)
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_transitions__have_the_frequencies_of_the_mdp(sparse, rng, draw):
    mdp, transition = mortal_mdp(rng, sparse)
    env = FiniteEnv(mdp, 64, start=[0.4, 0.3, 0.2, 0.1, 0.0])
    state, action, successor, reward = record(env, 1500, rng, draw)
    counts = np.zeros((STATES, ACTIONS, STATES))
    np.add.at(counts, (state, action, successor), 1)
    visits = counts.sum(axis=-1, keepdims=True)
    assert visits[:4].min() > 500
    assert visits[4].sum() == 0
    # A frequency of n draws has the standard error √(p(1−p)/n); 60 of them, so 4 of them.
    error = np.sqrt(transition * (1 - transition) / np.maximum(visits, 1))
    assert (np.abs(counts / np.maximum(visits, 1) - transition)[:4] <= 4 * error[:4]).all()
    assert (counts[transition == 0.0] == 0).all()
    assert (reward == mdp.reward[state, action]).all()


def test_dense_and_sparse__are_the_same_environment(rng, draw, play, assert_same):
    seed = rng.integers(1000)
    kinds = [mortal_mdp(np.random.default_rng(seed), sparse)[0] for sparse in (False, True)]
    played = []
    for mdp in kinds:
        env = FiniteEnv(mdp, 8)
        env.reset(0)
        played.append(play(env, draw(env, 200, np.random.default_rng(1))))
    assert_same(*played)


def test_starts__have_the_given_distribution(rng):
    mdp, _ = mortal_mdp(rng)
    start = np.array([0.5, 0.0, 0.3, 0.2, 0.0])
    env = FiniteEnv(mdp, 20_000, start=start)
    frequency = env.reset(0).mean(axis=0)
    assert_allclose(frequency, start, atol=4 * np.sqrt(0.25 / 20_000))
    assert (frequency[start == 0] == 0).all()
    assert (FiniteEnv(mdp, 5, start=2).reset(0).argmax(axis=1) == 2).all()


def test_absorption__terminates_and_the_limit_truncates(rng, draw, play):
    mdp, _ = mortal_mdp(rng)
    env = FiniteEnv(mdp, 32, time_limit=4)
    env.reset(0)
    answer = play(env, draw(env, 300, rng))
    arrived = answer.next_obs.argmax(axis=-1)
    assert (answer.terminated == (arrived == 4)).all()
    assert (answer.truncated == (answer.step == 3)).all()
    assert (answer.terminated & answer.truncated).any()
    assert (answer.obs.argmax(axis=-1) != 4).all()
    ended = answer.terminated | answer.truncated
    assert (answer.obs[ended].argmax(axis=-1) == 0).all()


def test_absorbing__needs_zero_reward_and_every_action():
    transition = np.zeros((3, 2, 3))
    transition[0, :, 1] = 1.0
    transition[1, :, 1] = 1.0
    transition[2, 0, 2] = transition[2, 1, 0] = 1.0
    reward = np.zeros((3, 2))
    env = FiniteEnv(SimpleNamespace(transition=transition, reward=reward))
    assert env.absorbing.tolist() == [False, True, False]
    reward[1, 1] = 0.5
    paid = FiniteEnv(SimpleNamespace(transition=transition, reward=reward))
    assert paid.absorbing.tolist() == [False, False, False]


@pytest.mark.paper("fig:errors")
def test_reward_noise__is_relative_and_leaves_the_path_alone(rng, draw):
    mdp, _ = mortal_mdp(rng)
    env = FiniteEnv(mdp, 64, reward_noise=0.2)
    state, action, _, reward = record(env, 1000, rng, draw)
    noise = reward / mdp.reward[state, action] - 1.0
    n = len(noise)
    assert abs(noise.mean()) < 4 * 0.2 / np.sqrt(n)
    assert abs(noise.std() - 0.2) < 4 * 0.2 / np.sqrt(2 * n)


def test_rows__do_not_know_of_each_other(rng, draw, play, assert_same):
    mdp, _ = mortal_mdp(rng)
    one, many = (FiniteEnv(mdp, n, reward_noise=0.5) for n in (1, 6))
    one.reset(3)
    many.reset(3)
    actions = draw(many, 100, rng)
    answer = play(many, actions)
    assert_same(play(one, actions[:, :1]), type(answer)(*(field[:, :1] for field in answer)))


def test_continuous_actions__mix_the_two_choices():
    # State 0 pays 0 for the first action and 1 for the second, and both end.
    transition = np.eye(2)[np.array([[1, 1], [1, 1]])]
    mdp = SimpleNamespace(transition=transition, reward=np.array([[0.0, 1.0], [0.0, 0.0]]))
    n = 20_000
    env = FiniteEnv(mdp, n, continuous=True)
    env.reset(0)
    for action, chance in ((-1.0, 0.0), (0.5, 0.75), (1.0, 1.0), (-7.0, 0.0), (7.0, 1.0)):
        reward = env.step(np.full((n, 1), action)).reward.mean()
        assert abs(reward - chance) <= 4 * np.sqrt(chance * (1 - chance) / n)
    assert env.action.shape == (1,)
    assert FiniteEnv(mdp).action == Discrete(2)


GOOD = np.full((2, 2, 2), 0.5)


@pytest.mark.parametrize(
    ("transition", "reward", "options", "message"),
    [
        (GOOD[0], np.zeros((2, 2)), {}, r"transition has shape \(2, 2\)"),
        (GOOD[:, :, :1], np.zeros((2, 2)), {}, "must be square"),
        (0.9 * GOOD, np.zeros((2, 2)), {}, r"transition\[0, 0\] sums to 0.9"),
        (GOOD + np.array([0.75, -0.75]), np.zeros((2, 2)), {}, r"least entry is -0\.25:"),
        (GOOD * np.nan, np.zeros((2, 2)), {}, "rows must be distributions"),
        (GOOD, np.zeros((2, 3)), {}, r"reward: must be finite, of shape \(2, 2\)"),
        (GOOD, np.full((2, 2), np.nan), {}, "reward: must be finite"),
        (GOOD, np.zeros((2, 2)), {"start": 2}, r"start=2: must be a state in \[0, 2\)"),
        (GOOD, np.zeros((2, 2)), {"start": 0.5}, "start=0.5: must be a state"),
        (GOOD, np.zeros((2, 2)), {"start": [0.5, 0.6]}, "must be a distribution"),
        (GOOD, np.zeros((2, 2)), {"start": [1.5, -0.5]}, "must be >= 0"),
        (GOOD, np.zeros((2, 2)), {"reward_noise": -0.1}, "reward_noise=-0.1"),
        (GOOD, np.zeros((2, 2)), {"reward_noise": np.nan}, "reward_noise=nan"),
        (np.full((2, 3, 2), 0.5), np.zeros((2, 3)), {"continuous": True}, "needs 2 actions"),
        (np.eye(2)[np.zeros((2, 2), int)], np.zeros((2, 2)), {}, "0 for absorbing states"),
    ],
)
def test_finite_env__refuses(transition, reward, options, message):
    with pytest.raises(ValueError, match=message):
        FiniteEnv(SimpleNamespace(transition=transition, reward=reward), **options)


def test_restore__refuses_states_that_are_none(rng):
    env = FiniteEnv(mortal_mdp(rng)[0], 2)
    env.reset(0)
    snapshot = env.snapshot()
    snapshot["state"][1] = STATES
    with pytest.raises(ValueError, match=r"snapshot\['state'\]: must lie in \[0, 5\)"):
        env.restore(snapshot)
