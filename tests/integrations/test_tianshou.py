"""`TaylorPPO`, `TaylorA2C`, `TaylorTRPO` and `TaylorNPG` in Tianshou 2."""

import copy
import inspect
import math

import gymnasium
import numpy as np
import pytest
import torch
from tianshou.algorithm import A2C, NPG, PPO, TRPO
from tianshou.algorithm.algorithm_base import policy_within_training_step
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, OptimizerFactory
from tianshou.data import Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from gammaprime.agents import TaylorQ, TaylorWeight
from gammaprime.integrations.tianshou import Taylor, TaylorA2C, TaylorNPG, TaylorPPO, TaylorTRPO
from integrations import pages, written_out
from integrations.settings import EXPANSIONS, GAMMA, LAM, NUM_ENVS, NUM_STEPS, ONES, PLAIN
from integrations.tasks import Choice, Ends, check_waiting

pytestmark = pytest.mark.filterwarnings("ignore")

KINDS = {"PPO": (PPO, TaylorPPO), "A2C": (A2C, TaylorA2C)}
KINDS |= {"TRPO": (TRPO, TaylorTRPO), "NPG": (NPG, TaylorNPG)}


class SGDFactory(OptimizerFactory):
    def create_optimizer_for_params(self, params):
        return torch.optim.SGD(params, lr=1.0)

    def _create_optimizer_for_params(self, params):
        return torch.optim.SGD(params, lr=1.0)


def make(kind, task=Ends, size=8, optim=None, **settings):
    """An algorithm with small networks of its own."""
    torch.manual_seed(0)
    env = task()
    shape = env.observation_space.shape
    actor = DiscreteActor(
        preprocess_net=Net(state_shape=shape, hidden_sizes=[size], activation=torch.nn.Tanh),
        action_shape=2,
        softmax_output=False,
    )
    critic = DiscreteCritic(
        preprocess_net=Net(state_shape=shape, hidden_sizes=[size], activation=torch.nn.Tanh)
    )
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=env.action_space,
        action_scaling=False,
        deterministic_eval=False,
    )
    usual = {"gamma": GAMMA, "gae_lambda": LAM, "optim": optim or AdamOptimizerFactory(lr=0.01)}
    return kind(policy=policy, critic=critic, **(usual | settings))


def rollouts(algorithm, number=3, num_envs=NUM_ENVS, num_steps=NUM_STEPS, task=Ends, **settings):
    """Collect and update; yield the collector and the tasks between the two."""
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(1)
    tasks = [task(seed=i) if task is Ends else task() for i in range(num_envs)]
    envs = DummyVectorEnv([lambda one=one: one for one in tasks])
    collector = Collector(algorithm, envs, VectorReplayBuffer(100 * num_steps, num_envs))
    collector.reset()
    with policy_within_training_step(algorithm.policy):
        for _ in range(number):
            collector.collect(n_step=num_envs * num_steps)
            yield collector.buffer, tasks
            algorithm.update(collector.buffer, **({"batch_size": 16, "repeat": 2} | settings))
            collector.reset_buffer(keep_statistics=True)


def trained(algorithm, number=3, **settings):
    for _ in rollouts(algorithm, number, **settings):
        pass
    return parameters(algorithm)


def parameters(algorithm):
    return torch.cat([x.detach().flatten() for x in algorithm.parameters()])


@pytest.mark.parametrize("name", KINDS)
def test_nothing_asked__nothing_changed(name):
    plain, taylor = KINDS[name]
    expected = trained(make(plain))
    for slot in PLAIN:
        found = trained(make(taylor, advantage=slot, weighting=ONES))
        assert torch.equal(found, expected)
    changed = trained(make(taylor, advantage=TaylorQ(0.99)))
    assert not torch.equal(changed, expected)


@pytest.mark.parametrize(
    "settings",
    [{"advantage_normalization": False}, {"recompute_advantage": True}, {"return_scaling": True}],
    ids=str,
)
def test_nothing_asked__nothing_changed_with_settings_of_ppo(settings):
    slots = {"advantage": PLAIN[0], "weighting": ONES}
    found, expected = (
        trained(make(TaylorPPO, **slots, **settings)),
        trained(make(PPO, **settings)),
    )
    assert torch.equal(found, expected)


