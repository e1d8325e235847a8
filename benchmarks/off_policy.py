"""Off-policy training on HalfCheetah-v4: against the peers, and against its own matrix products.

Fifty steps, then fifty updates with batches of 100 on 256x256 ReLU networks, on one core and one
thread, ours and theirs.  SAC's entropy coefficient is fixed at 0.2 for all: tuning it would be work
that ours does not do by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Contender, Contest, Limit, Run

if TYPE_CHECKING:
    from gammaprime.agents.off_policy import OffPolicy
    from gammaprime.loops.off_policy_loop import OffPolicyLoop

TASK = "HalfCheetah-v4"
BURST = 50
BURSTS = 4
WARM_STEPS = 500
SPEED_UPS = {"TD3": {"SBX": 1.2, "SB3": 2.3}, "SAC": {"SBX": 1.3, "SB3": 2.8}}
PRODUCTS_SHARE = 0.75
RATIO_LIMITS = {"update": 1.70, "policy_update": 1.35}
RECENT = 200
"""Latest states of the ratio's contest: small, so that the replay outgrows them at once."""
SETTINGS = {
    "batch_size": 100,
    "train_freq": BURST,
    "gradient_steps": BURST,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "tau": 0.005,
    "buffer_size": 1_000_000,
    "learning_starts": 100,
    "policy_kwargs": {"net_arch": [256, 256]},
    "device": "cpu",
}
OF_ALGORITHM: dict[str, dict[str, Any]] = {"TD3": {}, "SAC": {"ent_coef": 0.2}}


def make_loop(agent: OffPolicy) -> OffPolicyLoop:
    """A run as `gammaprime train` sets it up, without evaluations and files, that has begun."""
    from gammaprime import envs
    from gammaprime.loops.off_policy_loop import OffPolicyLoop

    loop = OffPolicyLoop(agent, envs.make(TASK, 1), 1_000_000, seed=0, gamma_prime=0.999)
    while loop.steps < WARM_STEPS:
        loop.advance()
    return loop


def ours(name: str) -> Run:
    from gammaprime import agents

    kinds = {"TD3": agents.TD3, "SAC": agents.SAC}
    loop = make_loop(kinds[name](random_steps=100, learning_starts=100))

    def run() -> None:
        for _ in range(BURSTS):
            loop.advance()

    return run


def stable_baselines(name: str) -> Run:
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    return bursts({"TD3": stable_baselines3.TD3, "SAC": stable_baselines3.SAC}[name], name)


def sbx(name: str) -> Run:
    import sbx

    return bursts({"TD3": sbx.TD3, "SAC": sbx.SAC}[name], name)


