"""Actors of off-policy agents, and policies as they are stored: NumPy alone."""

import contextlib

import jax
import numpy as np
import pytest

from gammaprime.agents import SAC, TD3
from gammaprime.agents.sac import draw_action
from gammaprime.agents.td3 import choose_action
from gammaprime.networks import (
    SEAL,
    Actor,
    Bounds,
    Layer,
    NoisyActor,
    Policy,
    SquashedActor,
    UniformActor,
)
from gammaprime.runs.directory import write_policy

LOW, HIGH = np.array([-1.0, -0.5], np.float32), np.array([1.0, 1.5], np.float32)
BOUNDS = Bounds(LOW, HIGH)
AGENTS = {
    "td3": TD3(hidden=(8,), act_noise=0.7),
    "sac": SAC(hidden=(8,)),
    "sac_own": SAC(hidden=(8,), std_network="own"),
}


@pytest.fixture(scope="module")
def states():
    return {name: agent.init(jax.random.key(0), BOUNDS, 3) for name, agent in AGENTS.items()}


@pytest.fixture
def actors(states):
    return {name: agent.actor(states[name]) for name, agent in AGENTS.items()}


def test_bounds__map_the_box_onto_the_unit_one_and_back(rng):
    action = rng.uniform(LOW, HIGH, (50, 2))
    unit = BOUNDS.to_unit(action)
    assert np.abs(unit).max() <= 1.0
    np.testing.assert_allclose(BOUNDS.from_unit(unit), action, atol=1e-6)
    np.testing.assert_array_equal(BOUNDS.from_unit(np.array([[-9.0, 9.0]])), [[LOW[0], HIGH[1]]])


def test_noisy_actor__says_in_numpy_what_the_update_says_in_jax(states, actors, rng):
    obs = rng.normal(size=(7, 3))
    unit = choose_action(states["td3"].learned.policy.params, obs.astype(np.float32))
    np.testing.assert_allclose(actors["td3"](obs), BOUNDS.from_unit(unit), atol=1e-6)
    noise = rng.normal(0, 2, (7, 2)).astype(np.float32)
    noisy = np.clip(actors["td3"](obs) + 0.7 * noise, LOW, HIGH)
    np.testing.assert_allclose(actors["td3"].perturb(obs, noise), noisy, atol=1e-6)
    assert (noisy == LOW).any()


@pytest.mark.parametrize("name", ["sac", "sac_own"])
def test_squashed_actor__says_in_numpy_what_the_update_says_in_jax(name, states, actors, rng):
    obs, noise = rng.normal(size=(7, 3)), rng.normal(size=(7, 2)).astype(np.float32)
    params = states[name].learned.policy.params
    drawn, _ = draw_action(params, obs.astype(np.float32), noise)
    np.testing.assert_allclose(actors[name].perturb(obs, noise), BOUNDS.from_unit(drawn), atol=1e-6)
    mode, _ = draw_action(params, obs.astype(np.float32), 0.0 * noise)
    np.testing.assert_allclose(actors[name](obs), BOUNDS.from_unit(mode), atol=1e-6)


def test_squashed_actor__keeps_log_std_within_its_limits():
    network = (Layer(np.zeros((1, 2), np.float32), np.array([0.0, 50.0], np.float32)),)
    actor = SquashedActor(network, Bounds(-np.ones(1), np.ones(1)), None)
    noise = np.full((1, 1), 0.1, np.float32)
    np.testing.assert_allclose(actor.perturb(np.ones((1, 1)), noise), [[np.tanh(0.1 * np.e**2)]])


def everyone(actors):
    return {**actors, "uniform": UniformActor(LOW, HIGH)}


@pytest.mark.parametrize("name", [*AGENTS, "uniform"])
def test_sampler__draws_what_sample_draws_bit_for_bit_and_inside_the_box(name, actors, rng):
    actor = everyone(actors)[name]
    obs = rng.normal(size=(6, 4, 3))
    one, other = (np.random.default_rng(8) for _ in range(2))
    act = actor.sampler(6, 4, one)
    for x in obs:
        action = act(x)
        np.testing.assert_array_equal(action, actor.sample(x, other))
        assert action.shape == (4, 2)
        assert action.dtype == np.float32
        assert (action >= LOW).all()
        assert (action <= HIGH).all()
    assert (action != actor(obs[-1])).any()


