"""The off-policy loop: when it explores and learns, from what, and the same bits after a cut."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")

from gammaprime.agents import SAC, TD3, DensityRatio
from gammaprime.envs import probes
from gammaprime.envs.contract import Box
from gammaprime.loops.off_policy_loop import OffPolicyLoop
from gammaprime.loops.rollout import BreakdownError

pytestmark = pytest.mark.usefixtures("quick_compile")

SMALL = {
    "num_envs": 2,
    "num_steps": 8,
    "updates_per_step": 0.25,
    "hidden": (4,),
    "batch_size": 6,
    "replay_size": 100,
    "random_steps": 32,
    "learning_starts": 48,
}
RATIO = DensityRatio(recent_size=70, batch_size=5)
AGENTS = [TD3(**SMALL, weighting=RATIO), SAC(**SMALL, weighting=RATIO)]
ONE = AGENTS[0]


def make(agent, seed=0, steps=16 * 12, continuous=True):
    env = probes.discount_chain(delay=5).env(2, time_limit=4, continuous=continuous)
    return OffPolicyLoop(agent, env, steps, seed, gamma_prime=0.999)


def carry_over(loop, other):
    """Snapshot and replay, as a process that stores them would."""
    replay = loop.replay
    other.restore({name: x.copy() for name, x in loop.snapshot().items()})
    other.replay.put(replay.oldest, replay.take(replay.oldest, replay.count))


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: type(agent).__name__)
@pytest.mark.parametrize("rollouts", [1, 4, 8], ids=["exploring", "learning", "ring full"])
def test_restored_loop__goes_on_bit_for_bit(agent, rollouts):
    first, second = make(agent), make(agent, seed=99)
    for _ in range(rollouts):
        first.advance()
    carry_over(first, second)
    # The seeds of learning are the configuration's, not the checkpoint's.
    second.learn_key, second.learn_seed = first.learn_key, first.learn_seed
    assert second.steps == first.steps == 16 * rollouts
    for _ in range(3):
        assert first.advance() == second.advance()
    mine, other = first.snapshot(), second.snapshot()
    assert mine.keys() == other.keys()
    for name, x in mine.items():
        np.testing.assert_array_equal(x, other[name], strict=True)


def test_loop__explores_then_acts_and_learns_when_it_is_told_to():
    loop = make(ONE)
    start = loop.snapshot()
    told = []
    while not loop.done:
        explores = loop.explore() is loop.uniform
        told.append((explores, bool(loop.advance().metrics)))
        if loop.steps < 48:
            assert all(
                (x == start[name]).all()
                for name, x in loop.snapshot().items()
                if name.startswith("agent/")
            )
    assert told == [(True, False)] * 2 + [(False, True)] * 10
    assert loop.steps == loop.total_steps == 192


def test_first_actions__are_uniform_over_the_action_space():
    agent = replace(ONE, random_steps=4000, learning_starts=8000, replay_size=4000)
    loop = make(agent, steps=8000)
    while loop.steps < 4000:
        loop.advance()
    actions = np.sort(loop.replay.fields["action"][:, 0])
    # The largest distance to the uniform distribution; 1.95/√n is passed once in a thousand.
    assert np.abs((actions + 1) / 2 - np.arange(4000) / 4000).max() < 1.95 / np.sqrt(4000)


def test_replay__holds_what_was_lived_through():
    loop = make(ONE)
    episodes = [episode for _ in range(6) for episode in loop.advance().episodes]
    held = loop.replay.take(0, 96)
    rows = {name: x.reshape(48, 2, *x.shape[1:]) for name, x in held.items()}
    ended = rows["terminated"] | rows["truncated"]
    chained = (rows["next_obs"][:-1] == rows["obs"][1:]).all(axis=-1)
    np.testing.assert_array_equal(chained, ~ended[:-1])
    np.testing.assert_array_equal(rows["step"][1:], np.where(ended, 0, rows["step"] + 1)[:-1])
    assert rows["truncated"].any()
    assert rows["terminated"].any()
    assert len(episodes) == ended.sum()
    assert sorted(e.length for e in episodes) == sorted(rows["step"][ended] + 1)
    assert sorted(e.ended_at for e in episodes) == sorted(2 * np.argwhere(ended)[:, 0] + 2)


def test_update__is_given_one_burst_and_recent_states_only_once_they_differ(monkeypatch):
    seen = []
    update = TD3.update

    def spy(self, state, batch, recent, key):
        seen.append((batch, recent))
        return update(self, state, batch, recent, key)

    monkeypatch.setattr(TD3, "update", spy)
    loop = make(ONE)
    while not loop.done:
        loop.advance()
    assert len(seen) == 10
    for number, (batch, recent) in enumerate(seen, start=3):
        assert batch.obs.shape[:2] == batch.reward.shape == (4, 6)
        held = min(16 * number, 100)
        assert (recent is None) == (held <= RATIO.recent_size)
        if recent is not None:
            assert recent.obs.shape[:2] == recent.step.shape == (4, 5)


def test_minibatches__do_not_depend_on_the_weighting_and_never_repeat():
    plain, weighted = make(TD3(**SMALL)), make(ONE)
    for loop in (plain, weighted):
        for _ in range(2):
            loop.advance()
        weighted.replay.put(0, plain.replay.take(0, 32))
    batches = [loop.draw(2)[0] for loop in (plain, weighted)]
    for name, x in batches[0]._asdict().items():
        np.testing.assert_array_equal(x, batches[1]._asdict()[name])
    assert (plain.draw(3)[0].obs != batches[0].obs).any()
    assert (make_like(plain, seed=1).draw(2)[0].obs != batches[0].obs).any()


def make_like(loop, seed):
    other = make(loop.agent, seed=seed)
    other.replay = loop.replay
    return other


def test_seed__decides_everything():
    def rows(seed):
        loop = make(ONE, seed)
        return [loop.advance() for _ in range(4)]

    assert rows(0) == rows(0) != rows(1)


def test_ring__is_no_larger_than_the_run():
    assert make(replace(ONE, replay_size=10**6)).replay.size == 192
    assert make(ONE).replay.size == 100


def test_actions_that_are_not_a_box__are_refused_by_name():
    with pytest.raises(ValueError, match=r"action space Discrete\(2\) is not supported"):
        make(ONE, continuous=False)


def test_actions_without_bounds__are_refused_by_name():
    env = probes.action_reward().env(2, continuous=True)
    low = np.array([-np.inf], np.float32)
    env.action = Box((1,), np.dtype(np.float32), low, -low)
    with pytest.raises(ValueError, match=r"low=\[-inf\].*must have finite bounds"):
        OffPolicyLoop(ONE, env, 64, 0, 0.999)


def test_loop__refuses_steps_below_one_rollout():
    with pytest.raises(ValueError, match=r"steps=15: must be at least one rollout, 16"):
        make(ONE, steps=15)


def test_update_that_gives_no_numbers__is_a_breakdown_with_what_it_learned_from(monkeypatch):
    loop = make(ONE)
    for _ in range(5):
        loop.advance()
    before = {name: x.copy() for name, x in loop.snapshot().items() if name.startswith("agent/")}
    update = TD3.update

    def spoiled(*args):
        state, metrics = update(*args)
        return state, metrics | {"train/critic_loss": float("nan")}

    monkeypatch.setattr(TD3, "update", spoiled)
    with pytest.raises(BreakdownError, match="train/critic_loss is not finite") as broken:
        loop.advance()
    arrays = broken.value.arrays
    assert arrays["batch/reward"].shape == (4, 6)
    for name, x in before.items():
        np.testing.assert_array_equal(arrays[name], x)


def test_reward_that_is_no_number__is_a_breakdown_and_not_stored(monkeypatch):
    loop = make(ONE)
    loop.advance()
    step = loop.env.step

    def spoiled(action):
        seen = step(action)
        return seen._replace(reward=seen.reward * np.nan)

    monkeypatch.setattr(loop.env, "step", spoiled)
    with pytest.raises(BreakdownError, match="reward at step 0 of the rollout is not finite"):
        loop.advance()
    assert loop.replay.count == 16


def test_checkpoint_of_another_agent__is_refused():
    taken = make(ONE).snapshot()
    with pytest.raises(ValueError, match="must be float32"):
        make(replace(ONE, hidden=(5,))).restore(taken)


@pytest.mark.parametrize(
    ("settings", "steps", "message"),
    [
        ({"weighting": RATIO}, 64, r"steps=64: .* recent_size weighs every state alike"),
        ({"learning_starts": 65}, 64, r"steps=64: .* learning_starts learns nothing"),
        ({"random_steps": 64}, 64, r"steps=64: .* random_steps never acts with its policy"),
    ],
)
def test_loop__that_is_over_before_it_has_begun_says_so(settings, steps, message):
    with pytest.warns(UserWarning, match=message):
        make(replace(TD3(**SMALL), **settings), steps=steps)


def test_box_without_room__is_refused():
    env = probes.discount_chain(delay=5).env(2, time_limit=4, continuous=True)
    one = np.ones(1, np.float32)
    env.action = Box((1,), one.dtype, one, one)
    with pytest.raises(ValueError, match=r"low below high"):
        OffPolicyLoop(TD3(**SMALL), env, 192, 0, gamma_prime=0.999)


def test_episode_after_a_statistical_resume__has_none_of_the_lost_one():
    first, second = make(ONE), make(ONE)
    first.advance()
    first.returns.sums += 100.0
    second.env.exact_resume = False
    carry_over(first, second)
    episodes = second.advance().episodes
    assert episodes
    assert max(episode.undiscounted for episode in episodes) < 100.0