def bursts(algorithm: Callable[..., Any], name: str) -> Run:
    """So many steps of a peer for each call; it has begun, and compiled what it compiles."""
    import gymnasium
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = DummyVecEnv([lambda: gymnasium.make(TASK, disable_env_checker=True)])
    options = SETTINGS | OF_ALGORITHM[name]
    if name == "TD3":
        size = env.action_space.shape[0]
        options["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, 0.1))
    model = algorithm("MlpPolicy", env, **options)
    model.learn(WARM_STEPS, log_interval=None)
    return lambda: model.learn(BURST * BURSTS, log_interval=None, reset_num_timesteps=False)


def updates(every: str | None = None) -> Run:
    """The updates of a TD3 burst, always the same; ``every``: how often a ratio is trained."""
    import jax

    from gammaprime.agents import TD3, DensityRatio, Uniform

    weighting = Uniform() if every is None else DensityRatio(recent_size=RECENT, every=every)
    loop = make_loop(TD3(random_steps=100, learning_starts=100, weighting=weighting))
    drawn, key = loop.draw(0), jax.random.key(0)
    return lambda: jax.block_until_ready(loop.agent.update(loop.state, *drawn, key))


Product = tuple[tuple[int, int], tuple[int, int], tuple[tuple[int], tuple[int]]]
"""Shapes of the two factors, and the axes they are summed over."""


def products_of_td3(num_inputs: int, num_actions: int, batch: int, width: int) -> list[Product]:
    """Every matrix product of two critic updates and the policy update that follows them."""
    policy = [(num_inputs, width), (width, width), (width, num_actions)]
    critic = [(num_inputs + num_actions, width), (width, width), (width, 1)]

    def forward(layers: list[tuple[int, int]]) -> Iterator[Product]:
        yield from (((batch, m), (m, n), ((1,), (0,))) for m, n in layers)

    def to_weights(layers: list[tuple[int, int]]) -> Iterator[Product]:
        yield from (((batch, m), (batch, n), ((0,), (0,))) for m, n in layers)

    def to_inputs(layers: list[tuple[int, int]]) -> Iterator[Product]:
        yield from (((batch, n), (m, n), ((1,), (1,))) for m, n in layers)

    found: list[Product] = []
    for _ in range(2):
        found += forward(policy)  # the target's action
        for _ in range(2):  # critics
            found += [*forward(critic), *forward(critic)]  # the target's and the learner's
            found += [*to_weights(critic), *to_inputs(critic[1:])]
    found += [*forward(policy), *to_weights(policy), *to_inputs(policy[1:])]
    return [*found, *forward(critic), *to_inputs(critic)]


def products() -> Run:
    """The products of a burst, each with a right factor of its own, and nothing else."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    wanted = products_of_td3(num_inputs=17, num_actions=6, batch=100, width=256)
    rng = np.random.default_rng(0)
    shapes = {left for left, _, _ in wanted}
    lefts = {s: rng.normal(size=(BURST // 2, *s)).astype(np.float32) for s in sorted(shapes)}
    rights = [jnp.asarray(rng.normal(size=right), jnp.float32) for _, right, _ in wanted]

    def multiply(left: Any, right: Any, axes: Any) -> Any:
        return jax.lax.dot_general(left, right, (axes, ((), ())))

    @jax.jit
    def run(lefts: Any, rights: Any) -> Any:
        def body(_: Any, left: Any) -> Any:
            pairs = zip(wanted, rights, strict=True)
            return [multiply(left[shape], right, axes) for (shape, _, axes), right in pairs], None

        first = jax.tree.map(lambda x: x[0], lefts)
        start = [jnp.zeros_like(x) for x in body(None, first)[0]]
        return jax.lax.scan(body, start, lefts)[0]

    lefts = jax.tree.map(jnp.asarray, lefts)
    return lambda: jax.block_until_ready(run(lefts, rights))


def _race(name: str) -> Contest:
    makers = {"ours": ours, "SB3": stable_baselines, "SBX": sbx}
    told = " and ".join(f"{factor} times {peer}'s" for peer, factor in SPEED_UPS[name].items())
    return Contest(
        f"off-policy-{name}",
        f"{name}, 50 steps and 50 updates by turns, at least {told} speed",
        tuple(Contender(peer, partial(make, name)) for peer, make in makers.items()),
        tuple(Limit("ours", peer, 1 / factor) for peer, factor in SPEED_UPS[name].items()),
    )


CONTESTS = (
    *(_race(name) for name in SPEED_UPS),
    Contest(
        "off-policy-products",
        "the matrix products of a TD3 update take at least 0.75 of its time",
        (Contender("update", updates), Contender("products", products)),
        (Limit("update", "products", 1 / PRODUCTS_SHARE),),
    ),
    Contest(
        "off-policy-ratio",
        "DensityRatio adds at most 70 % to a TD3 update, half of that at every policy update",
        (
            Contender("plain", updates),
            *(Contender(e, partial(updates, e)) for e in RATIO_LIMITS),
        ),
        tuple(Limit(every, "plain", ratio) for every, ratio in RATIO_LIMITS.items()),
    ),
)
