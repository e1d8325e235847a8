"""Advantages and ages for plain loops, and the example that uses them."""

import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import examples.ppo_taylor as example
from gammaprime.agents import TaylorQ
from gammaprime.integrations.arrays import Ages, taylor_advantages, taylor_report
from integrations import pages, written_out
from integrations.tasks import Choice, check_waiting

GAMMA, LAM, SHAPE = 0.8, 0.9, (30, 4)
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
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, slot=slot, **ends)
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
    numpy = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, slot=SLOTS[1], **ends)
    tensors = [torch.tensor(x) for x in (advantages, values)]
    named = {name: torch.tensor(x) for name, x in {**rollout, **ends}.items()}
    # CleanRL's next_value is a row.
    named["next_value"] = named["next_value"].reshape(1, -1)
    found = taylor_advantages(*tensors, **named, gamma=GAMMA, slot=SLOTS[1])
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), numpy, rtol=1e-12)


def test_advantages__without_truncations_take_every_end_for_a_death(rng):
    advantages, values, rollout, *_ = draw(rng)
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, slot=SLOTS[0])
    never = {"truncated": np.zeros(SHAPE), "final_values": np.full(SHAPE, 9.0)}
    same = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, slot=SLOTS[0], **never)
    assert np.array_equal(found, same)


@pytest.mark.parametrize("slot", [TaylorQ(0.9, order=0), TaylorQ(0.9, eta=0.0), TaylorQ(GAMMA)])
def test_nothing_asked__nothing_changed(slot, rng):
    advantages, values, rollout, *_ = draw(rng)
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, slot=slot)
    assert np.array_equal(found, advantages)


def test_report__has_the_names_of_the_other_adapters(rng):
    advantages, values, rollout, *_ = draw(rng)
    found = taylor_advantages(advantages, values, **rollout, gamma=GAMMA, slot=SLOTS[0])
    ends = rollout["dones"], rollout["next_done"]
    report = taylor_report(advantages, found, *ends, GAMMA, SLOTS[0])
    assert set(report) == {"taylor/added", "taylor/tail_share", "taylor/survival"}
    deaths = rollout["dones"][1:].sum() + rollout["next_done"].sum()
    assert report["taylor/survival"] == pytest.approx(1.0 - deaths / advantages.size)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dones": np.zeros((29, 4))}, r"dones has shape \(29, 4\): must be \(30, 4\)"),
        ({"next_done": np.zeros(3)}, r"next_done has shape \(3,\): must be \(4,\)"),
        ({"truncated": np.zeros(SHAPE)}, "final_values=None: must be given where truncated is"),
        ({"gamma": 0.99}, "gamma_prime"),
    ],
)
def test_bad_input__is_told_in_words(change, message, rng):
    advantages, values, rollout, *_ = draw(rng)
    settings = {**rollout, "gamma": GAMMA, "slot": TaylorQ(0.97)} | change
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


@pytest.mark.slow
def test_example__solves_cart_pole():
    lines = []
    settings = example.Settings(steps=61_440)
    example.train(lambda: gymnasium.make("CartPole-v1"), settings, lines.append)
    assert float(lines[-1].split()[2]) > 400.0