def test_uniform_actor__fills_the_box_evenly(rng):
    """Mean and deviation of 20,000 draws within 4.5 standard errors."""
    obs = np.zeros((20_000, 1))
    actor = UniformActor(LOW, HIGH)
    draws = actor.sample(obs, rng)
    np.testing.assert_array_equal(actor(obs[:1]), [(LOW + HIGH) / 2])
    std = (HIGH - LOW) / 12**0.5
    assert (np.abs(draws.mean(axis=0) - (LOW + HIGH) / 2) < 4.5 * std / len(draws) ** 0.5).all()
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.02)
    assert draws.dtype == np.float32


@pytest.mark.parametrize("name", AGENTS)
def test_policy__comes_back_from_its_file(name, actors, tmp_path, rng):
    policy = Policy(actors[name], LOW, HIGH)
    np.savez(tmp_path / "policy.npz", **policy.to_arrays())
    loaded = Policy.load(tmp_path)
    obs = rng.normal(size=(5, 3)).astype(np.float32)
    assert type(loaded.actor) is type(actors[name])
    np.testing.assert_array_equal(loaded(obs), policy(obs))
    np.testing.assert_array_equal(
        loaded(obs, np.random.default_rng(0)), policy(obs, np.random.default_rng(0))
    )
    np.testing.assert_allclose(loaded(obs[0]), policy(obs)[0], rtol=1e-6)


def test_policy__of_the_first_format_still_loads(tmp_path):
    """As on-policy runs have always written it: no kind, and a σ of its own or none."""
    weight, bias = np.array([[1.0, 2.0]], np.float32), np.array([0.5, 0.0], np.float32)
    arrays = {"format": 1, "activation": "tanh", "weight_0": weight, "bias_0": bias}
    np.savez(tmp_path / "policy.npz", **arrays, log_std=np.zeros(2), low=LOW, high=HIGH)
    policy = Policy.load(tmp_path)
    assert type(policy.actor) is Actor
    np.testing.assert_allclose(policy(np.array([0.25])), [0.75, 0.5])
    stored = policy.to_arrays()
    assert int(stored["format"]) == 1
    assert "kind" not in stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": np.array(3)}, "format 3 is not of this version"),
        ({"kind": np.array("fancy")}, "fancy"),
        ({"act_noise": None}, "act_noise"),
    ],
)
def test_policy__that_is_not_one_is_refused(change, message, actors, tmp_path):
    arrays = Policy(actors["td3"], LOW, HIGH).to_arrays() | change
    np.savez(tmp_path / "policy.npz", **{k: x for k, x in arrays.items() if x is not None})
    with pytest.raises(ValueError, match=message):
        Policy.load(tmp_path)


def test_noisy_actor__without_noise_of_its_own_never_explores(actors, rng):
    still = NoisyActor(actors["td3"].network, BOUNDS, 0.0)
    obs = rng.normal(size=(5, 3))
    np.testing.assert_array_equal(still.sample(obs, rng), still(obs))


def flipped(packed, rng):
    """The file with one bit flipped, here and there, and everywhere at its end."""
    end = range(len(packed) - 100, len(packed))
    for place in (*rng.integers(len(packed), size=200), *end):
        content = bytearray(packed)
        content[place] ^= 1 << int(rng.integers(8))
        yield bytes(content)


def test_policy_with_any_bit_flipped__is_the_same_or_refused_in_a_line(actors, tmp_path, rng):
    policy = Policy(actors["td3"], LOW, HIGH)
    write_policy(tmp_path, policy)
    file, wanted = tmp_path / "policy.npz", policy.to_arrays()
    packed = file.read_bytes()
    same = 0
    for content in flipped(packed, rng):
        file.write_bytes(content)
        with contextlib.suppress(ValueError):
            found = Policy.load(file).to_arrays()
            same += 1
            assert found.keys() == wanted.keys()
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array)
    # Only the mark of the hash, and the length of the comment, can be damaged without harm.
    assert same <= len(SEAL) + 2


@pytest.mark.filterwarnings("ignore")  # NumPy's own, about what it makes of damaged headers
def test_policy_of_a_version_without_a_hash__loads_and_never_ends_in_a_traceback(
    actors, tmp_path, rng
):
    policy = Policy(actors["td3"], LOW, HIGH)
    file = tmp_path / "policy.npz"
    np.savez(file, **policy.to_arrays())
    packed = file.read_bytes()
    obs = rng.normal(size=(5, 3))
    np.testing.assert_array_equal(Policy.load(file)(obs), policy(obs))
    for content in flipped(packed, rng):
        file.write_bytes(content)
        with contextlib.suppress(ValueError):
            Policy.load(file)
