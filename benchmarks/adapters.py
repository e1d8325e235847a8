"""What an adapter adds to an iteration of somebody else's trainer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.harness import Measurement, Run

LIMIT = 1.05
ROUNDS = 2  # in each repetition; the least of each contender's times is one sample
EPOCHS = 4  # of PPO in TorchRL, where the usual ten would only make the trainer's share larger
TASK = "Pendulum-v1"


def measure_sb3(num_envs: int, num_steps: int) -> Callable[[], dict[str, float]]:
    """Iterations of Stable-Baselines3's PPO with its default settings, taking turns."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from gammaprime.agents import TaylorQ, TaylorWeight
    from gammaprime.integrations.sb3 import Taylor

    torch.set_num_threads(1)
    callbacks = {
        "plain": None,
        "order 1": Taylor(TaylorQ(0.999, order=1)),
        "order inf": Taylor(TaylorQ(0.999, order=math.inf)),
        "order 1 and weights": Taylor(TaylorQ(0.999, order=1), TaylorWeight(0.999, 10)),
    }
    models = {
        name: PPO("MlpPolicy", make_vec_env(TASK, num_envs, seed=0), n_steps=num_steps, seed=0)
        for name in callbacks
    }
    return take_turns(
        {
            name: lambda name=name: models[name].learn(num_envs * num_steps, callbacks[name])
            for name in callbacks
        }
    )


def measure_torchrl(num_envs: int, num_steps: int) -> Callable[[], dict[str, float]]:
    """Iterations of PPO in TorchRL, written as in its tutorial with fewer epochs, taking turns."""
    import torch
    from torchrl.objectives.value import GAE

    from gammaprime.agents import TaylorQ, TaylorWeight
    from gammaprime.integrations.torchrl import TaylorGAE

    torch.set_num_threads(1)
    last = TaylorQ(0.999, order=math.inf), TaylorWeight(0.999, 10)
    estimators = {
        "plain": GAE,
        "order 1": partial(TaylorGAE, TaylorQ(0.999, order=1)),
        "order inf and weights": partial(TaylorGAE, *last),
    }
    return take_turns(
        {name: iterate_torchrl(kind, num_envs, num_steps) for name, kind in estimators.items()}
    )


