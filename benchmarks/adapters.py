"""What an adapter adds to an iteration of somebody else's trainer.

An adapter does its work in methods of its own, which the trainer calls.  The time spent in them is
set against the rest of the same iteration: the two share whatever else happens on the machine,
which would hide a difference of 5 % between two iterations.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.harness import Measurement, Run

LIMIT = 1.05
EPOCHS = 4  # of PPO in TorchRL, where the usual ten would only make the trainer's share larger
TASK = "Pendulum-v1"


class Stopwatch:
    """Seconds spent in methods of some objects; a call inside another counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = False

    def watch(self, thing: Any, *names: str) -> None:
        """Count the time in these methods of one object."""
        for name in names:
            setattr(thing, name, self._timed(getattr(thing, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return method(*args, **kwargs)
            self._running = True
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start
                self._running = False

        return timed


def measure_share(
    runs: Mapping[str, tuple[Run, Callable[[], float]]],
) -> Callable[[], dict[str, float]]:
    """Return, for each run, its time over its time without the adapter.

    runs: by quantity, what is run, and the seconds that its adapter has taken so far.
    """
    for run, _ in runs.values():
        run()  # warm up

    def share(run: Run, taken: Callable[[], float]) -> float:
        before, start = taken(), time.perf_counter()
        run()
        total = time.perf_counter() - start
        return total / (total - (taken() - before))

    return lambda: {quantity: share(*pair) for quantity, pair in runs.items()}


def measure_sb3(num_envs: int, num_steps: int) -> Callable[[], dict[str, float]]:
    """Iterations of Stable-Baselines3's PPO with its default settings."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from gammaprime.agents import TaylorQ, TaylorWeight
    from gammaprime.integrations.sb3 import Taylor

    torch.set_num_threads(1)
    callbacks = {
        "order 1": Taylor(TaylorQ(0.999, order=1)),
        "order inf": Taylor(TaylorQ(0.999, order=math.inf)),
        "order 1 and weights": Taylor(TaylorQ(0.999, order=1), TaylorWeight(0.999, 10)),
    }

    def make(callback: Taylor) -> tuple[Run, Callable[[], float]]:
        own = Stopwatch()
        own.watch(callback, "init_callback", "on_training_start", "on_training_end")
        own.watch(callback, "on_rollout_start", "on_step", "receive", "weigh")
        env = make_vec_env(TASK, num_envs, seed=0)
        model = PPO("MlpPolicy", env, n_steps=num_steps, seed=0)
        return lambda: model.learn(num_envs * num_steps, callback), lambda: own.seconds

    return measure_share({f"{name} / plain": make(each) for name, each in callbacks.items()})


def measure_torchrl(num_envs: int, num_steps: int) -> Callable[[], dict[str, float]]:
    """Iterations of PPO in TorchRL, written as in its tutorial with fewer epochs."""
    import torch

    from gammaprime.agents import TaylorQ, TaylorWeight
    from gammaprime.integrations.torchrl import TaylorGAE

    torch.set_num_threads(1)
    slots = {
        "order 1": (TaylorQ(0.999, order=1),),
        "order inf and weights": (TaylorQ(0.999, order=math.inf), TaylorWeight(0.999, 10)),
    }

    def make(*slots: Any) -> tuple[Run, Callable[[], float]]:
        own = Stopwatch()

        def estimator(**settings: Any) -> TaylorGAE:
            made = TaylorGAE(*slots, **settings)
            own.watch(made, "_read_ages", "_expand")
            own.watch(made.slots, "check", "weigh")
            return made

        return iterate_torchrl(estimator, num_envs, num_steps), lambda: own.seconds

    return measure_share({f"{name} / plain": make(*each) for name, each in slots.items()})


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
    """Updates of SB3's SAC with a ratio, against the same less what is no pass of the ratio."""
    import torch
    from stable_baselines3 import SAC

    from gammaprime.integrations.sb3 import DensityRatio

    torch.set_num_threads(1)
    own, passes = Stopwatch(), Stopwatch()
    callback = DensityRatio(recent_size=500)
    own.watch(callback, "_see_features", "_scale_gradient")
    model = SAC("MlpPolicy", TASK, learning_starts=300, gradient_steps=0, seed=0)
    model.learn(steps, callback)
    callback._on_training_start()  # the hooks that learn() takes away
    passes.watch(callback.ratio, "learn")
    quantity = "ratio / (plain + own passes)"
    taken = lambda: own.seconds - passes.seconds  # noqa: E731
    return measure_share({quantity: (lambda: model.train(50, 256), taken)})


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
