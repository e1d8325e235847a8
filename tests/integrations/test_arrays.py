"""Advantages and ages for plain loops, and the example that uses them."""

import copy
import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import examples.ppo_taylor as example
from gammaprime.agents import TaylorQ, TaylorWeight
from gammaprime.integrations.arrays import Ages, taylor_advantages, taylor_report
from integrations import pages, written_out
from integrations.settings import GAMMA, LAM, NUM_ENVS, NUM_STEPS
from integrations.tasks import Choice, Ends, check_waiting

SHAPE = 30, 4
SLOTS = [
    TaylorQ(0.97, order=1),
    TaylorQ(0.97, order=3, eta=0.5, center=False),
    TaylorQ(0.97, order=math.inf),
    TaylorQ(1.0, order=3),
]


def draw(rng):
    """A rollout with deaths, truncations and rows that are cut at the end, as a loop holds it."""
    died, late = rng.random((2, *SHAPE)) < 0.15
    died[-1], late[-1] = [True, False, False, True], [False, True, False, True]
    values, final_values, rewards = rng.normal(size=(3, *SHAPE))
    next_value = rng.normal(size=SHAPE[1])
    done, cut = died | late, late & ~died
    dones = np.concatenate([np.ones((1, SHAPE[1])), done[:-1]]).astype(float)
    boots = np.where(cut, final_values, 0.0)
    boots[-1] = np.where(cut[-1], final_values[-1], next_value)
    columns = [
        written_out.advantages(
            rewards[:, i], values[:, i], boots[:, i], died[:, i], cut[:, i], GAMMA, LAM
        )
        for i in range(SHAPE[1])
    ]
    rollout = {"dones": dones, "next_value": next_value, "next_done": done[-1].astype(float)}
    ends = {"truncated": cut.astype(float), "final_values": final_values}
    return np.array(columns).T, values, rollout, ends, boots, died


@pytest.mark.parametrize("slot", SLOTS, ids=str)
def test_advantages__are_sums_over_episodes(slot, rng):
    advantages, values, rollout, ends, boots, died = draw(rng)
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, advantage=slot, **ends)
    survival, cut = 1.0 - died.mean(), ends["truncated"] > 0
    discounts = GAMMA, slot.gamma_prime
    for i in range(SHAPE[1]):
        base = advantages[:, i] + values[:, i]
        columns = boots[:, i], died[:, i], cut[:, i]
        extra = written_out.added(base, *columns, discounts, slot.order, survival)
        for t in range(SHAPE[0]):
            off = written_out.baseline(values[t, i], *discounts, slot.order) if slot.center else 0.0
            expected = advantages[t, i] + slot.eta * (extra[t] - off)
            assert found[t, i] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_advantages__of_torch_are_those_of_numpy(rng):
    advantages, values, rollout, ends, *_ = draw(rng)
    numpy = taylor_advantages(
        advantages, values, **rollout, gamma=GAMMA, advantage=SLOTS[1], **ends
    )
    tensors = [torch.tensor(x) for x in (advantages, values)]
    named = {name: torch.tensor(x) for name, x in {**rollout, **ends}.items()}
    # CleanRL's next_value is a row.
    named["next_value"] = named["next_value"].reshape(1, -1)
    found = taylor_advantages(*tensors, **named, gamma=GAMMA, advantage=SLOTS[1])
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), numpy, rtol=1e-12)


def test_advantages__without_truncations_take_every_end_for_a_death(rng):
    advantages, values, rollout, *_ = draw(rng)
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, advantage=SLOTS[0])
    never = {"truncated": np.zeros(SHAPE), "final_values": np.full(SHAPE, 9.0)}
    same = taylor_advantages(
        advantages, values, **rollout, gamma=GAMMA, advantage=SLOTS[0], **never
    )
    assert np.array_equal(found, same)


@pytest.mark.parametrize("slot", [TaylorQ(0.9, order=0), TaylorQ(0.9, eta=0.0), TaylorQ(GAMMA)])
def test_nothing_asked__nothing_changed(slot, rng):
    advantages, values, rollout, *_ = draw(rng)
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, advantage=slot)
    assert np.array_equal(found, advantages)


