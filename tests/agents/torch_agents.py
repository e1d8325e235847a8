"""TD3 and SAC with density-ratio weights a second time: torch, its autograd and its Adam.

Written from the papers' formulas in the plainest way, to be compared with.
"""

import jax
import numpy as np
import torch
from torch import nn

GAMMA = 0.9


def tensors(tree):
    """The same numbers as leaves of torch's graph, in double precision."""
    return jax.tree.map(lambda x: torch.tensor(np.asarray(x, np.float64), requires_grad=True), tree)


def leaves(tree):
    return jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, torch.Tensor))


def mlp(network, x):
    for layer in network[:-1]:
        x = torch.relu(x @ layer.weight + layer.bias)
    return x @ network[-1].weight + network[-1].bias


def q(critic, obs, action):
    return mlp(critic, torch.cat([obs, action], dim=1)).squeeze(1)


class Burst:
    """What an agent has learned, in torch, and the steps of an update."""

    def __init__(self, agent, learned):
        self.agent = agent
        self.policy, self.critics = tensors(learned.policy.params), tensors(learned.critics.params)
        self.target_critics = tensors(learned.target_critics)
        self.ratio = tensors(learned.ratio.params) if learned.ratio else None
        trained = [self.policy, self.critics] + ([self.ratio] if self.ratio else [])
        self.adams = [torch.optim.Adam(leaves(x), lr=agent.learning_rate) for x in trained]

    def step(self, index, loss):
        self.adams[index].zero_grad()
        loss.backward()
        self.adams[index].step()

    def follow(self, target, params):
        with torch.no_grad():
            for old, new in zip(leaves(target), leaves(params), strict=True):
                old.mul_(self.agent.polyak).add_((1 - self.agent.polyak) * new)

    def learn_critics(self, batch, next_value):
        going = torch.where(batch["terminated"], 0.0, 1.0)
        target = (batch["reward"] + GAMMA * going * next_value).detach()
        values = [q(critic, batch["obs"], batch["action"]) for critic in self.critics]
        self.step(1, sum(nn.functional.mse_loss(value, target) for value in values))

    def learn_ratio(self, batch, recent):
        """A classifier whose ones are recent states; weights of the batch, from before its step."""
        gamma_prime = self.agent.weighting.gamma_prime
        losses = []
        for sample, label in ((recent, 1.0), (batch, 0.0)):
            w = nn.functional.softplus(mlp(self.ratio, sample["obs"]).squeeze(1))
            chance = w / (1.0 + w)
            loss = nn.functional.binary_cross_entropy(
                chance, torch.full_like(chance, label), reduction="none"
            )
            weight = gamma_prime ** sample["step"].double()
            losses.append((weight * loss).sum() / weight.sum())
        powered = w.detach() ** self.agent.weighting.inverse_temperature
        self.step(2, sum(losses))
        return powered / powered.sum()


class TorchTD3(Burst):
    def __init__(self, agent, learned):
        super().__init__(agent, learned)
        self.target_policy = tensors(learned.target_policy)

    def update(self, batch, recent, noises, number):
        jitter = (self.agent.target_noise * noises[0]).clamp(
            -self.agent.noise_clip, self.agent.noise_clip
        )
        next_action = (torch.tanh(mlp(self.target_policy, batch["next_obs"])) + jitter).clamp(-1, 1)
        next_values = [q(c, batch["next_obs"], next_action) for c in self.target_critics]
        self.learn_critics(batch, torch.stack(next_values).min(dim=0).values)
        weight = torch.full_like(batch["reward"], 1.0 / len(batch["reward"]))
        policy_turn = (number + 1) % self.agent.policy_delay == 0
        if recent is not None and (policy_turn or self.agent.weighting.every == "update"):
            weight = self.learn_ratio(batch, recent)
        if not policy_turn:
            return
        action = torch.tanh(mlp(self.policy, batch["obs"]))
        value = q(self.critics[0], batch["obs"], action)
        self.step(0, -(weight * value).sum())
        self.follow(self.target_policy, self.policy)
        self.follow(self.target_critics, self.critics)


class TorchSAC(Burst):
    def __init__(self, agent, learned):
        super().__init__(agent, learned)
        self.log_coef = tensors(learned.log_entropy_coef.params)
        self.coef_adam = torch.optim.Adam([self.log_coef], lr=agent.learning_rate)

    def draw(self, obs, noise):
        network, std_network = self.policy
        if std_network is None:
            mean, log_std = mlp(network, obs).chunk(2, dim=1)
        else:
            mean, log_std = mlp(network, obs), mlp(std_network, obs)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        squashed = torch.distributions.TransformedDistribution(
            normal, torch.distributions.TanhTransform(cache_size=1)
        )
        action = torch.tanh(normal.loc + normal.scale * noise)
        return action, squashed.log_prob(action).sum(dim=1)

    def update(self, batch, recent, noises, number):
        coef = self.log_coef.exp().detach()
        next_action, next_log_prob = self.draw(batch["next_obs"], noises[0])
        next_values = [q(c, batch["next_obs"], next_action) for c in self.target_critics]
        self.learn_critics(batch, torch.stack(next_values).min(dim=0).values - coef * next_log_prob)
        weight = torch.full_like(batch["reward"], 1.0 / len(batch["reward"]))
        if recent is not None:
            weight = self.learn_ratio(batch, recent)
        action, log_prob = self.draw(batch["obs"], noises[1])
        value = torch.stack([q(c, batch["obs"], action) for c in self.critics]).min(dim=0).values
        self.step(0, (weight * (coef * log_prob - value)).sum())
        self.follow(self.target_critics, self.critics)
        self.coef_adam.zero_grad()
        entropy_gap = (log_prob.detach() - action.shape[1]).mean()
        (-self.log_coef * entropy_gap).backward()
        self.coef_adam.step()
