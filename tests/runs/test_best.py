"""The policy that was evaluated best: kept beside the newest, through kills, off the hash."""

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.networks import Policy
from gammaprime.runs import checkpoint
from gammaprime.runs.best import Best
from gammaprime.runs.config import Evaluation
from gammaprime.runs.run import Run, load_policy
from gammaprime.runs.training import evaluate, resume
from runs.training_runs import EVERY_UPDATE, JUDGED, StopAt, fingerprint, run

BEST = "policy_best.npz"
OFTEN = {**JUDGED, "evaluation": Evaluation(every=32, episodes=2)}


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "calm", **OFTEN)


def scores(rows):
    return [row["eval/mean_reward"] for row in rows]


def facts(path):
    with np.load(path / BEST) as arrays:
        return int(arrays["best_step"]), float(arrays["best_score"])


def test_best__is_the_policy_of_the_first_highest_evaluation(calm, tmp_path):
    told = scores(calm.rows)
    number = int(np.argmax(told))
    assert facts(calm.path) == (32 * (number + 1), told[number])
    assert 0 < number < len(told) - 1, "the best of this run is neither its first nor its last"
    early = run(tmp_path / "early", [StopAt(32 * (number + 1))], **OFTEN)
    obs = np.random.default_rng(0).normal(size=(5, 11))
    np.testing.assert_array_equal(load_policy(calm.path, best=True)(obs), early.policy(obs))
    assert not np.array_equal(load_policy(calm.path)(obs), early.policy(obs))


def test_killed_run__has_the_same_best(calm, tmp_path):
    out = tmp_path / "run"
    steps, _ = facts(calm.path)
    for stop in (steps - 32, steps):
        run(out, [StopAt(stop)], **OFTEN)
    (out / BEST).unlink()
    assert resume(out, **EVERY_UPDATE).done
    assert fingerprint(out) == fingerprint(calm.path)
    assert (out / BEST).read_bytes() == (calm.path / BEST).read_bytes()


def test_best__does_not_touch_the_metrics_or_the_configuration(calm, tmp_path, monkeypatch):
    monkeypatch.setattr(Best, "offer", lambda self, policy, step, score: None)
    without = run(tmp_path / "without", **OFTEN)
    assert without.config == calm.config
    assert without.rows == calm.rows
    assert not (without.path / BEST).exists()


def test_checkpoint_without_a_best__keeps_only_a_better_one(calm, tmp_path, monkeypatch):
    """Of an earlier version: a worse policy must not be called the best."""
    out = tmp_path / "run"
    steps, _ = facts(calm.path)
    with monkeypatch.context() as patch:
        patch.setattr(Best, "snapshot", lambda self: {})
        run(out, [StopAt(steps)], **OFTEN)
    (out / BEST).unlink()
    assert not [name for name in checkpoint.load(out / "checkpoints").arrays if "best" in name]
    resume(out, **EVERY_UPDATE)
    assert not (out / BEST).exists()


def test_in_memory__and_from_disk_it_is_the_same(calm):
    here = run(None, **OFTEN)
    obs = np.random.default_rng(1).normal(size=(3, 11))
    expected = Policy.load(calm.path, best=True)(obs)
    for policy in (here.best_policy, Run.load(calm.path).best_policy, load_policy(here, best=True)):
        np.testing.assert_array_equal(policy(obs), expected)


def test_run_without_evaluations__has_no_best(tmp_path):
    settings = {**JUDGED, "evaluation": Evaluation(every=0), "steps": 64}
    stored = run(tmp_path / "run", **settings)
    assert not (stored.path / BEST).exists()
    with pytest.raises(FileNotFoundError, match=r"policy_best\.npz: no policy here .*evaluation"):
        load_policy(stored.path, best=True)
    with pytest.raises(ValueError, match="this run has no evaluation"):
        assert run(None, **settings).best_policy


def test_evaluate__judges_either(calm):
    newest, best = (evaluate(calm.path, episodes=2, best=best) for best in (False, True))
    assert not np.array_equal(newest.undiscounted, best.undiscounted)
    assert best.length.shape == (2,)
