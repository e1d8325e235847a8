"""`Ends` as a vector environment of Stable-Baselines3, and a wrapper that writes down its steps."""

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper

from integrations.tasks import Ends


def make_ends(num_envs=3, vec_env=DummyVecEnv, **settings):
    return vec_env([lambda i=i: Ends(seed=i, **settings) for i in range(num_envs)])


class Recorder(VecEnvWrapper):
    """Rewards and infos of every step, as the trainer receives them and before it edits them."""

    def __init__(self, venv):
        super().__init__(venv)
        self.steps = []

    def reset(self):
        return self.venv.reset()

    def step_wait(self):
        obs, rewards, dones, infos = self.venv.step_wait()
        self.steps.append((np.array(rewards, np.float64), [info.get("truth") for info in infos]))
        return obs, rewards, dones, infos
