"""Losses and gradients on a frozen batch against Stable-Baselines3's own training step.

It comes with the extra ``sb3``; without it the same losses are checked against torch alone, in
tests/agents/test_off_policy_torch.py.
"""

import jax
import numpy as np
import pytest

from agents.replays import NUM_INPUTS, Space
from gammaprime import losses
from gammaprime.agents import SAC, TD3
from gammaprime.agents.off_policy import Batch, evaluate_critics
from gammaprime.agents.sac import LearnedEntropy, entropy_coef, sac_policy_loss, sac_target
from gammaprime.agents.td3 import td3_policy_loss, td3_target

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: pip install gammaprime[sb3]"
)
gymnasium = pytest.importorskip("gymnasium")

SIZE, NUM_ACTIONS, GAMMA = 64, 2, 0.9
SPACE = Space(-np.ones(NUM_ACTIONS), np.ones(NUM_ACTIONS))
SMALL = {"gamma": GAMMA, "hidden": (16, 16), "num_steps": 4}
UNIFORM = np.full(SIZE, 1.0 / SIZE, np.float32)


class Still(gymnasium.Env):
    """The spaces are all that is asked of it."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (NUM_INPUTS,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (NUM_ACTIONS,))


def put(layers, network):
    """Our network's numbers into torch's linear layers; one layer may feed several of them."""
    linear = [m for m in layers if isinstance(m, torch.nn.Linear)]
    weights = [np.asarray(layer.weight).T for layer in network]
    biases = [np.asarray(layer.bias) for layer in network]
    if len(linear) > len(network):  # μ and log σ
        weights[-1:], biases[-1:] = np.split(weights[-1], 2), np.split(biases[-1], 2)
    with torch.no_grad():
        for module, weight, bias in zip(linear, weights, biases, strict=True):
            module.weight.copy_(torch.tensor(weight))
            module.bias.copy_(torch.tensor(bias))


def keep_gradients(*optimisers):
    """Gradients as each optimiser finds them: the actor's pass adds to those of the critics."""
    kept = {}

    def keep(optimiser, *_):
        for group in optimiser.param_groups:
            kept.update({x: x.grad.numpy().copy() for x in group["params"]})

    for optimiser in optimisers:
        optimiser.register_step_pre_hook(keep)
    return kept


def assert_gradients(kept, layers, network):
    """Torch's gradients and ours."""
    linear = [m for m in layers if isinstance(m, torch.nn.Linear)]
    weights, biases = [kept[m.weight] for m in linear], [kept[m.bias] for m in linear]
    if len(linear) > len(network):
        weights[-2:], biases[-2:] = [np.concatenate(weights[-2:])], [np.concatenate(biases[-2:])]
    for layer, weight, bias in zip(network, weights, biases, strict=True):
        # Relative to the layer's largest: single entries are differences of far larger numbers.
        for mine, theirs in ((layer.weight, weight.T), (layer.bias, bias)):
            size = np.abs(theirs).max()
            assert size > 0.0
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5 * size)


@pytest.fixture
def batch(rng):
    obs, next_obs = rng.normal(size=(2, SIZE, NUM_INPUTS)).astype(np.float32)
    action = rng.uniform(-1, 1, (SIZE, NUM_ACTIONS)).astype(np.float32)
    reward = rng.normal(size=SIZE).astype(np.float32)
    return Batch(obs, action, reward, next_obs, rng.random(SIZE) < 0.3, np.zeros(SIZE, int))


class Frozen:
    """A replay that always gives the same batch."""

    def __init__(self, batch):
        numbers = (batch.obs, batch.action, batch.next_obs)
        obs, action, next_obs = (torch.tensor(x) for x in numbers)
        done, reward = (
            torch.tensor(x, dtype=torch.float32)[:, None] for x in (batch.terminated, batch.reward)
        )
        self.samples = sb3.common.type_aliases.ReplayBufferSamples(
            obs, action, next_obs, done, reward
        )

    def sample(self, *_, **__):
        return self.samples


def peer(kind, batch, **settings):
    """Its model without any step of the optimisers: gradients stay where they were computed."""
    model = kind(
        "MlpPolicy",
        Still(),
        gamma=GAMMA,
        learning_rate=0.0,
        policy_kwargs={"net_arch": [16, 16]},
        device="cpu",
        **settings,
    )
    model.set_logger(sb3.common.logger.Logger(None, []))
    model.replay_buffer = Frozen(batch)
    return model


def critics_gradient(agent, learned, batch, noise):
    target_of = td3_target if isinstance(agent, TD3) else sac_target
    target = target_of(agent, learned, batch, noise)

    def loss(critics):
        return losses.critics_loss(evaluate_critics(critics, batch.obs, batch.action), target)

    return jax.value_and_grad(loss)(learned.critics.params)


