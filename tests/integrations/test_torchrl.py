"""`TaylorGAE` in TorchRL: advantages, weights, updates, and what it refuses."""

import copy
import inspect
import math
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule
    from tensordict.nn import ProbabilisticTensorDictSequential as Chain
    from torchrl.collectors import Collector
    from torchrl.envs import GymWrapper, SerialEnv, StepCounter, TransformedEnv
    from torchrl.objectives import A2CLoss, ClipPPOLoss, SACLoss
    from torchrl.objectives.value import GAE

    from gammaprime.agents import TaylorQ, TaylorWeight
    from gammaprime.integrations.torchrl import TaylorGAE

from integrations import pages, written_out
from integrations.settings import EXPANSIONS, GAMMA, LAM, NUM_ENVS, NUM_STEPS, ONES, PLAIN
from integrations.tasks import Choice, Ends, check_waiting

pytestmark = pytest.mark.filterwarnings("ignore")


def networks(num_obs=3, size=8, seed=0):
    """A policy over two actions and a critic."""
    torch.manual_seed(seed)
    layers = [
        torch.nn.Sequential(
            torch.nn.Linear(num_obs, size), torch.nn.Tanh(), torch.nn.Linear(size, outputs)
        )
        for outputs in (2, 1)
    ]
    logits = TensorDictModule(layers[0], in_keys=["observation"], out_keys=["logits"])
    head = ProbabilisticTensorDictModule(
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=torch.distributions.OneHotCategorical,
        return_log_prob=True,
        log_prob_key="action_log_prob",
    )
    critic = TensorDictModule(layers[1], in_keys=["observation"], out_keys=["state_value"])
    return Chain(logits, head), critic


def collect(policy, rollouts=3, make=Ends, num_envs=NUM_ENVS, num_steps=NUM_STEPS):
    """Yield rollouts; the environments' own accounts come with them."""
    tasks = [make(seed=i) if make is Ends else make() for i in range(num_envs)]
    makers = [lambda task=task: TransformedEnv(GymWrapper(task), StepCounter()) for task in tasks]
    env = SerialEnv(num_envs, makers) if num_envs > 1 else makers[0]()
    frames = num_envs * num_steps
    collector = Collector(env, policy, frames_per_batch=frames, total_frames=rollouts * frames)
    collector.set_seed(0)
    for data in collector:
        yield data, tasks
    collector.shutdown()


def train(estimator, rollouts=3, loss=ClipPPOLoss, **settings):
    """Parameters after a few rollouts with two epochs each."""
    policy, critic = networks()
    advantages = estimator(critic)
    objective = loss(policy, critic, **settings)
    optimiser = torch.optim.Adam(objective.parameters(), lr=0.01)
    for data, _ in collect(policy, rollouts):
        advantages(data)
        for _ in range(2):
            losses = objective(data.reshape(-1))
            total = sum(value for name, value in losses.items() if name.startswith("loss_"))
            optimiser.zero_grad()
            total.backward()
            optimiser.step()
    return torch.cat([x.detach().flatten() for x in objective.parameters()])


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("loss", [ClipPPOLoss, A2CLoss])
def test_nothing_asked__nothing_changed(average, loss):
    usual = {"gamma": GAMMA, "lmbda": LAM, "average_gae": average}
    plain = train(lambda critic: GAE(**usual, value_network=critic), loss=loss)
    for slot in PLAIN if average and loss is ClipPPOLoss else PLAIN[:1]:
        found = train(
            lambda critic, s=slot: TaylorGAE(s, ONES, **usual, value_network=critic), loss=loss
        )
        assert torch.equal(found, plain)
    slot = TaylorQ(0.99)
    changed = train(lambda critic: TaylorGAE(slot, **usual, value_network=critic), loss=loss)
    assert not torch.equal(changed, plain)


def columns(data):
    """Every environment's rollout, by plain lists."""
    for i in range(len(data)):
        names = [("next", "reward"), "state_value", ("next", "state_value"), ("next", "terminated")]
        rows = [data[name][i, :, 0].double().tolist() for name in names]
        done = data["next", "done"][i, :, 0].tolist()
        yield (*rows, [d and not t for d, t in zip(done, rows[-1], strict=True)])


