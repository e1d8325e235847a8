"""Small training runs, and what of a run must be the same bits."""

import hashlib

from safetensors.numpy import load_file

from gammaprime.agents import PPO
from gammaprime.runs.options import Protocol, Upkeep
from gammaprime.runs.training import Callback, train

AGENT = PPO(num_envs=2, num_steps=16, hidden=(8,), epochs=2, minibatches=2)
STEPS = 8 * AGENT.rollout_size
PROTOCOL = Protocol(eval_every=96, eval_episodes=2, time_limit=20)
EVERY_UPDATE = Upkeep(checkpoint_seconds=0.0, tensorboard=False)


TASK = "Hopper-v4"


def run(out, callbacks=(), upkeep=EVERY_UPDATE, **changes):
    """The small run, or one that differs in some settings."""
    settings = {"agent": AGENT, "env_or_task": TASK, "steps": STEPS, "seed": 3} | changes
    return train(**settings, out=out, callbacks=callbacks, protocol=PROTOCOL, upkeep=upkeep)


class StopAt(Callback):
    def __init__(self, steps):
        self.steps = steps

    def on_update(self, update):
        return update.steps < self.steps


def fingerprint(path):
    """Metrics byte for byte, and every array of the last checkpoint."""
    newest = max((path / "checkpoints").glob("*.safetensors"))
    arrays = load_file(newest)
    return {
        "step": newest.stem,
        "metrics": (path / "metrics.jsonl").read_bytes(),
        "arrays": {
            name: hashlib.sha256(f"{x.dtype}{x.shape}".encode() + x.tobytes()).hexdigest()
            for name, x in sorted(arrays.items())
        },
        "policy": hashlib.sha256((path / "policy.npz").read_bytes()).hexdigest(),
    }
