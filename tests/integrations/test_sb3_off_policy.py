"""`DensityRatio` in the off-policy trainers of the Stable-Baselines3 family."""

import copy
import zipfile

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EveryNTimesteps
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecNormalize
from torch.nn import functional

from gammaprime.integrations.sb3 import DensityRatio
from integrations.vec_envs import make_ends

OFF_POLICY = ["TD3", "DDPG", "SAC", "TQC"]
STARTS, BATCH = 30, 16


def find(name):
    if name == "TQC":
        return pytest.importorskip("sb3_contrib").TQC
    return {"TD3": sb3.TD3, "DDPG": sb3.DDPG, "SAC": sb3.SAC}[name]


def make(name, env=None, dict_obs=False, **settings):
    if env is None:
        env = make_ends(2, actions="box", observations="dict" if dict_obs else "box")
    usual = {"learning_starts": STARTS, "batch_size": BATCH, "buffer_size": 1000, "seed": 0}
    usual |= {"gamma": 0.9, "device": "cpu", "policy_kwargs": {"net_arch": [8]}}
    policy = "MultiInputPolicy" if dict_obs else "MlpPolicy"
    return find(name)(policy, env, **(usual | settings))


def parameters(model):
    return torch.cat([x.detach().flatten() for x in model.policy.parameters()]).numpy()


@pytest.mark.parametrize("name", OFF_POLICY)
@pytest.mark.parametrize("kind", ["box", "dict", "normalised"])
def test_temperature_zero__is_the_plain_trainer_bit_for_bit(name, kind):
    results = []
    for callback in (None, DensityRatio(0.0, recent_size=20), DensityRatio(1.0, recent_size=20)):
        env = VecNormalize(make_ends(2, actions="box")) if kind == "normalised" else None
        model = make(name, env, dict_obs=kind == "dict")
        model.learn(80, callback)
        results.append(parameters(model))
    plain, zero, one = results
    assert np.array_equal(plain, zero)
    assert not np.array_equal(plain, one)


def gradients(model, seed=0):
    """Gradients of the actor and of the critics in one update, as their optimisers find them."""
    kept = {}

    def keep(optimiser, *_):
        for group in optimiser.param_groups:
            kept.update({x: x.grad.clone() for x in group["params"]})

    hooks = [
        x.register_step_pre_hook(keep) for x in (model.actor.optimizer, model.critic.optimizer)
    ]
    set_random_seed(seed)
    model.train(1, BATCH)
    for hook in hooks:
        hook.remove()
    return kept


@pytest.mark.parametrize("name", OFF_POLICY)
@pytest.mark.parametrize("scale", ["sum", "paper"])
def test_actor_gradient__is_the_sum_of_weighted_gradients(name, scale):
    settings = {"learning_rate": 0.0, "gradient_steps": 0}
    if name == "TD3":
        settings["policy_delay"] = 1
    callback = DensityRatio(2.0, scale, recent_size=20, learning_rate=1e-3, seed=1)
    model = make(name, **settings)
    model.learn(100, callback)
    model.set_logger(sb3.common.logger.Logger(None, []))
    plain = gradients(model)
    callback._on_training_start()
    with torch.no_grad():  # a ratio that differs between states
        for x in callback.ratio.network.parameters():
            x.mul_(3.0)
    network = copy.deepcopy(callback.ratio.network)
    weighted = gradients(model)
    callback._on_training_end()
    set_random_seed(0)
    batch = model.replay_buffer.sample(BATCH)
    logs = functional.softplus(network(batch.observations)).log()[:, 0]
    weight = torch.softmax(2.0 * logs, 0).detach()
    assert weight.max() > 1.5 / BATCH
    set_random_seed(0)
    actor = list(model.actor.parameters())
    expected = torch.autograd.grad(weighted_loss(name, model, batch, weight), actor)
    for parameter, gradient in zip(actor, expected, strict=True):
        wanted = gradient if scale == "sum" else gradient / BATCH
        size = wanted.abs().max().item()
        torch.testing.assert_close(weighted[parameter], wanted, rtol=1e-4, atol=1e-5 * size)
    for parameter in model.critic.parameters():
        # The targets have moved by a rounding in between.
        torch.testing.assert_close(weighted[parameter], plain[parameter], rtol=1e-4, atol=1e-6)
    for parameter in actor:
        assert not torch.equal(weighted[parameter], plain[parameter])


def weighted_loss(name, model, batch, weight):
    """Σ w̃_i ℓ_i, ℓ_i the loss of the policy in state i."""
    obs = batch.observations
    if name in {"TD3", "DDPG"}:
        return -(weight * model.critic.q1_forward(obs, model.actor(obs))[:, 0]).sum()
    action, log_prob = model.actor.action_log_prob(obs)
    coef = model.log_ent_coef.detach().exp()
    if name == "TQC":
        value = model.critic(obs, action).mean(dim=2).mean(dim=1)
    else:
        value = torch.cat(model.critic(obs, action), dim=1).min(dim=1)[0]
    return (weight * (coef * log_prob - value)).sum()


def test_ratio__learns_which_states_are_recent():
    """The replay holds two kinds of states, of which only one is recent."""
    model = make("SAC", learning_rate=1e-3)
    callback = DensityRatio(1.0, recent_size=100, learning_rate=1e-2)
    model.learn(STARTS, callback)
    callback._on_training_start()
    buffer = model.replay_buffer
    buffer.pos, buffer.full = 0, True
    buffer.observations[:] = -1.0
    buffer.observations[-250:] = 1.0
    for _ in range(300):
        features = torch.tensor(buffer.observations[::4, 0])
        with torch.enable_grad():
            scale = callback._learn(features)
    old, new = scale[0, 0].item(), scale[-1, 0].item()
    # Half of the replay's states are recent ones: the ratio there is 2, and 0 elsewhere.
    assert new / scale.mean().item() == pytest.approx(2.0, rel=0.1)
    assert old < 0.1