def columns(batch, lengths):
    """Every environment's rollout, by plain lists."""
    first = 0
    for length in lengths:
        rows = slice(first, first + length)
        arrays = (batch.rew, batch.v_s, batch.v_next, batch.terminated)
        lists = [np.asarray(x[rows], dtype=float).tolist() for x in arrays]
        cut = (np.asarray(batch.truncated) & ~np.asarray(batch.terminated))[rows].tolist()
        yield (*lists, cut)
        first += length


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("slot", EXPANSIONS, ids=str)
def test_advantages__are_sums_over_episodes(slot, name):
    kind, taylor = KINDS[name]
    algorithm, plain = make(taylor, advantage=slot), make(kind)
    kinds, count = set(), 0
    for buffer, _ in rollouts(algorithm):
        plain.load_state_dict(algorithm.state_dict())
        batch, indices = buffer.sample(0)
        found = algorithm._preprocess_batch(copy.deepcopy(batch), buffer, indices)
        usual = plain._preprocess_batch(copy.deepcopy(batch), buffer, indices)
        assert torch.equal(found.returns, usual.returns)
        with torch.no_grad():
            batch.v_s, batch.v_next = (
                algorithm.critic(obs).flatten().numpy() for obs in (batch.obs, batch.obs_next)
            )
        table = list(columns(batch, [NUM_STEPS] * NUM_ENVS))
        expected = np.concatenate(written_out.expanded(slot, table, GAMMA, LAM))
        if name in {"TRPO", "NPG"}:  # they standardise the whole batch here
            expected = (expected - expected.mean()) / expected.std(ddof=1)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found.adv, expected, rtol=1e-5, atol=1e-5 * scale)
        kinds |= set(zip(batch.terminated.tolist(), batch.truncated.tolist(), strict=True))
        count += 1
    assert count == 3
    assert kinds == {(False, False), (True, False), (False, True), (True, True)}


@pytest.mark.parametrize("name", KINDS)
def test_ages__are_the_environments_own_across_rollouts(name):
    """w_0(t) = γ^t tells the age."""
    found = [[] for _ in range(NUM_ENVS)]
    algorithm = make(KINDS[name][1], weighting=TaylorWeight(0.99, 0))
    weigh = algorithm.slots.weigh

    def spy(ages, gamma):
        weights = weigh(ages, gamma)
        for i, part in enumerate(np.split(weights, NUM_ENVS)):
            found[i].extend(part)
        return weights

    algorithm.slots.weigh = spy
    for _, tasks in rollouts(algorithm):  # noqa: B007
        pass
    ages = [[age for *_, age in task.history] for task in tasks]
    assert np.max(ages) > 3
    np.testing.assert_allclose(found, GAMMA ** np.array(ages), rtol=1e-5)


def test_ages__begin_anew_where_environments_were_reset():
    algorithm, found = make(TaylorA2C, weighting=TaylorWeight(0.99, 0)), []
    weigh = algorithm.slots.weigh
    algorithm.slots.weigh = lambda ages, gamma: found.append(ages) or weigh(ages, gamma)
    tasks = [Ends(seed=i) for i in range(2)]
    collector = Collector(
        algorithm, DummyVectorEnv([lambda x=x: x for x in tasks]), VectorReplayBuffer(99, 2)
    )
    with policy_within_training_step(algorithm.policy):
        for _ in range(3):
            collector.reset(reset_buffer=True)
            collector.collect(n_step=2 * 5)
            algorithm.update(collector.buffer, 16, 1)
    ages = np.array([[age for *_, age in task.history] for task in tasks]).reshape(2, 3, 5)
    np.testing.assert_array_equal(np.array(found).reshape(3, 2, 5).swapaxes(0, 1), ages)


