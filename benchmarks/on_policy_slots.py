"""Time that a Taylor slot without heads adds to an iteration of PPO.

All that a slot changes is the update.  So updates of one and the same rollout take turns, and
what they take more than the plain one is set against an iteration: whole iterations differ by
the noise of their physics, which is larger than the limit.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness import Measurement, Run
from benchmarks.on_policy import BATCH, GAMMA_PRIME, make_agent, make_loop, train

if TYPE_CHECKING:
    from gammaprime.agents import PPO

TASK = "HalfCheetah-v4"
PLAIN = "plain"
LIMIT = 1.03
LEARNED_LIMIT = 1.06
"""Limit of a slot that learns a network of its own."""
LEARNED = ("AveragedWeight(100)",)
WARM_ROLLOUTS = 4
ROUNDS = 7  # in each repetition; their median is one sample


def _scan(order: float) -> Callable[[Any], dict[str, Any]]:
    return lambda agents: {"advantage": agents.TaylorQ(GAMMA_PRIME, order)}


def _gradient(order: int) -> Callable[[Any], dict[str, Any]]:
    return lambda agents: {"advantage": agents.TaylorGradient(GAMMA_PRIME, order)}


SLOTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "TaylorQ(1), window of 10": lambda agents: {"advantage": agents.TaylorQ.paper(GAMMA_PRIME)},
    "TaylorQ(1), centred": _scan(1),
    "TaylorQ(5), centred": _scan(5),
    "TaylorQ(inf), centred": _scan(math.inf),
    "TaylorGradient(1)": _gradient(1),
    "TaylorGradient(5)": _gradient(5),
    "TaylorWeight(100)": lambda agents: {"weighting": agents.TaylorWeight(GAMMA_PRIME, 100)},
    "AveragedWeight(100)": lambda agents: {"weighting": agents.AveragedWeight(GAMMA_PRIME, 100)},
}


class Times(NamedTuple):
    """Seconds of one round."""

    iteration: float
    updates: Mapping[str, float]


def relative_iterations(rounds: Sequence[Times]) -> dict[str, float]:
    """An iteration with each slot in units of a plain one; medians over rounds."""
    return {
        f"{name} / {PLAIN}": statistics.median(
            1.0 + (updates[name] - updates[PLAIN]) / iteration for iteration, updates in rounds
        )
        for name in rounds[0].updates
        if name != PLAIN
    }


def measure_slots(num_envs: int) -> Callable[[], dict[str, float]]:
    iterate = train(make_agent(num_envs), TASK, WARM_ROLLOUTS, timed=1)
    updates = make_updates(num_envs)
    for run in (iterate, *updates.values()):
        run()

    def measure() -> dict[str, float]:
        return relative_iterations(
            [
                Times(_seconds(iterate), {name: _seconds(run) for name, run in updates.items()})
                for _ in range(ROUNDS)
            ]
        )

    return measure


def make_updates(num_envs: int) -> dict[str, Run]:
    """Every agent's update from the same state on the same rollout, as the loop calls it."""
    import jax

    from gammaprime import agents
    from gammaprime.loops.rollout import collect

    plain = make_agent(num_envs)
    loop = make_loop(plain, TASK, WARM_ROLLOUTS)
    rollout, *_ = collect(
        loop.env, plain.actor(loop.state), loop.obs, plain.num_steps, loop.rng, loop.returns, 0
    )

    def update(agent: PPO) -> Run:
        own = agent.init(jax.random.key(0), loop.policy, loop.obs.shape[-1])
        state = loop.state._replace(weighting=own.weighting)

        def run() -> dict[str, float]:
            _, metrics = agent.update(state, loop.policy, rollout, loop.generator(0), 0.5)
            return {name: float(value) for name, value in metrics.items()}

        return run

    variants = {name: make_agent(num_envs, **slots(agents)) for name, slots in SLOTS.items()}
    return {name: update(agent) for name, agent in ({PLAIN: plain} | variants).items()}


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _measurement(num_envs: int) -> Measurement:
    shape = f"{num_envs}x{BATCH // num_envs}"
    return Measurement(
        f"on-policy-slots-{shape}",
        f"a Taylor slot without heads adds at most 3 % to an iteration of PPO at {shape}, "
        "one with a network of its own 6 %",
        lambda: measure_slots(num_envs),
        {f"{name} / {PLAIN}": LEARNED_LIMIT if name in LEARNED else LIMIT for name in SLOTS},
    )


CONTESTS = (_measurement(1), _measurement(16))