@pytest.mark.parametrize("slot", EXPANSIONS, ids=str)
def test_advantages__are_sums_over_episodes(slot):
    policy, critic = networks()
    advantages = TaylorGAE(slot, gamma=GAMMA, lmbda=LAM, value_network=critic)
    plain = GAE(gamma=GAMMA, lmbda=LAM, value_network=critic)
    kinds = set()
    for data, _ in collect(policy):
        targets = plain(data.clone())["value_target"]
        advantages(data)
        expected = np.array(written_out.expanded(slot, list(columns(data)), GAMMA, LAM))
        scale = np.abs(expected).max()
        found = data["advantage"][..., 0].numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * scale)
        assert torch.equal(data["value_target"], targets)
        flags = [data["next", name].flatten().tolist() for name in ("terminated", "truncated")]
        kinds |= set(zip(*flags, strict=True))
    assert kinds == {(False, False), (True, False), (False, True), (True, True)}


def test_time__may_be_any_dimension():
    policy, critic = networks()
    (data, _), *_ = collect(policy, 1)
    settings = {"gamma": GAMMA, "lmbda": LAM, "value_network": critic}
    slots = TaylorQ(0.97, order=2), TaylorWeight(0.97, 2)
    last = TaylorGAE(*slots, **settings)(data.clone())["advantage"]
    flipped = data.transpose(0, 1).contiguous()
    first = TaylorGAE(*slots, **settings, time_dim=0)(flipped)["advantage"]
    torch.testing.assert_close(first.transpose(0, 1), last)


def test_ages__are_the_environments_own_across_rollouts():
    """w_0(t) = γ^t tells the age."""
    policy, critic = networks()
    weigh = TaylorGAE(weighting=TaylorWeight(0.99, 0), gamma=GAMMA, lmbda=LAM, value_network=critic)
    plain, found = GAE(gamma=GAMMA, lmbda=LAM, value_network=critic), []
    for data, tasks in collect(policy):  # noqa: B007
        before = plain(data.clone())["advantage"]
        found.append((weigh(data)["advantage"] / before)[..., 0])
    ages = [[age for *_, age in task.history] for task in tasks]
    assert np.max(ages) > 3
    np.testing.assert_allclose(torch.cat(found, 1), GAMMA ** np.array(ages), rtol=1e-4)


@pytest.mark.parametrize("standardise", [True, False])
def test_one_step__is_that_of_the_weighted_loss_by_autograd(standardise):
    """Three epochs on the whole batch, so that ratios leave 1 and are clipped."""
    policy, critic = networks()
    twin_policy, twin_critic = copy.deepcopy(policy), copy.deepcopy(critic)
    (data, tasks), *_ = collect(policy, 1)
    usual = {"gamma": GAMMA, "lmbda": LAM}
    slot = TaylorWeight(0.97, 2)
    weigh = TaylorGAE(weighting=slot, **usual, value_network=critic, average_gae=standardise)
    plain = GAE(**usual, value_network=critic)(data.clone())["advantage"]
    weigh(data)
    objective = ClipPPOLoss(policy, critic, clip_epsilon=0.02, entropy_bonus=False)
    optimiser = torch.optim.SGD(objective.parameters(), lr=1.0)
    ages = [[age for *_, age in task.history] for task in tasks]
    weight = torch.tensor(
        [[written_out.update_weight(t, GAMMA, 0.97, 2) for t in row] for row in ages]
    ).reshape(-1)
    advantage = plain.reshape(-1)
    if standardise:
        advantage = (advantage - advantage.mean()) / advantage.std()
    flat, clipped = data.reshape(-1), []
    twins = [*twin_policy.parameters(), *twin_critic.parameters()]
    mine = torch.optim.SGD(twins, lr=1.0)
    for _ in range(3):
        losses = objective(flat)
        optimiser.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        optimiser.step()
        ratio = (
            twin_policy.get_dist(flat.clone()).log_prob(flat["action"]) - flat["action_log_prob"]
        )
        ratio = ratio.exp()
        near = ratio.clamp(0.98, 1.02)
        clipped.append((ratio != near).any().item())
        gain = (weight * torch.min(ratio * advantage, near * advantage)).mean()
        value = twin_critic(flat.clone())["state_value"]
        error = torch.nn.functional.smooth_l1_loss(value, flat["value_target"])
        mine.zero_grad()
        (error - gain).backward()
        mine.step()
    assert any(clipped)
    for a, b in zip([*policy.parameters(), *critic.parameters()], twins, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_learning__order_3_waits_where_the_plain_trainer_takes_what_it_gets():
    def train(slot):
        policy, critic = networks(12, 64)
        usual = {"gamma": 0.5, "lmbda": 1.0, "value_network": critic}
        advantages = GAE(**usual) if slot is None else TaylorGAE(slot, **usual)
        objective = ClipPPOLoss(policy, critic, clip_epsilon=0.4, entropy_bonus=False)
        optimiser = torch.optim.Adam(objective.parameters(), lr=0.01)
        for data, _ in collect(policy, 12, Choice, 1, 384):
            advantages(data)
            for _ in range(20):
                losses = objective(data.reshape(-1))
                optimiser.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                optimiser.step()
        return policy.module[0].module(torch.eye(12)[0]).softmax(-1)[1].item()

    check_waiting(train)


class Told:
    def __init__(self):
        self.names = set()

    def log_scalar(self, name, value, step=None):
        assert math.isfinite(value)
        self.names.add(name)


def test_numbers__are_logged_and_a_large_tail_is_told():
    policy, critic = networks()
    (data, _), *_ = collect(policy, 1)
    logger = Told()
    usual = {"gamma": GAMMA, "lmbda": LAM, "value_network": critic}
    module = TaylorGAE({"gamma_prime": 0.97}, {"gamma_prime": 0.97}, **usual, logger=logger)
    module(data)
    names = {f"taylor/{x}" for x in ("added", "tail_share", "survival", "mean_weight")}
    assert logger.names == set(module.numbers) == names
    with pytest.warns(UserWarning, match=r"tail_share=.*frames_per_batch"):
        TaylorGAE(TaylorQ(0.999, order=math.inf), **usual)(data[:, :3])


def test_state__is_that_of_gae():
    """A checkpoint holds nothing of ours."""
    _, critic = networks()
    usual = {"gamma": GAMMA, "lmbda": LAM, "value_network": critic}
    ours = TaylorGAE(TaylorQ(), **usual).state_dict()
    assert set(ours) == set(GAE(**usual).state_dict())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0.9995}, r"gamma_prime=0.999: must lie in \[gamma"),
        ({"shifted": True}, "shifted=True: must be False"),
        ({"auto_reset_env": True}, "auto_reset_env=True: must be False"),
        ({"differentiable": True}, "differentiable=True: must be False"),
        ({"gamma": torch.tensor([0.9, 0.8])}, "must be one number"),
        ({"advantage": None}, "at least one of them must be given"),
        ({"advantage": {"gama": 1}}, "unexpected keyword"),
    ],
)
def test_bad_settings__are_refused_when_it_is_made(change, message):
    _, critic = networks()
    usual = {"advantage": TaylorQ(), "gamma": GAMMA, "lmbda": LAM, "value_network": critic}
    with pytest.raises(ValueError, match=message):
        TaylorGAE(**(usual | change))


