"""Updates with weights are those of the weighted loss, written out for every on-policy trainer."""

import numpy as np
import pytest
import torch

from gammaprime.agents import TaylorQ, TaylorWeight
from gammaprime.integrations.sb3 import Taylor
from integrations import written_out
from integrations.settings import GAMMA, NUM_ENVS, NUM_STEPS
from integrations.trainers import make, parameters
from integrations.vec_envs import Recorder, make_ends

SLOTS = TaylorQ(0.97, order=1), TaylorWeight(0.97, 2)
SIZE = NUM_STEPS * NUM_ENVS
CLIP = 0.02
SGD = {"learning_rate": 1.0, "max_grad_norm": 1e9, "ent_coef": 0.01}
EPOCHS = {"batch_size": SIZE, "n_epochs": 3, "clip_range": CLIP}
"""Three steps on the whole rollout, so that ratios leave 1 and are clipped."""


def small(name, optimiser):
    recurrent = {"lstm_hidden_size": 8} if name == "RecurrentPPO" else {}
    return {"policy_kwargs": {"net_arch": [8], "optimizer_class": optimiser, **recurrent}}


def watch(model, env, monkeypatch):
    """The minibatches of the trainer's own buffer, unweighted, with the weights of their rows."""
    found, kind = [], type(model.rollout_buffer)
    get_samples = kind._get_samples

    def spy(self, rows, *args):
        samples = get_samples(self, rows, *args)
        ages = [[truth[2] for truth in truths] for _, truths in env.steps]
        # Rows are numbered environment by environment.
        own = [ages[row % NUM_STEPS][row // NUM_STEPS] for row in rows]
        weight = torch.zeros(samples.advantages.shape)
        kept = samples.mask > 0.5 if "mask" in samples._fields else torch.ones_like(weight) > 0.5
        weight[kept] = torch.tensor([written_out.update_weight(t, GAMMA, 0.97, 2) for t in own])
        found.append((samples, weight, kept))
        return samples

    monkeypatch.setattr(kind, "_get_samples", spy)
    return found


def standardised(advantages, kept, ddof):
    counted = advantages[kept]
    return (advantages - counted.mean()) / (counted.std(correction=ddof) + 1e-8)


@pytest.mark.parametrize("name", ["PPO", "A2C", "MaskablePPO", "RecurrentPPO"])
@pytest.mark.parametrize("standardise", [True, False])
def test_one_step__is_that_of_the_weighted_loss_by_autograd(name, standardise, monkeypatch):
    settings = SGD | small(name, torch.optim.SGD) | {"normalize_advantage": standardise}
    settings |= EPOCHS if name != "A2C" else {}
    twin, env = make(name, make_ends(), **settings).policy, Recorder(make_ends())
    model = make(name, env, **settings)
    found, clipped = watch(model, env, monkeypatch), []
    model.learn(SIZE, Taylor(*SLOTS))
    assert len(found) == (1 if name == "A2C" else 3)
    for batch, weight, kept in found:
        advantage = standardised(batch.advantages, kept, 1) if standardise else batch.advantages
        recurrent = (batch.lstm_states, batch.episode_starts) if name == "RecurrentPPO" else ()
        action = batch.actions.long().flatten()
        values, log_prob, entropy = twin.evaluate_actions(batch.observations, action, *recurrent)
        ratio = torch.exp(log_prob - batch.old_log_prob)
        near = ratio.clamp(1.0 - CLIP, 1.0 + CLIP)
        clipped.append((ratio != near).any().item())
        gain = torch.min(advantage * ratio, advantage * near)
        gain = weight * (advantage * log_prob if name == "A2C" else gain)
        error = (batch.returns - values.flatten()).square()
        loss = (0.5 * error - gain - 0.01 * entropy)[kept].mean()
        twin.optimizer.zero_grad()
        loss.backward()
        twin.optimizer.step()
    assert name == "A2C" or any(clipped)
    for mine, theirs in zip(twin.parameters(), model.policy.parameters(), strict=True):
        torch.testing.assert_close(theirs, mine, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("factor", [1, 2])
def test_objective_of_trpo__has_the_gradient_of_the_weighted_one(factor, monkeypatch):
    settings = {"sub_sampling_factor": factor}
    twin, env = make("TRPO", make_ends(), **settings).policy, Recorder(make_ends())
    model, told = make("TRPO", env, **settings), []
    compute = model._compute_actor_grad
    model._compute_actor_grad = lambda *args: told.append(compute(*args)) or told[-1]
    found = watch(model, env, monkeypatch)
    model.learn(SIZE, Taylor(*SLOTS))
    (actor, gradient, *_), (batch, weight, _) = told[0], found[0]
    part = slice(None, None, factor)
    advantage = standardised(batch.advantages, part, 1)[part]
    log_prob = twin.get_distribution(batch.observations).log_prob(batch.actions.long().flatten())
    objective = (weight[part] * advantage * torch.exp(log_prob - batch.old_log_prob)[part]).mean()
    names = [n for n, x in model.policy.named_parameters() if any(x is y for y in actor)]
    own = [x for n, x in twin.named_parameters() if n in names]
    expected = torch.cat([x.flatten() for x in torch.autograd.grad(objective, own)])
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("standardise", [True, False])
def test_one_step_of_sbx__is_that_of_the_weighted_loss_by_autograd(standardise, monkeypatch):
    pytest.importorskip("sbx")
    import jax
    import jax.numpy as jnp
    import optax

    settings = SGD | EPOCHS | small("SBX", optax.sgd) | {"normalize_advantage": standardise}
    twin, env = make("SBX", make_ends(), **settings), Recorder(make_ends())
    model = make("SBX", env, **settings)
    found = watch(model, env, monkeypatch)
    model.learn(SIZE, Taylor(*SLOTS))
    assert len(found) == 3
    policy = twin.policy

    def actor_loss(params, obs, action, old, advantage, weight):
        dist = policy.actor_state.apply_fn(params, obs)
        ratio = jnp.exp(dist.log_prob(action) - old)
        near = jnp.clip(ratio, 1.0 - CLIP, 1.0 + CLIP)
        gain = weight * jnp.minimum(advantage * ratio, advantage * near)
        return -(gain + 0.01 * dist.entropy()).mean()

    def critic_loss(params, obs, target):
        return 0.5 * ((target - policy.vf_state.apply_fn(params, obs).flatten()) ** 2).mean()

    for batch, weight, kept in found:
        advantage = standardised(batch.advantages, kept, 0) if standardise else batch.advantages
        obs, action = batch.observations.numpy(), batch.actions.flatten().numpy().astype(np.int32)
        rows = [x.numpy() for x in (batch.old_log_prob, advantage, weight)]
        states = policy.actor_state, policy.vf_state
        steps = (
            jax.grad(actor_loss)(states[0].params, obs, action, *rows),
            jax.grad(critic_loss)(states[1].params, obs, batch.returns.numpy()),
        )
        policy.actor_state, policy.vf_state = (
            state.replace(params=jax.tree.map(lambda x, y: x - y, state.params, step))
            for state, step in zip(states, steps, strict=True)
        )
    np.testing.assert_allclose(parameters(model), parameters(twin), rtol=1e-4, atol=1e-5)
