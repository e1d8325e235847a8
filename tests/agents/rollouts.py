"""What to learn from: rollouts of a finite MDP, or made up with every end; a frozen batch."""

import jax
import jax.numpy as jnp
import numpy as np

from gammaprime.agents import PPO, TaylorCritic
from gammaprime.agents.advantages import Experience
from gammaprime.agents.on_policy import Batch
from gammaprime.networks import Gaussian, evaluate_policy
from gammaprime.types import Trajectory

POLICY = Gaussian(2, -0.5)


def play(env, actor, num_steps, rng, obs):
    """The actor in the environment; the trajectory and what to act on next."""
    rows = []
    for _ in range(num_steps):
        action = actor.sample(obs, rng)
        seen = env.step(action)
        rows.append((obs, seen.next_obs, action, *seen[1:5]))
        obs = seen.obs
    return Trajectory(*(np.stack(column) for column in zip(*rows, strict=True))), obs


def made_up(rng, num_steps=16, num_envs=2, num_inputs=3, num_actions=2):
    """Noise with a termination, a truncation, and both at once; the last row is cut."""
    terminated, truncated = (np.zeros((num_steps, num_envs), bool) for _ in range(2))
    terminated[3, 0] = truncated[7, 1] = terminated[10, 0] = truncated[10, 0] = True
    step = np.zeros((num_steps, num_envs), int)
    for t in range(1, num_steps):
        step[t] = np.where(terminated[t - 1] | truncated[t - 1], 0, step[t - 1] + 1)
    obs, next_obs = rng.normal(size=(2, num_steps, num_envs, num_inputs))
    action = rng.normal(size=(num_steps, num_envs, num_actions)).astype(np.float32)
    reward = rng.normal(size=(num_steps, num_envs))
    return Trajectory(obs, next_obs, action, reward, terminated, truncated, step)


def made_up_experience(rng, num_heads, rollout=None):
    """The same under a critic of so many heads that knows nothing."""
    rollout = rollout or made_up(rng)
    values, next_values = rng.normal(size=(2, num_heads, *rollout.reward.shape)).astype(np.float32)
    reward = rollout.reward.astype(np.float32)
    ends = rollout.terminated, rollout.truncated
    return Experience(reward, values, next_values, *ends, rollout.step)


def frozen_batch(rng, num_heads, size=32):
    """A policy that has moved since it acted, and its batch."""
    agent = PPO(hidden=(5,), advantage=TaylorCritic(order=num_heads - 1))
    params = agent.init(jax.random.key(0), POLICY, 3).params
    params = jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape), params)
    params = jax.tree.map(lambda x: x.astype(jnp.float32), params)
    heads = rng.normal(size=(2, size, num_heads))
    obs, action = rng.normal(size=(size, 3)), rng.normal(size=(size, 2))
    weight = rng.uniform(0, 2, size)
    log_prob = POLICY.log_prob(evaluate_policy(params.policy, obs), action)
    old_log_prob = log_prob + 0.3 * rng.normal(size=size)
    batch = Batch(obs, action, rng.normal(size=size), weight, *heads, old_log_prob)
    return params, jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), batch)
