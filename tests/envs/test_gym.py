"""Any Gymnasium environment under the contract, checked on scripted and on real ones."""

import re
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gammaprime import envs
from gammaprime.envs import gym
from gammaprime.envs.gym import GymEnv, action_space, observation_space


class Scripted(gymnasium.Env):
    """Counts its steps and its resets, ends as it is told, and remembers what it was given."""

    def __init__(self, ends=(), action=None, dtype=np.float64):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), dtype)
        self.action_space = action or spaces.Discrete(3)
        self.ends = dict(ends)  # step -> (terminated, truncated)
        self.resets, self.actions, self.given, self.closed = 0, [], [], False
        self.poison = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.given.append(seed)
        self.steps = 0
        self.resets += 1
        return self.look(), {}

    def step(self, action):
        self.actions.append(action)
        self.steps += 1
        flags = self.ends.get(self.steps, (False, False))
        return self.look(), self.steps / 8, *flags, {}

    def look(self):
        obs = np.array([self.resets, self.steps], self.observation_space.dtype)
        return obs if self.poison is None else obs * self.poison

    def close(self):
        self.closed = True


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_step__passes_both_flags_and_both_observations(flags):
    env = GymEnv([lambda: Scripted({3: flags})])
    assert (env.reset(0) == [[1, 0]]).all()
    answers = [env.step([1]) for _ in range(7)]
    assert [(a.terminated[0], a.truncated[0]) for a in answers[:3]] == [(False, False)] * 2 + [
        flags
    ]
    assert [tuple(a.next_obs[0]) for a in answers[:4]] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert [tuple(a.obs[0]) for a in answers[:4]] == [(1, 1), (1, 2), (2, 0), (2, 1)]
    assert [a.step[0] for a in answers] == [0, 1, 2, 0, 1, 2, 0]
    assert [a.reward[0] for a in answers[:4]] == [1 / 8, 2 / 8, 3 / 8, 1 / 8]


def test_time_limit__cuts_and_a_termination_on_that_step_sets_both_flags():
    env = GymEnv([lambda: Scripted({4: (True, False)}), Scripted], time_limit=4)
    env.reset(0)
    answer = [env.step([0, 0]) for _ in range(4)][-1]
    assert answer.terminated.tolist() == [True, False]
    assert answer.truncated.tolist() == [True, True]


def test_rows__are_reset_alone_and_seeded_once():
    rows = [Scripted({2: (True, False)}), Scripted()]
    env = GymEnv([lambda: rows[0], lambda: rows[1]])
    env.reset(5)
    for _ in range(4):
        env.step([0, 2])
    # A seed at the first reset only: later ones continue the row's generator.
    assert rows[0].given == [env.seeds[0], None, None]
    assert rows[1].given == [env.seeds[1]]
    assert env.age.tolist() == [0, 4]
    assert rows[1].actions == [2] * 4
    env.close()
    assert rows[0].closed
    assert rows[1].closed


def test_restore__starts_episodes_that_were_never_played():
    def make(rows):
        return GymEnv([lambda row=row: row for row in rows])

    env = make([Scripted({2: (True, False)}), Scripted()])
    env.reset(5)
    for _ in range(5):
        env.step([0, 2])
    assert not env.exact_resume
    rows, later = [Scripted(), Scripted()], [Scripted(), Scripted()]
    resumed, again = make(rows), make(later)
    resumed.restore(env.snapshot())
    assert resumed.seeds == env.seeds
    assert resumed.age.tolist() == [0, 0]
    again.restore(resumed.snapshot())
    seeds = [row.given[-1] for row in (*rows, *later)]
    assert len({*seeds, *env.seeds}) == 6


@pytest.mark.parametrize(("start", "expected"), [(0, [0, 2]), (-1, [-1, 1]), (5, [5, 7])])
def test_discrete_actions__are_counted_from_zero(start, expected):
    row = Scripted(action=spaces.Discrete(3, start=start))
    env = envs.make(row)
    env.reset(0)
    for action in (0, 2):
        env.step([action])
    assert row.actions == expected
    assert env.action == envs.Discrete(3, start)