def test_report__has_the_names_of_the_other_adapters(rng):
    advantages, values, rollout, *_ = draw(rng)
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, advantage=SLOTS[0])
    ends = rollout["dones"], rollout["next_done"]
    report = taylor_report(advantages, found, *ends, GAMMA, SLOTS[0])
    assert set(report) == {"taylor/added", "taylor/tail_share", "taylor/survival"}
    deaths = rollout["dones"][1:].sum() + rollout["next_done"].sum()
    assert report["taylor/survival"] == pytest.approx(1.0 - deaths / advantages.size)
    weights = torch.tensor(rng.random(SHAPE))
    more = taylor_report(advantages, found, *ends, GAMMA, SLOTS[0], weights=weights)
    assert more == {**report, "taylor/mean_weight": pytest.approx(weights.numpy().mean())}


def test_report__warns_once_of_a_tail_that_decides_more_than_half():
    advantages, never = np.ones((3, 4)), np.zeros((3, 4))
    settings = advantages, advantages, never, never[0], GAMMA, TaylorQ(0.999, order=math.inf)
    with pytest.warns(UserWarning, match=r"tail_share=.*num_steps") as caught:
        shares = [taylor_report(*settings)["taylor/tail_share"] for _ in range(2)]
    assert min(shares) > 0.5
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_slot__is_read_as_by_the_other_adapters(rng):
    advantages, values, rollout, *_ = draw(rng)
    by_slot, by_mapping, by_gae = (
        taylor_advantages(advantages, values, **rollout, gamma=GAMMA, advantage=slot)
        for slot in (TaylorQ(0.97, order=2), {"gamma_prime": 0.97, "order": 2}, {"kind": "gae"})
    )
    assert np.array_equal(by_mapping, by_slot)
    assert np.array_equal(by_gae, advantages)
    ends = rollout["dones"], rollout["next_done"], GAMMA
    assert taylor_report(advantages, by_slot, *ends, {"gamma_prime": 0.97}).keys()
    assert taylor_report(advantages, by_gae, *ends, {"kind": "gae"}) == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dones": np.zeros((29, 4))}, r"dones has shape \(29, 4\): must be \(30, 4\)"),
        ({"next_done": np.zeros(3)}, r"next_done has shape \(3,\): must be \(4,\)"),
        ({"truncated": np.zeros(SHAPE)}, "final_values=None: must be given where truncated is"),
        ({"gamma": 0.99}, "gamma_prime"),
        ({"advantage": None}, "advantage=None: must be TaylorQ or a mapping"),
        ({"advantage": 0.97}, "advantage=0.97: must be TaylorQ or a mapping"),
        ({"advantage": TaylorWeight()}, r"advantage=TaylorWeight\(.*\): must be TaylorQ"),
        ({"advantage": {"odrer": 1}}, "unexpected keyword"),
    ],
)
def test_bad_input__is_told_in_words(change, message, rng):
    advantages, values, rollout, *_ = draw(rng)
    settings = {**rollout, "gamma": GAMMA, "advantage": TaylorQ(0.97)} | change
    with pytest.raises(ValueError, match=message):
        taylor_advantages(advantages, values, **settings)


def test_ages__count_from_each_reset():
    ages = Ages(2)
    found = [ages.advance(np.array(done)) for done in ([0, 1], [0, 0], [1, 0], [0, 0])]
    np.testing.assert_array_equal(found, [[0, 0], [1, 0], [2, 1], [0, 2]])
    np.testing.assert_array_equal(ages.now, [1, 3])
    with pytest.raises(ValueError, match=r"done has shape \(3,\): must be \(2,\)"):
        ages.advance([False] * 3)


def test_page__runs_as_printed(rng):
    advantages, values, rollout, *_ = draw(rng)
    loop = {"num_steps": SHAPE[0], "num_envs": SHAPE[1], "t": 0, "gamma": GAMMA}
    ends = rng.random((2, SHAPE[1])) < 0.5
    loop |= {"device": "cpu", "terminations": ends[0], "truncations": ends[1]}
    found = pages.run("plain-loops", advantages=advantages, values=values, **rollout, **loop)
    assert not np.array_equal(found["advantages"], advantages)
    assert np.array_equal(found["returns"], advantages + values)
    assert found["b_weights"].shape == (advantages.size,)
    assert found["numbers"]["taylor/mean_weight"] == pytest.approx(found["weights"].mean())


def test_example__has_at_most_200_lines():
    assert len(Path(example.__file__).read_text().splitlines()) <= 200