class BrokenError(Exception):
    """A training that breaks off."""


class BreakOff(BaseCallback):
    def _on_step(self):
        if self.n_calls == 25:
            raise BrokenError
        return True


def assert_plain(model):
    for layer in dict(model.actor.named_children()).values():
        assert not layer._forward_hooks


def test_training_that_goes_on_without_the_callback__is_plain():
    model = make("SAC")
    with pytest.raises(BrokenError):
        model.learn(80, [DensityRatio(recent_size=20), BreakOff()])
    with pytest.warns(UserWarning, match="no longer among the callbacks"):
        model.learn(80)
    assert_plain(model)


def test_training_broken_off__goes_on_with_a_new_callback_alone():
    """Warnings are errors; two callbacks would each train a ratio of their own."""
    model, stale, new = make("SAC"), DensityRatio(recent_size=20), DensityRatio(recent_size=20)
    with pytest.raises(BrokenError):
        model.learn(80, [stale, BreakOff()])
    before = copy.deepcopy(stale.ratio.network.state_dict())
    model.learn(80, new)
    for name, tensor in stale.ratio.network.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert new.ratio.numbers
    assert_plain(model)


def test_callback_of_a_training_broken_off__leaves_that_model_when_it_trains_another():
    callback, model = DensityRatio(recent_size=20), make("SAC")
    with pytest.raises(BrokenError):
        model.learn(80, [callback, BreakOff()])
    make("SAC").learn(40, callback)
    assert_plain(model)


def test_two_at_once_and_event_callbacks__are_refused():
    model = make("SAC")
    with pytest.raises(ValueError, match="must hold one DensityRatio, not two"):
        model.learn(80, [DensityRatio(recent_size=20), DensityRatio(recent_size=20)])
    assert_plain(model)
    for callback in (DensityRatio(recent_size=20), CallbackList([DensityRatio(recent_size=20)])):
        with pytest.raises(ValueError, match="DensityRatio inside EveryNTimesteps: must see every"):
            model.learn(80, EveryNTimesteps(7, callback))
        assert_plain(model)


@pytest.mark.parametrize(
    ("name", "layer"), [("TD3", "mu"), ("SAC", "log_std"), ("TQC", "features_extractor")]
)
def test_layers__that_are_gone_are_refused_in_words(name, layer):
    model = make(name)
    model.actor.renamed = model.actor._modules.pop(layer)
    with pytest.raises(ValueError, match=f"actor of {name} has no layer {layer}"):
        model.learn(10, DensityRatio(recent_size=20))
    assert_plain(model)


@pytest.mark.parametrize("name", OFF_POLICY)
def test_saved_models__hold_nothing_of_ours(name, tmp_path):
    class Save(BaseCallback):
        def _on_step(self):
            if self.n_calls == 30:
                self.model.save(tmp_path / "during")
            return True

    model = make(name)
    model.learn(80, [DensityRatio(recent_size=20), Save()])
    model.save(tmp_path / "after")
    for when in ("during", "after"):
        with zipfile.ZipFile(tmp_path / f"{when}.zip") as archive:
            held = b"".join(archive.read(entry).lower() for entry in archive.namelist())
        assert b"gammaprime" not in held
        assert b"ratio" not in held.replace(b"exploration", b"")
        loaded = find(name).load(tmp_path / when)
        assert not loaded.actor.mu._forward_hooks
        assert not loaded.actor.features_extractor._forward_hooks


def test_bad_input__is_told_in_words():
    cases = [
        (make("SAC", use_sde=True), "use_sde=True"),
        (make("SAC", policy_kwargs={"share_features_extractor": True}), "share_features_extractor"),
        (sb3.PPO("MlpPolicy", make_ends(), device="cpu"), "must be TD3, DDPG, SAC or TQC"),
        (sb3.DQN("MlpPolicy", make_ends(1), device="cpu", buffer_size=99), "must be TD3, DDPG"),
    ]
    for model, message in cases:
        with pytest.raises(ValueError, match=message):
            model.learn(10, DensityRatio(recent_size=20))
    with pytest.raises(ValueError, match="recent_size=1000: must be below the size of the replay"):
        make("TD3").learn(10, DensityRatio(recent_size=1000))
    for wrong in ({"inverse_temperature": -1.0}, {"scale": "mean"}, {"recent_size": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DensityRatio(**wrong)


def test_hindsight_replay__is_refused():
    from stable_baselines3 import HerReplayBuffer
    from stable_baselines3.common.envs import BitFlippingEnv

    env = BitFlippingEnv(n_bits=3, continuous=True)
    model = sb3.SAC(
        "MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer, device="cpu", buffer_size=999
    )
    with pytest.raises(ValueError, match="HerReplayBuffer"):
        model.learn(10, DensityRatio(recent_size=20))


def test_sbx__is_refused_in_words():
    sbx = pytest.importorskip("sbx")
    model = sbx.SAC("MlpPolicy", make_ends(1, actions="box"), buffer_size=999)
    with pytest.raises(ValueError, match="of stable_baselines3 or sb3_contrib"):
        model.learn(10, DensityRatio(recent_size=20))