@pytest.mark.parametrize("name", ["PPO", "A2C"])
@pytest.mark.parametrize("standardise", [True, False])
def test_one_step__is_that_of_the_weighted_loss_by_autograd(name, standardise):
    """Three epochs on the whole batch, so that ratios leave 1 and are clipped."""
    own = {"eps_clip": 0.02, "advantage_normalization": standardise} if name == "PPO" else {}
    settings = {"optim": SGDFactory(), "ent_coef": 0.01, "vf_coef": 0.5, **own}
    algorithm = make(KINDS[name][1], weighting=TaylorWeight(0.97, 2), **settings)
    twin = make(KINDS[name][0], **settings)
    repeat = 3 if name == "PPO" else 1
    for buffer, tasks in rollouts(algorithm, 1, batch_size=None, repeat=repeat):
        batch, indices = buffer.sample(0)
        batch = twin._preprocess_batch(batch, buffer, indices)
        ages = np.concatenate([[age for *_, age in task.history] for task in tasks])
    weight = torch.tensor([written_out.update_weight(int(t), GAMMA, 0.97, 2) for t in ages]).float()
    advantage = batch.adv
    if standardise and name == "PPO":
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    optimiser = torch.optim.SGD(
        [*twin.policy.actor.parameters(), *twin.critic.parameters()], lr=1.0
    )
    with torch.no_grad():
        old = twin.policy(batch).dist.log_prob(batch.act)
    clipped = []
    for _ in range(repeat):
        dist = twin.policy(batch).dist
        log_prob = dist.log_prob(batch.act)
        if name == "A2C":
            gain = (weight * advantage * log_prob).mean()
        else:
            ratio = (log_prob - old).exp()
            near = ratio.clamp(0.98, 1.02)
            clipped.append((ratio != near).any().item())
            gain = (weight * torch.min(ratio * advantage, near * advantage)).mean()
        error = (batch.returns - twin.critic(batch.obs).flatten()).pow(2).mean()
        optimiser.zero_grad()
        (0.5 * error - gain - 0.01 * dist.entropy().mean()).backward()
        optimiser.step()
    assert name == "A2C" or any(clipped)
    torch.testing.assert_close(parameters(algorithm), parameters(twin), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["TRPO", "NPG"])
def test_weights__come_after_the_standardisation_of_the_whole_batch(name):
    plain, taylor = (
        make(kind, **more)
        for kind, more in zip(KINDS[name], ({}, {"weighting": TaylorWeight(0.97, 2)}), strict=True)
    )
    for buffer, tasks in rollouts(plain, 1):
        batch, indices = buffer.sample(0)
        expected = plain._preprocess_batch(copy.deepcopy(batch), buffer, indices).adv
        found = taylor._preprocess_batch(copy.deepcopy(batch), buffer, indices).adv
        ages = np.concatenate([[age for *_, age in task.history] for task in tasks])
    weight = [written_out.update_weight(int(t), GAMMA, 0.97, 2) for t in ages]
    np.testing.assert_allclose(found, expected * torch.tensor(weight), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["TRPO", "NPG"])
def test_objective__has_the_gradient_of_the_weighted_one(name):
    algorithm, twin = make(KINDS[name][1], weighting=TaylorWeight(0.97, 2)), make(KINDS[name][0])
    found, flatten = [], algorithm._get_flat_grad
    algorithm._get_flat_grad = lambda *a, **b: found.append(flatten(*a, **b)) or found[-1]
    for buffer, tasks in rollouts(algorithm, 1, batch_size=None, repeat=1):
        batch, indices = buffer.sample(0)
        batch = twin._preprocess_batch(batch, buffer, indices)
        ages = np.concatenate([[age for *_, age in task.history] for task in tasks])
    weight = torch.tensor([written_out.update_weight(int(t), GAMMA, 0.97, 2) for t in ages]).float()
    log_prob = twin.policy(batch).dist.log_prob(batch.act)
    loss = -(weight * batch.adv * (log_prob - log_prob.detach()).exp()).mean()
    gradients = torch.autograd.grad(loss, list(twin.policy.actor.parameters()))
    expected = torch.cat([x.flatten() for x in gradients])
    torch.testing.assert_close(found[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["PPO", "A2C", "TRPO"])
def test_learning__order_3_waits_where_the_plain_trainer_takes_what_it_gets(name):
    own = {
        "PPO": {"eps_clip": 0.4, "advantage_normalization": False, "ent_coef": 0.0},
        "A2C": {"ent_coef": 0.0},
        "TRPO": {"max_kl": 0.05, "optim_critic_iters": 20},
    }[name]
    repeat = {"PPO": 20, "A2C": 40, "TRPO": 1}[name]
    plain, taylor = KINDS[name]

    def train(slot):
        settings = {"gamma": 0.5, "gae_lambda": 1.0, **own}
        kind, slots = (plain, {}) if slot is None else (taylor, {"advantage": slot})
        algorithm = make(kind, Choice, 64, **settings, **slots)
        run = {"task": Choice, "num_envs": 1, "num_steps": 384, "batch_size": None}
        trained(algorithm, 12, repeat=repeat, **run)
        logits, _ = algorithm.policy.actor(np.eye(12, dtype=np.float32)[:1])
        return logits.softmax(-1)[0, 1].item()

    check_waiting(train)


def test_numbers__are_in_the_statistics_that_the_trainer_logs():
    algorithm = make(TaylorPPO, advantage={"gamma_prime": 0.97}, weighting={"gamma_prime": 0.97})
    for buffer, _ in rollouts(algorithm, 1):
        stats = algorithm.update(buffer, 16, 1).get_loss_stats_dict()
    names = {f"taylor/{x}" for x in ("added", "tail_share", "survival", "mean_weight")}
    assert names <= set(stats)
    assert all(math.isfinite(stats[name]) for name in names)


def test_tail__that_decides_more_than_half_is_told():
    algorithm = make(TaylorA2C, advantage=TaylorQ(0.999, order=math.inf))
    with pytest.warns(UserWarning, match=r"tail_share=.*collection_step_num_env_steps"):
        trained(algorithm, 1, num_steps=3)


def test_state__is_that_of_the_algorithm():
    """A saved model holds nothing of ours."""
    ours, plain = make(TaylorPPO, advantage=TaylorQ()), make(PPO)
    plain.load_state_dict(ours.state_dict())
    assert torch.equal(parameters(ours), parameters(plain))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0.9995}, r"gamma_prime=0.999: must lie in \[gamma"),
        ({"advantage": None}, "at least one of them must be given"),
        ({"advantage": {"odrer": 1}}, "unexpected keyword"),
        ({"weighting": 3}, "weighting=3: must be TaylorWeight"),
    ],
)
def test_bad_settings__are_refused_when_it_is_made(change, message):
    with pytest.raises(ValueError, match=message):
        make(TaylorPPO, **({"advantage": TaylorQ()} | change))


