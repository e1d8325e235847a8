"""Density ratio of recent to replayed states, learned in torch, for off-policy trainers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch.nn import functional

from gammaprime.agents.weightings import DensityRatio


class Ratio:
    """Network that learns a density ratio, and its optimiser.

    Making it does not touch the random numbers of the trainer.
    """

    def __init__(
        self,
        slot: DensityRatio,
        num_features: int,
        hidden: Sequence[int],
        seed: int,
        device: torch.device,
    ):
        self.slot = slot
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers: list[torch.nn.Module] = []
            for fan_in, fan_out in pairwise([num_features, *hidden]):
                layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
            layers.append(torch.nn.Linear([num_features, *hidden][-1], 1))
            self.network = torch.nn.Sequential(*layers).to(device)
            """Its output z gives the ratio, softplus(z)."""
        self.optimiser = torch.optim.Adam(self.network.parameters())
        self.numbers: dict[str, float] = {}
        """Loss and effective share of the last step, by the names under which they are logged."""

    def learn(
        self, recent: torch.Tensor, replayed: torch.Tensor, learning_rate: float
    ) -> torch.Tensor:
        """Take one step towards the ratio; return B·w̃ of ``replayed`` before that step.

        Shapes: recent (R, F), replayed (B, F) -> (B, 1).
        """
        count = len(recent)
        logs = log_softplus(self.network(torch.cat([recent, replayed])))
        loss = functional.softplus(-logs[:count]).mean() + functional.softplus(logs[count:]).mean()
        self.optimiser.param_groups[0]["lr"] = self.slot.learning_rate or learning_rate
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        tempered = self.slot.inverse_temperature * logs[count:].detach()
        weight = torch.exp(tempered - tempered.max())
        scale = weight / weight.mean()
        self.numbers = {
            "density_ratio/loss": loss.item(),
            "density_ratio/effective_share": 1.0 / (scale**2).mean().item(),
        }
        return scale


def log_softplus(z: torch.Tensor) -> torch.Tensor:
    """Return log softplus(z), which is z itself far below 0."""
    return torch.where(z < -15.0, z, functional.softplus(z.clamp(min=-15.0)).log())
