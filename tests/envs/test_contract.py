"""One contract, whatever is behind it; and the pieces it is made of."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gammaprime import envs
from gammaprime.envs import probes
from gammaprime.envs.contract import Ages, check_finite
from gammaprime.envs.generators import (
    later_seed,
    make_generator,
    pack_generators,
    spawn_seeds,
    unpack_generator,
)

N = 3


def random_finite():
    rng = np.random.default_rng(0)
    transition = np.zeros((5, 2, 5))
    transition[..., :4] = 0.95 * rng.dirichlet(np.ones(4), size=(5, 2))
    transition[..., 4] = 0.05
    transition[4] = np.eye(5)[4]
    reward = rng.random((5, 2))
    reward[4] = 0.0
    return SimpleNamespace(transition=transition, reward=reward)


MAKERS = {
    "mujoco": lambda **options: envs.make("Hopper-v4", N, **options),
    "mujoco that never falls": lambda **options: envs.make("HalfCheetah-v5", N, **options),
    "gym": lambda **options: envs.make("CartPole-v1", N, **options),
    "gym, continuous": lambda **options: envs.make("Pendulum-v1", N, **options),
    "finite": lambda **options: envs.FiniteEnv(random_finite(), N, reward_noise=0.3, **options),
    "time feature": lambda **options: envs.make("Walker2d-v4", N, time_feature=True, **options),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.mark.paper("x:episode-clock")
def test_step__gives_what_is_described(make, draw, play, rng):
    env = make(time_limit=12)
    obs = env.reset(4)
    answer = play(env, draw(env, 60, rng))
    assert env.num_envs == N
    assert env.time_limit == 12
    assert obs.shape == (N, *env.observation.shape)
    assert obs.dtype == answer.obs.dtype == answer.next_obs.dtype == env.observation.dtype
    assert answer.next_obs.shape == answer.obs.shape == (60, N, *env.observation.shape)
    assert answer.reward.shape == answer.step.shape == (60, N)
    assert answer.reward.dtype == np.float64
    assert answer.step.dtype == np.int64
    assert answer.terminated.dtype == answer.truncated.dtype == bool
    assert (answer.next_obs >= env.observation.low).all()
    assert (answer.next_obs <= env.observation.high).all()


def test_step__never_skips_a_transition(make, draw, play, rng):
    env = make(time_limit=12)
    first = env.reset(4)
    answer = play(env, draw(env, 120, rng))
    ended = answer.terminated | answer.truncated
    assert ended.any(axis=0).all()
    age = np.where(ended, 0, answer.step + 1)
    assert (answer.step[0] == 0).all()
    assert (answer.step[1:] == age[:-1]).all()
    assert (env.age == age[-1]).all()
    assert answer.step.max() == 11
    assert (ended == (answer.step == 11))[answer.step == 11].all()
    assert (answer.obs[~ended] == answer.next_obs[~ended]).all()
    # A reset is a jump: the observation to act on next is not the successor.
    assert (answer.obs[ended] != answer.next_obs[ended]).any(axis=-1).mean() > 0.5
    assert first.shape == answer.obs[0].shape


def test_step__does_not_write_to_what_it_gave(make, draw, rng):
    env = make(time_limit=10)
    kept = [env.reset(4)]
    kept += [field for action in draw(env, 30, rng) for field in env.step(action)]
    copies = [np.array(array) for array in kept]
    for action in draw(env, 30, rng):
        env.step(action)
    assert all((array == copy).all() for array, copy in zip(kept, copies, strict=True))


def test_reset__decides_everything(make, draw, play, rng, assert_same):
    env, twin, other = make(time_limit=12), make(time_limit=12), make(time_limit=12)
    actions = draw(env, 60, rng)
    env.reset(8)
    play(env, actions[:7])
    for seeded, seed in ((env, 4), (twin, 4), (other, 5)):
        seeded.reset(seed)
    first, second, third = (play(each, actions) for each in (env, twin, other))
    assert_same(first, second)
    assert env.seeds == twin.seeds != other.seeds
    assert (first.next_obs != third.next_obs).any()


def test_restore__continues_as_promised(make, draw, play, rng, assert_same):
    env, other = make(time_limit=12, stagger=True), make(time_limit=12, stagger=True)
    actions = draw(env, 120, rng)
    env.reset(4)
    before = play(env, actions[:40])
    snapshot = env.snapshot()
    assert all(array.dtype.kind in "fiu" for array in snapshot.values())
    obs = other.restore(snapshot)
    assert other.seeds == env.seeds
    assert other.exact_resume == env.exact_resume
    if env.exact_resume:
        assert obs.tobytes() == before.obs[-1].tobytes()
        assert (other.age == env.age).all()
        expected = play(env, actions[40:])
        # The snapshot is a copy: what happened since has not changed it.
        for each in (other, make(time_limit=12, stagger=True)):
            each.restore(snapshot)
            assert_same(play(each, actions[40:]), expected)
    else:
        assert (other.age == 0).all()
        again = make(time_limit=12, stagger=True)
        assert again.restore(snapshot).tobytes() == obs.tobytes()
        assert env.reset(4).tobytes() != obs.tobytes()


def test_contract__refuses_what_makes_no_sense(make, draw, rng):
    env = make(time_limit=12)
    with pytest.raises(ValueError, match="step before reset"):
        env.step(np.zeros((N, 1)))
    with pytest.raises(ValueError, match="snapshot before reset"):
        env.snapshot()
    for seed in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match="seed="):
            env.reset(seed)
    env.reset(0)
    with pytest.raises(ValueError, match="action has shape"):
        env.step(draw(env, 1, rng)[0][:-1])
    with pytest.raises(ValueError, match="snapshot has no"):
        env.restore({})
    small = {name: array[:2] for name, array in env.snapshot().items()}
    with pytest.raises(ValueError, match=r"snapshot\[.*\] has shape"):
        env.restore(small)


@pytest.mark.parametrize("name", ["time_limit", "num_envs"])
@pytest.mark.parametrize("value", [0, -3, 2.5, True, "4"])
def test_make__refuses_counts_that_are_none(name, value):
    for task in ("Hopper-v4", "CartPole-v1"):
        with pytest.raises(ValueError, match=f"{name}={value!r}"):
            envs.make(task, **{name: value})
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        envs.FiniteEnv(probes.constant_reward(), **{name: value})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_step__refuses_actions_that_are_not_finite_and_stays_usable(value, rng, draw, assert_same):
    env, twin = (envs.make("Hopper-v4", N) for _ in range(2))
    actions = draw(env, 2, rng)
    for each in (env, twin):
        each.reset(0)
        each.step(actions[0])
    wrong = actions[1].copy()
    wrong[2, 1] = value
    with pytest.raises(ValueError, match=r"action\[2, 1\]=-?(nan|inf) in row 2"):
        env.step(wrong)
    assert_same(env.step(actions[1]), twin.step(actions[1]))


@pytest.mark.parametrize("action", [[0, 2, 0], [0, -1, 1], [0.0, 1.0, 0.0], [True, False, True]])
def test_step__refuses_choices_that_are_none(action):
    env = envs.make("CartPole-v1", N)
    env.reset(0)
    with pytest.raises(ValueError, match=r"action(\[1\]=| has dtype)"):
        env.step(action)


def test_check_finite__names_row_and_step():
    array = np.zeros((4, 2))
    check_finite("next_obs", array)
    array[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"next_obs\[2, 1\]=nan in row 2 at step 17"):
        check_finite("next_obs", array, np.array([3, 5, 17, 1]))


@given(st.integers(1, 40), st.integers(1, 100))
def test_ages__staggered_rows_are_spread_evenly_over_the_limit(num_envs, time_limit):
    ages = Ages(num_envs, time_limit, stagger=True)
    for _ in range(time_limit):
        step, cut = ages.advance()
        assert (step < time_limit).all()
        ages.rejuvenate(cut)
    # Row i was cut at ⌈T(i+1)/N⌉, so T steps after the start its age is T less that.
    expected = time_limit - np.ceil(time_limit * np.arange(1, num_envs + 1) / num_envs)
    assert (ages.age == expected).all()
    for _ in range(time_limit):
        step, cut = ages.advance()
        assert (cut == (step == time_limit - 1)).all()
        ages.rejuvenate(cut)
    assert (ages.age == expected).all()


def test_ages__one_row_and_rows_without_stagger_keep_their_first_episode():
    for ages in (Ages(1, 7, stagger=True), Ages(4, 7)):
        cuts = [ages.advance()[1] for _ in range(7)]
        assert not np.array(cuts[:-1]).any()
        assert cuts[-1].all()


def test_ages__without_a_limit_nothing_is_cut():
    ages = Ages(3, None, stagger=True)
    assert not any(ages.advance()[1].any() for _ in range(1000))


@given(st.integers(0, 2**70), st.integers(1, 50))
def test_spawn_seeds__are_distinct_fixed_and_begin_alike(seed, num_envs):
    seeds = spawn_seeds(seed, num_envs)
    assert seeds == spawn_seeds(seed, num_envs + 3)[:num_envs]
    assert len({*seeds, *spawn_seeds(seed + 1, num_envs)}) == 2 * num_envs
    assert all(type(s) is int and 0 <= s < 2**32 for s in seeds)


def test_later_seed__is_new_for_every_episode():
    seeds = [later_seed(seed, episode) for seed in spawn_seeds(0, 20) for episode in range(1, 50)]
    assert len({*seeds, *spawn_seeds(0, 20)}) == 20 * 49 + 20


@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_pack_generators__keeps_every_bit(seed, draws):
    generator = make_generator(seed)
    # Draws of 32 bits leave half a word behind, which is part of the state.
    generator.integers(0, 100, size=draws, dtype=np.uint32)
    (words,) = pack_generators([generator])
    assert words.dtype == np.uint64
    copy = unpack_generator(words)
    draw = [
        (g.integers(0, 2**32, size=3, dtype=np.uint32).tolist(), g.standard_normal(5).tolist())
        for g in (generator, copy)
    ]
    assert draw[0] == draw[1]


def test_pack_generators__refuses_other_kinds():
    with pytest.raises(ValueError, match="MT19937: must be PCG64"):
        pack_generators([np.random.Generator(np.random.MT19937(0))])
