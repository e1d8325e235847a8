"""The sampled room: what an order costs in units of GAE, and GAE against its peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness import Contender, Contest, Limit, Run

if TYPE_CHECKING:
    import numpy as np

GAMMA, GAMMA_PRIME, LAM = 0.99, 0.999, 0.95
SHAPES = ((2048, 16), (128, 1024))
ORDERS = (1, 2, 5, 10)
AGREE = 1e-3  # float32, sums of hundreds of terms of size one

Shape = tuple[int, int]
Function = Callable[..., Any]


class Backend(NamedTuple):
    """How arrays come in, and how a function is made ready and waited for."""

    as_array: Function
    prepared: Callable[[Function], Function]


def numpy_backend() -> Backend:
    import numpy as np

    return Backend(np.asarray, lambda function: function)


def jax_backend() -> Backend:
    import jax

    def prepared(function: Function) -> Function:
        compiled = jax.jit(function)
        return lambda *arrays: jax.block_until_ready(compiled(*arrays))

    return Backend(jax.numpy.asarray, prepared)


def torch_backend() -> Backend:
    import torch

    return Backend(torch.from_numpy, lambda function: function)


def gae(backend: Callable[[], Backend], shape: Shape) -> Run:
    from gammaprime import estimators

    as_array, prepared = backend()
    reward, values, terminated, truncated = map(as_array, rollout(shape))
    value, next_value = values[:-1], values[1:]
    advantage = prepared(lambda *arrays: estimators.gae(*arrays, GAMMA, LAM))
    return lambda: advantage(reward, value, next_value, terminated, truncated)


def expand(backend: Callable[[], Backend], shape: Shape, order: float) -> Run:
    from gammaprime import estimators

    as_array, prepared = backend()
    _, values, terminated, truncated = map(as_array, rollout(shape))
    base, next_value = values[:-1], values[1:]
    expanded = prepared(lambda *arrays: estimators.expand(*arrays, GAMMA, GAMMA_PRIME, order))
    return lambda: expanded(base, next_value, terminated, truncated)


def rollout_buffer(shape: Shape) -> Run:
    """Stable-Baselines3's own loop over its own buffer, filled with our rollout."""
    import torch
    from gymnasium.spaces import Box
    from stable_baselines3.common.buffers import RolloutBuffer

    reward, values, terminated, _ = rollout(shape)
    num_steps, num_rows = shape
    space = Box(-1.0, 1.0, (1,))
    buffer = RolloutBuffer(
        num_steps, space, space, "cpu", gae_lambda=LAM, gamma=GAMMA, n_envs=num_rows
    )
    buffer.rewards[:] = reward
    buffer.values[:] = values[:-1]
    buffer.episode_starts[1:] = terminated[:-1]
    last_value = torch.from_numpy(values[-1])

    def advantage() -> np.ndarray:
        buffer.compute_returns_and_advantage(last_value, terminated[-1])
        return buffer.advantages

    return advantage


def rlax_gae_ready(shape: Shape) -> Run:
    """rlax alone, its discounts made beforehand and not timed: work that ours includes."""
    import jax

    reward, values, terminated, _ = map(jax.numpy.asarray, rollout(shape))
    discount = GAMMA * (1.0 - terminated)
    compiled = jax.jit(_rlax_columns())
    return lambda: jax.block_until_ready(compiled(reward, discount, values))


def rlax_gae(shape: Shape) -> Run:
    """rlax in an update, which is given the same flags as ours."""
    import jax

    reward, values, terminated, _ = map(jax.numpy.asarray, rollout(shape))
    columns = _rlax_columns()
    compiled = jax.jit(lambda r, ends, v: columns(r, GAMMA * (1.0 - ends), v))
    return lambda: jax.block_until_ready(compiled(reward, terminated, values))


def _rlax_columns() -> Function:
    """rlax knows one sequence at a time, so it is mapped over the columns."""
    import jax
    import rlax

    estimate = jax.vmap(rlax.truncated_generalized_advantage_estimation, (1, 1, None, 1), 1)
    return lambda reward, discount, values: estimate(reward, discount, LAM, values)


def rollout(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rewards, values of all T + 1 states, terminated, truncated.

    Nothing is truncated before the last row: the peers have no field for the true successor.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    num_steps, num_rows = shape
    reward = rng.normal(size=shape).astype(np.float32)
    values = rng.normal(size=(num_steps + 1, num_rows)).astype(np.float32)
    return reward, values, rng.random(shape) < 0.01, np.zeros(shape, dtype=bool)


def _contest(
    library: str, backend: Callable[[], Backend], shape: Shape, peers: dict[Contender, float]
) -> Contest:
    """Ours against itself, and against peers that each have their own limit."""
    orders = [
        Contender(f"expand({order})", lambda order=order: expand(backend, shape, order))
        for order in (*ORDERS, math.inf)
    ]
    claim = "order K costs at most K + 2 times GAE, order infinity twice"
    return Contest(
        f"estimators-{library}-{shape[0]}x{shape[1]}",
        "; ".join([claim, *(f"GAE at most {x} times {peer.name}" for peer, x in peers.items())]),
        (Contender("gae", lambda: gae(backend, shape)), *peers, *orders),
        (
            *(Limit("gae", peer.name, ratio, AGREE) for peer, ratio in peers.items()),
            *(Limit(f"expand({order})", "gae", order + 2.0) for order in ORDERS),
            Limit("expand(inf)", "gae", 2.0),
        ),
    )


def _contests(shape: Shape) -> tuple[Contest, ...]:
    buffer = {Contender("RolloutBuffer", lambda: rollout_buffer(shape)): 1.0}
    rlax = {
        Contender("rlax", lambda: rlax_gae(shape)): 1.0,
        Contender("rlax, discounts ready", lambda: rlax_gae_ready(shape)): 1.0,
    }
    return (
        _contest("numpy", numpy_backend, shape, buffer),
        _contest("jax", jax_backend, shape, rlax),
        _contest("torch", torch_backend, shape, {}),
    )


CONTESTS = tuple(contest for shape in SHAPES for contest in _contests(shape))
