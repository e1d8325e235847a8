"""The on-policy trainers of the Stable-Baselines3 family, small, and what they share in tests."""

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback

from integrations.settings import GAMMA, LAM

ON_POLICY = ["PPO", "A2C", "TRPO", "MaskablePPO", "RecurrentPPO", "SBX"]
TORCH = ON_POLICY[:-1]


def find(name):
    """The class of a trainer, or a skipped test if its package is not installed."""
    if name in {"PPO", "A2C"}:
        return {"PPO": PPO, "A2C": A2C}[name]
    if name == "SBX":
        return pytest.importorskip("sbx").PPO
    contrib = pytest.importorskip("sb3_contrib")
    kinds = {"TRPO": contrib.TRPO, "MaskablePPO": contrib.MaskablePPO}
    return {**kinds, "RecurrentPPO": contrib.RecurrentPPO}[name]


def make(name, env, dict_obs=False, **settings):
    """A small model of the trainer."""
    kind = "LstmPolicy" if name == "RecurrentPPO" else "Policy"
    policy = ("MultiInput" if dict_obs else "Mlp") + kind
    small = {"net_arch": [8]}
    if name == "RecurrentPPO":
        small |= {"lstm_hidden_size": 8}
    usual = {"n_steps": 16, "gamma": GAMMA, "gae_lambda": LAM, "seed": 0, "policy_kwargs": small}
    if name != "A2C":
        usual |= {"batch_size": 16}
    if name in {"PPO", "MaskablePPO", "RecurrentPPO", "SBX"}:
        usual |= {"n_epochs": 2}
    if name != "SBX":
        usual |= {"device": "cpu"}
    return find(name)(policy, env, **(usual | settings))


def in_torch(model):
    """False for SBX."""
    return any(True for _ in model.policy.parameters())


def parameters(model):
    """All parameters of a model's policy in one array."""
    if in_torch(model):
        return torch.cat([x.detach().flatten() for x in model.policy.parameters()]).numpy()
    import jax

    leaves = jax.tree.leaves((model.policy.actor_state.params, model.policy.vf_state.params))
    return np.concatenate([np.ravel(x) for x in leaves])


class Witness(BaseCallback):
    """Values at time limits and at the end, and the buffer's arrays, of every rollout."""

    def __init__(self):
        super().__init__()
        self.rollouts, self.terminal, self.steps = [], [], 0

    def _on_training_start(self):
        self.spy(self.model)

    def spy(self, model):
        """Write down what the trainer's own critic says of states outside the buffer."""
        if in_torch(model):
            ask = model.policy.predict_values

            def predict_values(*args):
                values = ask(*args)
                self.terminal.append(values.detach().numpy().reshape(-1).copy())
                return values

            model.policy.predict_values = predict_values
        else:
            apply = model.vf.apply
            spy = self.terminal

            class Asked:
                @staticmethod
                def apply(params, obs):
                    values = apply(params, obs)
                    spy.append(np.asarray(values).reshape(-1).copy())
                    return values

            model.vf = Asked()

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        self.terminal.clear()

    def _on_rollout_end(self):
        buffer = self.model.rollout_buffer
        names = ("advantages", "returns", "values", "rewards")
        arrays = {name: vars(buffer)[name].copy() for name in names}
        self.rollouts.append(arrays | {"terminal": list(self.terminal)})