def test_make__tells_what_gymnasium_cannot_make(monkeypatch):
    with pytest.raises(ValueError, match=r"task='gymnasium:Nowhere-v0': .*Nowhere"):
        envs.make("gymnasium:Nowhere-v0")
    with pytest.raises(ValueError, match=r"makes a dict, no gymnasium\.Env"):
        envs.make(dict)

    def incomplete(*args, **options):
        raise gymnasium.error.DependencyNotInstalled("Box2D is not installed, run `pip install x`")

    monkeypatch.setattr(gymnasium, "make", incomplete)
    with pytest.raises(ImportError, match=r"task='CartPole-v1': Box2D is not installed, run"):
        envs.make("CartPole-v1")


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0"])
def test_registered_tasks__are_gymnasiums_bit_for_bit(task, draw, rng):
    env = envs.make(task, 2, time_limit=60)
    obs = env.reset(1)
    peers = [gymnasium.make(task, max_episode_steps=60) for _ in range(2)]
    for i, peer in enumerate(peers):
        assert (peer.reset(seed=env.seeds[i])[0] == obs[i]).all()
    ended = 0
    for action in draw(env, 150, rng):
        answer = env.step(action)
        for i, peer in enumerate(peers):
            next_obs, reward, *flags, _ = peer.step(action[i])
            assert (next_obs == answer.next_obs[i]).all()
            assert reward == answer.reward[i]
            assert flags == [answer.terminated[i], answer.truncated[i]]
            ended += any(flags)
            assert ((peer.reset()[0] if any(flags) else next_obs) == answer.obs[i]).all()
    assert ended >= 4


def test_time_limit_beyond_that_of_the_environment__is_refused():
    """The environment would cut its episodes before, and its age would be scaled wrongly."""

    def make():
        return gymnasium.make("Pendulum-v1")

    assert envs.make(make, time_limit=200).time_limit == 200
    with pytest.raises(ValueError, match=r"time_limit=500: must be at most 200.*max_episode_steps"):
        envs.make(make, time_limit=500)
    longer = partial(gymnasium.make, "Pendulum-v1", max_episode_steps=500)
    with pytest.raises(ValueError, match=r"time limits \[200, 500\]: must all be the same"):
        envs.make([make, longer])
    assert envs.make([make, longer], time_limit=100).time_limit == 100


def test_time_limit__is_the_registered_one_unless_another_is_given():
    assert envs.make("CartPole-v1").time_limit == 500
    assert envs.make("CartPole-v1", time_limit=2000).time_limit == 2000
    assert envs.make(Scripted).time_limit is None
    env = envs.make("Pendulum-v1", time_limit=300)
    env.reset(0)
    cuts = [env.step([[0.0]]).truncated[0] for _ in range(300)]
    assert cuts == [False] * 299 + [True]


def test_make__takes_environments_constructors_and_lists_of_them():
    assert envs.make(Scripted()).num_envs == 1
    assert envs.make(Scripted, 3).num_envs == 3
    assert envs.make([Scripted, lambda: Scripted({1: (True, False)})]).num_envs == 2
    with pytest.raises(ValueError, match=r"num_envs=2: one environment object is one row"):
        envs.make(Scripted(), 2)
    with pytest.raises(ValueError, match=r"num_envs=3: the list holds 2 constructors"):
        envs.make([Scripted, Scripted], 3)
    for task in (None, 4, [], ["Hopper-v4"]):
        with pytest.raises(ValueError, match=r"task=.*: must be an id"):
            envs.make(task)


def test_rows__must_have_the_same_spaces():
    with pytest.raises(ValueError, match=r"constructors\[1\] makes spaces Box.*row 0"):
        envs.make([Scripted, lambda: Scripted(action=spaces.Discrete(4))])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_observations_that_are_not_finite__are_named(value):
    rows = [Scripted(), Scripted({5: (True, False)})]
    env = envs.make([lambda: rows[0], lambda: rows[1]])
    env.reset(0)
    for _ in range(4):
        env.step([0, 0])
    rows[1].poison = value
    with pytest.raises(ValueError, match=rf"next_obs\[1, 0\]={value} in row 1 at step 4"):
        env.step([0, 0])
    rows[1].look = lambda: np.array([0.0, value])
    with pytest.raises(ValueError, match=rf"^obs\[1, 1\]={value} in row 1 at step 0"):
        env.reset(0)


def test_rewards_that_are_not_finite__are_named():
    row = Scripted()
    row.step = lambda action: (row.look(), np.nan, False, False, {})
    env = envs.make(row)
    env.reset(0)
    with pytest.raises(ValueError, match=r"reward\[0\]=nan in row 0 at step 0"):
        env.step([0])


BAD_OBSERVATIONS = [
    spaces.Discrete(4),
    spaces.Dict({"a": spaces.Discrete(2)}),
    spaces.Tuple([spaces.Discrete(2)]),
    spaces.MultiBinary(3),
]
BAD_ACTIONS = [
    spaces.MultiDiscrete([2, 2]),
    spaces.MultiBinary(3),
    spaces.Box(-1, 1, (2, 2)),
    spaces.Box(0, 5, (2,), np.int64),
    spaces.Dict({"a": spaces.Discrete(2)}),
]


@pytest.mark.parametrize("space", BAD_OBSERVATIONS, ids=str)
def test_observation_spaces_that_are_not_supported__are_named(space):
    with pytest.raises(ValueError, match=r"observation space .* is not supported: .*Flatten") as e:
        observation_space(space)
    assert str(space) in str(e.value)


@pytest.mark.parametrize("space", BAD_ACTIONS, ids=str)
def test_action_spaces_that_are_not_supported__are_named(space):
    with pytest.raises(ValueError, match=r"action space .* is not supported") as e:
        action_space(space)
    assert str(space) in str(e.value)