def moved(learned, rng):
    """Targets that are not their networks any more."""
    far = lambda x: x + 0.1 * rng.normal(size=x.shape).astype(np.float32)  # noqa: E731
    return learned._replace(
        target_policy=jax.tree.map(far, learned.target_policy),
        target_critics=jax.tree.map(far, learned.target_critics),
    )


def put_critics(model, learned):
    for i, name in enumerate(("qf0", "qf1")):
        put(getattr(model.critic, name), learned.critics.params[i])
        put(getattr(model.critic_target, name), learned.target_critics[i])


@pytest.mark.paper("appendix:exp")
def test_td3__has_the_losses_and_gradients_of_stable_baselines(batch, rng):
    agent = TD3(**SMALL, policy_delay=1)
    learned = moved(agent.init(jax.random.key(0), SPACE, NUM_INPUTS).learned, rng)
    model = peer(sb3.TD3, batch, policy_delay=1, tau=1e-9)
    put(model.actor.mu, learned.policy.params)
    put(model.actor_target.mu, learned.target_policy)
    put_critics(model, learned)
    kept = keep_gradients(model.actor.optimizer, model.critic.optimizer)
    torch.manual_seed(0)
    model.train(1, SIZE)
    torch.manual_seed(0)
    noise = torch.empty(SIZE, NUM_ACTIONS).normal_(0, agent.target_noise).numpy()
    loss, gradient = critics_gradient(agent, learned, batch, noise / agent.target_noise)
    logged = model.logger.name_to_value
    assert loss == pytest.approx(logged["train/critic_loss"], rel=1e-5)
    assert_gradients(kept, model.critic.qf0, gradient[0])
    assert_gradients(kept, model.critic.qf1, gradient[1])
    args = learned.policy.params, learned.critics.params, batch.obs, UNIFORM
    loss, gradient = jax.value_and_grad(td3_policy_loss)(*args)
    assert loss == pytest.approx(logged["train/actor_loss"], rel=1e-5)
    assert_gradients(kept, model.actor.mu, gradient)


@pytest.mark.paper("appendix:exp")
def test_sac__has_the_losses_and_gradients_of_stable_baselines(batch, rng):
    """Half our critics' loss, by its convention; its 1e-6 inside the logarithm does not show while
    actions before the squash are below 1 in size.
    """
    agent = SAC(**SMALL, entropy=LearnedEntropy(0.4))
    learned = moved(agent.init(jax.random.key(0), SPACE, NUM_INPUTS).learned, rng)
    network = learned.policy.params.network
    calm = network[-1]._replace(bias=network[-1].bias.at[NUM_ACTIONS:].add(-2.0))
    params = learned.policy.params._replace(network=(*network[:-1], calm))
    learned = learned._replace(policy=learned.policy._replace(params=params))
    model = peer(sb3.SAC, batch, ent_coef="auto_0.4", tau=1e-9)
    put([*model.actor.latent_pi, model.actor.mu, model.actor.log_std], params.network)
    put_critics(model, learned)
    kept = keep_gradients(model.actor.optimizer, model.critic.optimizer)
    torch.manual_seed(0)
    model.train(1, SIZE)
    torch.manual_seed(0)
    shape = torch.zeros(SIZE, NUM_ACTIONS), torch.ones(SIZE, NUM_ACTIONS)
    noise, next_noise = (torch.normal(*shape).numpy() for _ in range(2))
    coef = entropy_coef(agent, learned)
    loss, gradient = critics_gradient(agent, learned, batch, next_noise)
    logged = model.logger.name_to_value
    assert 0.5 * loss == pytest.approx(logged["train/critic_loss"], rel=1e-5)
    half = jax.tree.map(lambda x: 0.5 * x, gradient)
    assert_gradients(kept, model.critic.qf0, half[0])
    assert_gradients(kept, model.critic.qf1, half[1])
    args = params, learned.critics.params, batch.obs, UNIFORM, noise, coef
    (loss, log_prob), gradient = jax.value_and_grad(sac_policy_loss, has_aux=True)(*args)
    assert loss == pytest.approx(logged["train/actor_loss"], rel=1e-5)
    assert_gradients(
        kept, [*model.actor.latent_pi, model.actor.mu, model.actor.log_std], gradient.network
    )
    of_coef = jax.value_and_grad(losses.entropy_coef_loss)
    loss, gradient = of_coef(learned.log_entropy_coef.params, log_prob, -float(NUM_ACTIONS))
    assert loss == pytest.approx(logged["train/ent_coef_loss"], rel=1e-5)
    assert gradient == pytest.approx(model.log_ent_coef.grad.item(), rel=1e-5)
