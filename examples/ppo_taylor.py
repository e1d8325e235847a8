"""PPO in one file, with an expansion towards γ' in the advantages and weights on the policy's term.

    python examples/ppo_taylor.py --env CartPole-v1 --steps 100000
    python examples/ppo_taylor.py --gamma 0.9 --gamma-prime 0.99 --order 3

Needs gammaprime, gymnasium and torch.  The lines marked with TAYLOR are all that is added to a
plain loop.  Time limits do not terminate: where a step was truncated, the value of the true
successor stands for the rest of the episode.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from gammaprime.agents import TaylorQ, TaylorWeight
from gammaprime.integrations.arrays import Ages, taylor_advantages, taylor_report


@dataclass
class Settings:
    """Everything that can be set on the command line."""

    env: str = "CartPole-v1"
    steps: int = 100_000
    seed: int = 0
    num_envs: int = 4
    num_steps: int = 256
    epochs: int = 10
    minibatches: int = 8
    learning_rate: float = 1e-3
    clip_eps: float = 0.2
    entropy_coef: float = 0.0
    gamma: float = 0.98
    lam: float = 0.95
    gamma_prime: float = 0.999
    order: float = 1  # 0 is the plain trainer, inf all orders
    weight_order: float = math.inf
    weight_gamma_prime: float = 1.0  # 1 with an infinite order: every step counts the same


class Agent(nn.Module):
    """Policy and critic of a task with a flat observation and discrete actions."""

    def __init__(self, num_inputs: int, num_actions: int):
        super().__init__()
        self.policy = network(num_inputs, num_actions, 0.01)
        self.critic = network(num_inputs, 1, 1.0)

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        return self.critic(obs).squeeze(-1)

    def act(self, obs: torch.Tensor) -> torch.distributions.Categorical:
        return torch.distributions.Categorical(logits=self.policy(obs))


def network(num_inputs: int, num_outputs: int, scale: float) -> nn.Sequential:
    layers = [nn.Linear(num_inputs, 64), nn.Linear(64, 64), nn.Linear(64, num_outputs)]
    for layer, gain in zip(layers, (math.sqrt(2), math.sqrt(2), scale), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def train(
    make_env: Callable[[], gym.Env], settings: Settings, report: Callable[[str], object] = print
) -> Agent:
    """Train an agent and return it."""
    s = settings
    torch.manual_seed(s.seed)
    # In the mode NEXT_STEP, the default, every episode has a row that belongs to no episode.
    same_step = gym.vector.AutoresetMode.SAME_STEP
    envs = gym.vector.SyncVectorEnv([make_env] * s.num_envs, autoreset_mode=same_step)
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.n)
    optimiser = torch.optim.Adam(agent.parameters(), lr=s.learning_rate, eps=1e-5)
    slot = TaylorQ(s.gamma_prime, s.order)  # TAYLOR
    weighting = TaylorWeight(s.weight_gamma_prime, s.weight_order)  # TAYLOR
    ages = Ages(s.num_envs)  # TAYLOR

    shape = s.num_steps, s.num_envs
    obs = torch.zeros(*shape, *envs.single_observation_space.shape)
    actions, log_probs, rewards, values = (torch.zeros(shape) for _ in range(4))
    dones, truncated, final_values = (torch.zeros(shape) for _ in range(3))
    age = np.zeros(shape, dtype=np.int64)  # TAYLOR
    next_obs = torch.as_tensor(envs.reset(seed=s.seed)[0], dtype=torch.float32)
    next_done = torch.ones(s.num_envs)
    finished, running = [], np.zeros(s.num_envs)

    for update in range(s.steps // (s.num_steps * s.num_envs)):
        for t in range(s.num_steps):
            obs[t], dones[t] = next_obs, next_done
            with torch.no_grad():
                distribution = agent.act(next_obs)
                action = distribution.sample()
                values[t], log_probs[t] = agent.value(next_obs), distribution.log_prob(action)
            seen, reward, died, late, infos = envs.step(action.numpy())
            actions[t], rewards[t] = action, torch.as_tensor(reward)
            cut = late & ~died  # where both are true, the episode is over for good
            truncated[t] = torch.as_tensor(cut)
            for i in np.flatnonzero(cut):
                final = torch.as_tensor(infos["final_obs"][i], dtype=torch.float32)
                with torch.no_grad():
                    final_values[t, i] = agent.value(final)
            next_obs = torch.as_tensor(seen, dtype=torch.float32)
            next_done = torch.as_tensor(died | late, dtype=torch.float32)
            age[t] = ages.advance(died | late)  # TAYLOR
            running += reward
            finished += [running[i] for i in np.flatnonzero(died | late)]
            running[died | late] = 0.0

        with torch.no_grad():
            next_value = agent.value(next_obs)
            ends = dones, next_value, next_done
            plain = gae(s, rewards + s.gamma * truncated * final_values, values, *ends)
            returns = plain + values  # the critic learns V at γ, with or without TAYLOR
            advantages = taylor_advantages(  # TAYLOR
                plain, values, *ends, s.gamma, slot, truncated=truncated, final_values=final_values
            )
            weights = torch.as_tensor(weighting.weights(age, s.gamma))  # TAYLOR
        batch = [x.flatten(0, 1) for x in (obs, actions, log_probs, advantages, returns, weights)]
        learn(agent, optimiser, batch, s)
        if update % 10 == 9 and finished:
            more = {"truncated": truncated, "weights": weights}
            numbers = taylor_report(  # TAYLOR
                plain, advantages, dones, next_done, s.gamma, slot, **more
            )
            numbers = {"return": np.mean(finished[-20:]), **numbers}
            steps = (update + 1) * s.num_steps * s.num_envs
            told = "  ".join(f"{name} {number:.3g}" for name, number in numbers.items())
            report(f"{steps:8d}  {told}")
    envs.close()
    return agent


def gae(s, rewards, values, dones, next_value, next_done) -> torch.Tensor:
    """Return GAE; the reward of a truncated row holds γV of its true successor already."""
    following_value = torch.cat([values[1:], next_value[None]])
    going = 1.0 - torch.cat([dones[1:], next_done[None]])
    errors = rewards + s.gamma * going * following_value - values
    advantages, last = torch.zeros_like(errors), torch.zeros_like(next_value)
    for t in reversed(range(len(errors))):
        advantages[t] = last = errors[t] + s.gamma * s.lam * going[t] * last
    return advantages


def learn(agent: Agent, optimiser: torch.optim.Optimizer, batch: list, s: Settings) -> None:
    """Take the epochs of PPO on one rollout."""
    for _ in range(s.epochs):
        for rows in torch.randperm(len(batch[0])).chunk(s.minibatches):
            obs, action, old_log_prob, advantage, target, weight = (x[rows] for x in batch)
            distribution = agent.act(obs)
            ratio = torch.exp(distribution.log_prob(action) - old_log_prob)
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            advantage = weight * advantage  # TAYLOR: after the standardisation
            near = ratio.clamp(1.0 - s.clip_eps, 1.0 + s.clip_eps)
            policy_loss = -torch.min(advantage * ratio, advantage * near).mean()
            critic_loss = 0.5 * (agent.value(obs) - target).square().mean()
            loss = policy_loss + critic_loss - s.entropy_coef * distribution.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in fields(Settings):
        kind = {"str": str, "int": int, "float": float}[field.type]
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    chosen = Settings(**vars(parser.parse_args()))
    train(lambda: gym.make(chosen.env), chosen)