def test_integer_observations__become_floats():
    assert observation_space(spaces.Box(0, 9, (4,), np.int64)).dtype == np.float32
    env = envs.make(lambda: Scripted(dtype=np.int64))
    assert env.reset(0).dtype == np.float32


class Lying(Scripted):
    """Answers as its author wrote, whatever its spaces say."""

    def __init__(self, first=None, answer=None, **changes):
        super().__init__()
        self.first, self.answer = first, answer
        names = ("observation", "reward", "terminated", "truncated", "info")
        self.changes = {names.index(name): value for name, value in changes.items()}

    def reset(self, *, seed=None, options=None):
        usual = super().reset(seed=seed)
        return usual if self.first is None else self.first

    def step(self, action):
        if self.answer is not None:
            return self.answer
        usual = enumerate(super().step(action))
        return tuple(self.changes.get(place, value) for place, value in usual)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (np.array([1.0, 2.0]), "returns a ndarray: must return 2, (observation, info)"),
        ((np.zeros(2), {}, 0), "returns 3 values: must return 2, (observation, info)"),
        ((np.zeros(1), {}), "returns an observation of shape (1,): must be (2,)"),
        ((np.zeros((1, 2)), {}), "returns an observation of shape (1, 2): must be (2,)"),
        ((0.5, {}), "returns an observation of shape (): must be (2,)"),
        ((["1", "2"], {}), "returns an observation of <U1: must be real numbers"),
        ((np.zeros(2, complex), {}), "returns an observation of complex128: must be real"),
        (([[1.0], [1.0, 2.0]], {}), "returns an observation that is no array"),
    ],
)
def test_reset_that_does_not_keep_the_contract__is_named(first, message):
    env = GymEnv([Scripted, lambda: Lying(first)])
    with pytest.raises(ValueError, match=re.escape("reset() of environment 1 " + message)):
        env.reset(0)


@pytest.mark.parametrize(
    ("lies", "message"),
    [
        (
            {"answer": (np.zeros(2), 0.0, False, {})},
            "returns 4 values: must return 5, (observation",
        ),
        ({"answer": None, "observation": np.zeros(3)}, "returns an observation of shape (3,)"),
        ({"reward": "1.5"}, "returns reward='1.5': must be a number"),
        ({"reward": None}, "returns reward=None: must be a number"),
        ({"reward": np.ones(1)}, "returns reward=array([1.]): must be a number"),
        ({"terminated": "False"}, "returns terminated='False': must be True or False"),
        ({"terminated": 0}, "returns terminated=0: must be True or False"),
        ({"truncated": None}, "returns truncated=None: must be True or False"),
        ({"truncated": np.zeros(1, bool)}, "returns truncated=array([False]): must be True or"),
    ],
)
def test_step_that_does_not_keep_the_contract__is_named(lies, message):
    env = GymEnv([Scripted, lambda: Lying(**lies)])
    env.reset(0)
    with pytest.raises(ValueError, match=re.escape("step() of environment 1 " + message)):
        env.step([0, 0])


@pytest.mark.parametrize(
    "kept",
    [
        {"reward": 1, "terminated": np.bool_(False)},
        {"reward": np.float32(0.5), "truncated": np.array(True)},
        {"observation": [1, 2]},
    ],
)
def test_answers_in_other_types_of_the_same_meaning__are_taken(kept):
    env = GymEnv([lambda: Lying(**kept)])
    env.reset(0)
    seen = env.step([0])
    assert seen.reward[0] == kept.get("reward", 1 / 8)
    assert seen.truncated[0] == kept.get("truncated", False)


def test_answers__are_checked_once_for_each_environment(monkeypatch):
    checked = []
    monkeypatch.setattr(gym, "check_answer", lambda call, *rest: checked.append(call))
    env = GymEnv([lambda: Scripted({2: (True, False)})] * 2)
    env.reset(0)
    for _ in range(5):
        env.step([0, 0])
    env.reset(1)
    wanted = [f"{call}() of environment {row}" for call in ("reset", "step") for row in (0, 1)]
    assert checked == wanted


@pytest.mark.parametrize(
    ("observations", "actions", "help_"),
    [
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Discrete(2), "Stable-Baselines3"),
        (spaces.Dict({"a": spaces.Discrete(2)}), spaces.Discrete(2), "FlattenObservation"),
        (spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3]), "TransformAction"),
    ],
)
def test_spaces_that_no_agent_knows__are_refused_with_what_helps(observations, actions, help_):
    class Odd(gymnasium.Env):
        observation_space, action_space = observations, actions

    with pytest.raises(ValueError, match=help_):
        envs.make(Odd)


def test_vector_environment__is_refused_with_what_helps():
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(ValueError, match="list of the constructors of its rows"):
        envs.make(vector)
