"""Short trainings of every agent with every slot: what they end with, as hashes.

    python tests/numbers/cases.py              # print them as JSON
    python tests/numbers/cases.py --write      # add them, for this machine, beside this file

Run as a program of its own, because the threads of BLAS and XLA are fixed when they are imported.
"""

import hashlib
import json
import math
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

from gammaprime.runs.startup import use_one_thread

STORED = Path(__file__).with_name("expected.json")
PACKAGES = ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco", "pybullet")


def cases():
    """Name -> (agent, task, steps)."""
    from gammaprime import tabular
    from gammaprime.agents import (
        DDPG,
        GAE,
        PG,
        PPO,
        PRESETS,
        SAC,
        TD3,
        TRPO,
        DensityRatio,
        LearnedEntropy,
        TaylorCritic,
        TaylorGradient,
        TaylorQ,
        TaylorWeight,
        TDDelta,
    )
    from gammaprime.envs import FiniteEnv

    window = TaylorQ(0.999, order=1, eta=0.01, lookahead=10, tail="survival", center=False)
    scan = TaylorQ(0.999, order=3, eta=0.5, lookahead=None, tail="survival", center=True)
    endless = TaylorQ(0.999, order=math.inf, eta=1.0, lookahead=None, tail="constant", center=False)
    small = {"num_steps": 256, "minibatches": 4, "epochs": 3}
    short = {"num_steps": 50, "hidden": (32, 32), "random_steps": 100, "learning_starts": 100}
    ratio = DensityRatio(recent_size=150)
    mdp = tabular.random_mdp(6, 3, 0.5, np.random.default_rng(0))
    finite = FiniteEnv(mdp, num_envs=4, time_limit=20)
    return {
        "ppo": (PPO(**small), "Hopper-v4", 768),
        "ppo gae lam 1": (PPO(**small, advantage=GAE(), lam=1.0, value_clip=None), "Ant-v4", 768),
        "ppo taylor_q window": (PPO(**small, advantage=window), "Hopper-v4", 768),
        "ppo taylor_q scan": (PPO(**small, advantage=scan), "Hopper-v4", 768),
        "ppo taylor_q inf": (PPO(**small, advantage=endless), "HalfCheetah-v4", 768),
        "ppo taylor_gradient": (PPO(**small, advantage=TaylorGradient(0.999, 2)), "Hopper-v4", 768),
        "ppo taylor_critic": (PPO(**small, advantage=TaylorCritic(0.999, 2)), "Walker2d-v4", 768),
        "ppo td_delta": (PPO(**small, advantage=TDDelta()), "Hopper-v4", 768),
        "ppo taylor_weight": (PPO(**small, weighting=TaylorWeight(0.999, 10)), "Hopper-v4", 768),
        "ppo taylor_weight normalised": (
            PPO(**small, weighting=TaylorWeight(0.999, math.inf, normalise=True)),
            "Hopper-v4",
            768,
        ),
        "ppo 8 rows": (PPO(num_envs=8, num_steps=32, minibatches=4), "Hopper-v4", 768),
        "ppo bullet": (PPO(**small), "HalfCheetahBulletEnv-v0", 768),
        "ppo bullet walker": (PPO(**small, advantage=window), "Walker2DBulletEnv-v0", 768),
        "ppo finite": (PPO(num_envs=4, num_steps=32, minibatches=4), finite, 384),
        "ppo cartpole": (PPO(num_envs=2, num_steps=64, minibatches=4), "CartPole-v1", 384),
        "trpo": (TRPO(num_steps=256, advantage=scan), "Walker2d-v4", 768),
        "trpo baselines": (PRESETS["trpo_baselines"], "Hopper-v4", 2048),
        "pg": (PG(num_steps=256, weighting=TaylorWeight(0.999, 3)), "Hopper-v4", 768),
        "td3": (TD3(**short), "Hopper-v4", 400),
        "td3 ratio": (TD3(**short, weighting=ratio), "HalfCheetah-v4", 400),
        "ddpg": (DDPG(), "HalfCheetah-v4", 1100),
        "sac": (SAC(**short), "Hopper-v4", 400),
        "sac ratio": (
            SAC(**short, weighting=ratio, entropy=LearnedEntropy(), std_network="own"),
            "Walker2d-v4",
            400,
        ),
    }


def outcome(agent, task, steps):
    """Return the hash of a training: its metrics and its policy."""
    from gammaprime.runs.training import train

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = train(agent, task, steps, seed=3)
    digest = hashlib.sha256(json.dumps(run.rows, sort_keys=True).encode())
    arrays = run.policy.to_arrays()
    for name in sorted(arrays):
        if arrays[name].dtype.kind == "f":
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def machine():
    """What the bits of a training depend on."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else []
    told = sorted({line for line in lines if line.startswith(("model name", "flags"))})
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()
    return {"cpu": digest} | {name: version(name) for name in PACKAGES}


def main(arguments):
    use_one_thread()
    wanted = [name for name in arguments if not name.startswith("--")]
    chosen = {name: case for name, case in cases().items() if name in wanted or not wanted}
    found = {"machine": machine(), "sha256": {n: outcome(*case) for n, case in chosen.items()}}
    if "--write" in arguments:
        kept = [x for x in json.loads(STORED.read_text()) if x["machine"] != found["machine"]]
        STORED.write_text(json.dumps([*kept, found], indent=1, sort_keys=True) + "\n")
    else:
        sys.stdout.write(json.dumps(found, indent=1, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