def test_example__learns_to_wait_where_the_plain_loop_does_not():
    loop = {"steps": 12 * 384, "num_envs": 1, "num_steps": 384, "epochs": 30, "minibatches": 1}
    usual = {"learning_rate": 5e-3, "clip_eps": 0.5, "gamma": 0.5, "lam": 1.0}

    def train(slot):
        own = {"order": 0} if slot is None else vars(slot)
        taylor = {name: own[name] for name in ("gamma_prime", "order") if name in own}
        settings = example.Settings(**loop, **usual, **taylor)
        agent = example.train(Choice, settings, report=lambda line: None)
        return agent.act(torch.as_tensor(Choice().reset()[0])).probs[1].item()

    check_waiting(train)


class Recorded(Ends):
    """`Ends` that keeps the state, the reward and the successor of every step."""

    def __init__(self, seed):
        super().__init__(seed=seed)
        self.rows = []

    def reset(self, **settings):
        self.state, infos = super().reset(**settings)
        return self.state, infos

    def step(self, action):
        found = super().step(action)
        self.rows.append((self.state, found[1], found[0]))
        self.state = found[0]
        return found


def test_example__is_right_at_every_end_of_an_episode(monkeypatch):
    """Flags, values, advantages and weights of a training equal those of the environments."""
    tasks, handed, learned, agents = [], [], [], []

    def make():
        tasks.append(Recorded(seed=len(tasks)))
        return tasks[-1]

    def advantages(*args, **named):
        args = [copy.deepcopy(x) for x in args]
        handed.append((*args, {name: x.clone() for name, x in named.items()}))
        return taylor_advantages(*args, **named)

    def learn(agent, optimiser, batch, settings):
        agents.append(copy.deepcopy(agent))
        learned.append([x.reshape(NUM_STEPS, NUM_ENVS, -1).squeeze(-1) for x in batch])
        return plain_learn(agent, optimiser, batch, settings)

    plain_learn = example.learn
    monkeypatch.setattr(example, "taylor_advantages", advantages)
    monkeypatch.setattr(example, "learn", learn)
    slot = TaylorQ(0.97, order=3)
    discounts = {"gamma": GAMMA, "lam": LAM, "gamma_prime": slot.gamma_prime, "order": slot.order}
    sizes = {"num_envs": NUM_ENVS, "num_steps": NUM_STEPS, "steps": 3 * NUM_ENVS * NUM_STEPS}
    example.train(make, example.Settings(**discounts, **sizes, weight_order=0))

    assert len(handed) == 3
    ends = np.array([[truth[:2] for truth in task.history] for task in tasks])
    assert {tuple(end) for column in ends.tolist() for end in column} == {
        (died, late) for died in (False, True) for late in (False, True)
    }
    close = {"rtol": 1e-4, "atol": 1e-5}
    for k, (plain, values, dones, next_value, next_done, gamma, given, more) in enumerate(handed):
        assert (gamma, given) == (GAMMA, slot)
        rows = slice(k * NUM_STEPS, (k + 1) * NUM_STEPS)
        columns = []
        for i, task in enumerate(tasks):
            states, rewards, successors = zip(*task.rows[rows], strict=True)
            died, late, ages = map(np.array, zip(*task.history[rows], strict=True))
            cut = late & ~died
            with torch.no_grad():
                own, boots = (
                    agents[k].value(torch.tensor(np.array(x))).numpy() for x in (states, successors)
                )
            columns.append((rewards, own, boots, died, cut))
            opened = [True, *ends[i].any(axis=1)][k * NUM_STEPS : (k + 1) * NUM_STEPS + 1]
            np.testing.assert_array_equal(dones[:, i], opened[:-1])
            assert next_done[i] == opened[-1]
            np.testing.assert_array_equal(more["truncated"][:, i], cut)
            np.testing.assert_allclose(values[:, i], own, **close)
            np.testing.assert_allclose(more["final_values"][cut, i], boots[cut], **close)
            if not opened[-1]:
                np.testing.assert_allclose(next_value[i], boots[-1], **close)
            expected = written_out.advantages(*columns[-1], GAMMA, LAM)
            np.testing.assert_allclose(plain[:, i], expected, **close)
            np.testing.assert_allclose(learned[k][4][:, i], np.add(expected, own), **close)
            np.testing.assert_allclose(learned[k][5][:, i], GAMMA**ages, **close)
        expanded = np.transpose(written_out.expanded(slot, columns, GAMMA, LAM))
        np.testing.assert_allclose(learned[k][3], expanded, **close)


@pytest.mark.slow
def test_example__solves_cart_pole():
    lines = []
    settings = example.Settings(steps=61_440)
    example.train(lambda: gymnasium.make("CartPole-v1"), settings, lines.append)
    assert float(lines[-1].split()[2]) > 400.0