class MyA2C(A2C):
    pass


class MyPPO(PPO):
    pass


@pytest.mark.parametrize(
    ("bases", "same"),
    [
        ((Taylor, MyA2C), TaylorA2C),
        ((TaylorPPO,), TaylorPPO),
        ((TaylorPPO, MyPPO), TaylorPPO),
    ],
    ids=["A2C", "TaylorPPO", "TaylorPPO, PPO"],
)
def test_own_algorithm__takes_the_slots(bases, same):
    slots = {"advantage": TaylorQ(0.97), "weighting": TaylorWeight(0.97, 2)}
    found, expected = (trained(make(kind, **slots), 2) for kind in (type("Mine", bases, {}), same))
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "settings",
    [{}, {"advantage_normalization": False, "recompute_advantage": True}],
    ids=["standardised", "recomputed"],
)
def test_own_ppo__is_refused_where_it_would_spoil_the_weights(settings):
    mine = type("Mine", (Taylor, MyPPO), {})
    with pytest.raises(ValueError, match=r"Mine: PPO standardises .* derive Mine from TaylorPPO"):
        make(mine, weighting=TaylorWeight(), **settings)
    make(mine, advantage=TaylorQ(), **settings)
    make(mine, weighting=TaylorWeight(), advantage_normalization=False)


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (ReplayBuffer(99, ignore_obs_next=True), "ignore_obs_next=True: must be False"),
        (ReplayBuffer(7), "buffer of 7 steps: must hold a whole rollout"),
    ],
    ids=["no successors", "too small"],
)
def test_bad_buffers__are_refused_before_anything_is_learned(buffer, message):
    algorithm = make(TaylorPPO, weighting=TaylorWeight())
    before = parameters(algorithm)
    collector = Collector(algorithm, DummyVectorEnv([Ends]), buffer)
    collector.reset()
    with policy_within_training_step(algorithm.policy):
        collector.collect(n_step=9)
        with pytest.raises(ValueError, match=message):
            algorithm.update(collector.buffer, 4, 1)
    assert torch.equal(parameters(algorithm), before)


def test_names_that_the_adapter_leans_on():
    """A canary: fails where Tianshou has changed under us."""
    wanted = ["batch", "buffer", "indices", "v_s_", "v_s", "gamma", "gae_lambda"]
    assert list(inspect.signature(PPO.compute_episodic_return).parameters) == wanted
    for kind, _ in KINDS.values():
        update = list(inspect.signature(kind._update_with_batch).parameters)
        assert update == ["self", "batch", "batch_size", "repeat"]
        prepare = list(inspect.signature(kind._preprocess_batch).parameters)
        assert prepare == ["self", "batch", "buffer", "indices"]
    assert "self.advantage_normalization" in inspect.getsource(PPO._update_with_batch)
    assert issubclass(Choice, gymnasium.Env)


def test_page__runs_as_printed():
    plain = make(PPO)
    names = {"policy": plain.policy, "critic": plain.critic, "optim": AdamOptimizerFactory()}
    assert trained(pages.run("tianshou", **names)["algorithm"], 1).isfinite().all()