def test_discount_of_the_trainer__is_read_as_it_was_written():
    _, critic = networks()
    TaylorGAE(TaylorQ(0.99), gamma=0.99, lmbda=LAM, value_network=critic)


def test_bad_rollouts__are_refused_before_anything_is_written():
    policy, critic = networks()
    (data, _), *_ = collect(policy, 1)
    usual = {"gamma": GAMMA, "lmbda": LAM, "value_network": critic}
    weigh = TaylorGAE(TaylorQ(0.99), TaylorWeight(0.99), **usual)
    padded = data.clone()
    padded["collector", "mask"] = torch.arange(NUM_STEPS).expand(NUM_ENVS, -1) < 9
    several = data.clone()
    several["steps_to_next_obs"] = torch.full_like(data["done"], 3, dtype=torch.int64)
    unknown = data.clone()
    unknown["next", "observation"][1, 3] = math.nan
    for wrong, message in (
        (data.exclude("step_count"), "StepCounter"),
        (unknown, "next observations hold NaN"),
        (padded, "split_trajs=False"),
        (several, "MultiStep"),
    ):
        with pytest.raises(ValueError, match=message):
            weigh(wrong)
        assert wrong.get("advantage", None) is None


def test_names_that_the_adapter_leans_on():
    """A canary: fails where TorchRL has changed under us."""
    assert list(inspect.signature(GAE._normalize_advantage).parameters)[1:] == [
        "adv",
        "valid",
        "groups",
    ]
    wanted = {"gamma", "lmbda", "value_network", "average_gae", "shifted", "auto_reset_env"}
    assert wanted <= set(inspect.signature(GAE.__init__).parameters)
    assert list(inspect.signature(GAE._get_time_dim).parameters) == ["self", "time_dim", "data"]
    source = inspect.getsource(GAE.forward)
    assert source.count("self.average_gae") == 1
    assert "_normalize_advantage(" in source


def test_page__runs_as_printed():
    from integrations.test_torchrl_off_policy import gradients, make_loss, make_replay

    replay, loss = make_replay(1500, 1200), make_loss(SACLoss)
    found = pages.run("torchrl", loss=loss, replay_buffer=replay)
    for name in ("advantages", "weighted"):
        (data, _), *_ = collect(networks()[0], 1)
        assert found[name](data)["advantage"].isfinite().all()
    gradients(loss, replay.sample())
    assert found["ratio"].numbers