def iterate_torchrl(estimator: Callable[..., Any], num_envs: int, num_steps: int) -> Run:
    """Return one iteration of PPO with an estimator of advantages."""
    import torch
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
    from torchrl.objectives import ClipPPOLoss

    env, actor, critic = make_torchrl(num_envs)
    advantages = estimator(value_network=critic, gamma=0.99, lmbda=0.95, average_gae=True)
    loss = ClipPPOLoss(actor, critic)
    optimiser = torch.optim.Adam(loss.parameters(), 3e-4)
    frames = num_envs * num_steps
    data = iter(Collector(env, actor, frames_per_batch=frames, total_frames=-1))
    sampler = SamplerWithoutReplacement()
    buffer = ReplayBuffer(storage=LazyTensorStorage(frames), sampler=sampler, batch_size=64)

    def iterate() -> None:
        batch = next(data)
        advantages(batch)
        for _ in range(EPOCHS):
            buffer.empty()
            buffer.extend(batch.reshape(-1))
            for _ in range(frames // 64):
                losses = loss(buffer.sample())
                total = sum(x for name, x in losses.items() if name.startswith("loss_"))
                optimiser.zero_grad()
                total.backward()
                optimiser.step()

    return iterate


def make_torchrl(num_envs: int) -> tuple[Any, Any, Any]:
    """Return environments, an actor and a critic."""
    import torch
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.envs import GymEnv, SerialEnv, StepCounter, TransformedEnv
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator

    def mlp(outputs: int, *last: torch.nn.Module) -> torch.nn.Module:
        tanh, linear = torch.nn.Tanh, torch.nn.Linear
        hidden = (linear(3, 64), tanh(), linear(64, 64), tanh())
        return torch.nn.Sequential(*hidden, linear(64, outputs), *last)

    env = TransformedEnv(SerialEnv(num_envs, lambda: GymEnv(TASK)), StepCounter())
    keys = ["loc", "scale"]
    module = TensorDictModule(
        mlp(2, NormalParamExtractor()), in_keys=["observation"], out_keys=keys
    )
    actor = ProbabilisticActor(
        module,
        in_keys=keys,
        distribution_class=TanhNormal,
        spec=env.action_spec,
        return_log_prob=True,
    )
    return env, actor, ValueOperator(mlp(1), in_keys=["observation"])


def measure_density_ratio(steps: int = 1_000) -> Callable[[], dict[str, float]]:
    """Updates of SB3's SAC, plain, with a ratio, and the ratio's own passes by themselves."""
    import torch
    from stable_baselines3 import SAC

    from gammaprime.agents import weightings
    from gammaprime.integrations.ratios import Ratio
    from gammaprime.integrations.sb3 import DensityRatio

    torch.set_num_threads(1)
    settings = {"learning_starts": 300, "gradient_steps": 0, "seed": 0}
    callbacks = {"plain": None, "ratio": DensityRatio(recent_size=500)}
    models = {}
    for name, callback in callbacks.items():
        models[name] = SAC("MlpPolicy", TASK, **settings)
        models[name].learn(steps, callback)
    callbacks["ratio"]._on_training_start()  # the hooks that learn() takes away
    alone = Ratio(weightings.DensityRatio(), 3, (256, 256), 0, torch.device("cpu"))
    recent, replayed = torch.randn(2, 256, 3)

    def own_passes() -> None:
        for _ in range(50):
            alone.learn(recent, replayed, 3e-4)

    runs = {name: lambda model=model: model.train(50, 256) for name, model in models.items()}
    clock = take_turns(runs | {"own passes": own_passes}, ratios=False)

    def measure() -> dict[str, float]:
        rounds = clock()
        return {
            "ratio / (plain + own passes)": rounds["ratio"]
            / (rounds["plain"] + rounds["own passes"])
        }

    return measure


def take_turns(runs: dict[str, Run], ratios: bool = True) -> Callable[[], dict[str, float]]:
    """Return the least times over rounds, or their ratios to that of "plain".

    An iteration does the same work every time, so that what others do on the machine can only
    lengthen it.
    """

    def clock(run: Run) -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    for run in runs.values():
        clock(run)

    def measure() -> dict[str, float]:
        rounds = [{name: clock(run) for name, run in runs.items()} for _ in range(ROUNDS)]
        least = {name: min(row[name] for row in rounds) for name in runs}
        if not ratios:
            return least
        others = [name for name in runs if name != "plain"]
        return {f"{name} / plain": least[name] / least["plain"] for name in others}

    return measure


CONTESTS = (
    *(
        Measurement(
            name=f"adapters-sb3-{num_envs}x{num_steps}",
            claim="With Taylor, an iteration of SB3's PPO takes at most 5 % longer.",
            setup=partial(measure_sb3, num_envs, num_steps),
            limits={
                "order 1 / plain": LIMIT,
                "order inf / plain": LIMIT,
                "order 1 and weights / plain": LIMIT,
            },
        )
        for num_envs, num_steps in ((8, 256), (1, 2048))
    ),
    Measurement(
        name="adapters-torchrl-8x256",
        claim=f"With TaylorGAE, PPO in TorchRL ({EPOCHS} epochs) takes at most 5 % longer.",
        setup=partial(measure_torchrl, 8, 256),
        limits={"order 1 / plain": LIMIT, "order inf and weights / plain": LIMIT},
    ),
    Measurement(
        name="adapters-sb3-density-ratio",
        claim="An update of SB3's SAC with DensityRatio takes that of SAC and the ratio's passes.",
        setup=measure_density_ratio,
        limits={"ratio / (plain + own passes)": LIMIT},
    ),
)
