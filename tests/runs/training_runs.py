"""Small training runs, and what of a run must be the same bits."""

import hashlib

from safetensors.numpy import load_file

from gammaprime.agents import PPO, TD3
from gammaprime.runs.config import Evaluation
from gammaprime.runs.training import Callback, train

AGENT = PPO(num_envs=2, num_steps=16, hidden=(8,), epochs=2, minibatches=2)
OFF_POLICY = TD3(
    hidden=(8,), num_steps=10, batch_size=8, random_steps=20, learning_starts=20, replay_size=400
)
STEPS = 8 * AGENT.rollout_size
TASK = "Hopper-v4"
TIME_LIMIT = 20
JUDGED = {"evaluation": Evaluation(every=96, episodes=2), "time_limit": TIME_LIMIT}
EVERY_UPDATE = {"checkpoint_seconds": 0.0, "tensorboard": False}


def run(out, callbacks=(), **changes):
    """The small run, or one that differs in some settings."""
    settings = {"agent": AGENT, "env_or_task": TASK, "steps": STEPS, "seed": 3}
    return train(**settings | JUDGED | EVERY_UPDATE | changes, out=out, callbacks=callbacks)


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
