"""Off-policy runs in this process: the replay goes through cuts, and the same bits come out."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.agents import SAC, TD3, DensityRatio
from gammaprime.loops.rollout import BreakdownError
from gammaprime.networks import Policy
from gammaprime.runs import checkpoint, segments, training
from runs.failing_disk import Killed, failing_writes
from runs.training_runs import EVERY_UPDATE, StopAt, fingerprint, run

pytestmark = pytest.mark.usefixtures("quick_compile")

SMALL = {
    "num_envs": 2,
    "num_steps": 8,
    "updates_per_step": 0.25,
    "hidden": (4,),
    "batch_size": 6,
    "replay_size": 100,
    "random_steps": 32,
    "learning_starts": 48,
    "weighting": DensityRatio(recent_size=70, batch_size=5),
}
AGENTS = {"td3": TD3(**SMALL), "sac": SAC(**SMALL)}
STEPS = 240


def go(out, kind="td3", callbacks=(), **changes):
    return run(out, callbacks, **({"agent": AGENTS[kind], "steps": STEPS} | changes))


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Runs that nobody disturbs, by agent, each made when it is first asked for."""
    made = {}

    def get(kind="td3"):
        if kind not in made:
            made[kind] = go(tmp_path_factory.mktemp("runs") / kind, kind)
        return made[kind]

    return get


def replay_files(out):
    return sorted(file.name for file in (out / "checkpoints/replay").glob("*"))


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize("stop", [16, 96, 208], ids=["exploring", "learning", "ring full"])
def test_stopped_by_a_callback__is_resumed_to_the_same_bits(calm, tmp_path, kind, stop):
    out = tmp_path / "run"
    assert not go(out, kind, [StopAt(stop)]).done
    assert replay_files(out)
    assert training.resume(out, **EVERY_UPDATE).done
    assert fingerprint(out) == fingerprint(calm(kind).path)


def test_rows__tell_the_losses_once_there_are_any_and_every_evaluation(calm):
    rows = calm().rows
    losses = {"train/actor_loss", "train/critic_loss"}
    assert [row["time/total_timesteps"] for row in rows] == list(range(16, STEPS + 1, 16))
    assert all((losses <= row.keys()) == (row["time/total_timesteps"] >= 48) for row in rows)
    judged = [row["time/total_timesteps"] for row in rows if "eval/mean_reward" in row]
    assert judged == [96, 192, 240]
    assert "train/ratio_loss" in rows[-1]
    assert "train/ent_coef" in calm("sac").rows[-1]


def test_checkpoint__names_the_segments_that_hold_its_replay(tmp_path):
    out = tmp_path / "run"
    go(out, callbacks=[StopAt(208)])
    manifest = json.loads((out / "checkpoints/000000000208.json").read_text())
    held = segments.from_list(manifest["segments"])
    assert held[0].start <= 108
    assert held[-1].stop == 208
    assert {segment.file(out / "checkpoints").name for segment in held} <= set(replay_files(out))


def test_resumed_run__writes_what_is_new_with_what_is_as_small(tmp_path, monkeypatch):
    out = tmp_path / "run"
    go(out, callbacks=[StopAt(144)])
    written, write = [], segments._write

    def counted(folder, replay, start, stop):
        written.append((start, stop))
        return write(folder, replay, start, stop)

    monkeypatch.setattr(segments, "_write", counted)
    go(out, callbacks=[StopAt(160)])
    # As a binary counter carries.
    assert written == [(128, 160)]


def test_finished_run__has_dropped_its_replay_and_is_still_whole(calm):
    out = calm().path
    assert not (out / "checkpoints/replay").exists()
    assert checkpoint.load(out / "checkpoints").step == STEPS
    (out / "checkpoints/replay").mkdir()
    (out / "checkpoints/replay/left.safetensors").write_bytes(b"by a kill after the last line")
    assert go(out).done
    assert not (out / "checkpoints/replay").exists()


@pytest.mark.parametrize("lets_through", [0, 4, 7, 8, 9, 10, 11, 12, 40, 91, 110, 122])
def test_death_at_any_write__is_resumed_to_the_same_bits(calm, tmp_path, lets_through):
    out = tmp_path / "run"
    with failing_writes(lets_through), pytest.raises(Killed):
        go(out)
    go(out)
    assert fingerprint(out) == fingerprint(calm().path)
    assert not (out / "checkpoints/replay").exists()


def test_death_before_the_last_word__ends_as_if_there_was_none(calm, tmp_path, monkeypatch):
    def die(*args):
        raise Killed

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(training.directory, "finish_training", die)
        with pytest.raises(Killed):
            go(out)
    assert go(out).done
    assert fingerprint(out) == fingerprint(calm().path)


def newest_segment(out):
    held = checkpoint.load(out / "checkpoints").segments
    return held[-1].file(out / "checkpoints")


@pytest.mark.parametrize("how", ["cut short", "missing"])
def test_damaged_segment__costs_nothing_and_is_told(calm, tmp_path, how):
    out = tmp_path / "run"
    go(out, callbacks=[StopAt(128)])
    newest = newest_segment(out)
    if how == "missing":
        newest.unlink()
    else:
        newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"replay/.*rebuilt from the others"):
        go(out)
    assert fingerprint(out) == fingerprint(calm().path)


def test_breakdown__keeps_the_batch_and_the_last_good_checkpoint(tmp_path):
    agent = replace(AGENTS["td3"], learning_rate=1e38)
    with (
        np.errstate(all="ignore"),
        pytest.raises(BreakdownError, match=r"not finite.*\(update \d+, after \d+ steps\)"),
    ):
        go(tmp_path / "run", agent=agent)
    about = json.loads((tmp_path / "run/breakdown/about.json").read_text())
    assert about["step"] % 16 == 0
    with np.load(tmp_path / "run/breakdown/arrays.npz", allow_pickle=False) as arrays:
        assert {"batch/reward", "batch/next_obs", "agent/.num_updates"} <= set(arrays)
        # The ratio is an input of the update from step 70 on.
        assert ("recent/obs" in arrays) == (about["step"] + 16 > 70)
    assert checkpoint.load(tmp_path / "run/checkpoints").step == about["step"]


def test_policy__is_loaded_judged_and_the_trained_one(calm):
    obs = np.random.default_rng(0).normal(size=(5, 11))
    for kind in AGENTS:
        loaded = Policy.load(calm(kind).path)
        np.testing.assert_array_equal(loaded(obs), calm(kind).policy(obs))
        assert np.abs(loaded(obs, np.random.default_rng(0))).max() <= 1.0
        scores = training.evaluate(calm(kind).path, episodes=2)
        assert str(scores).startswith("Hopper-v4, 2 episodes")
        in_memory = training.evaluate(calm(kind), episodes=2)
        for mine, other in zip(scores[3:], in_memory[3:], strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.shape == (2,)


def test_task_with_discrete_actions__is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"action space Discrete\(2\) is not supported"):
        go(tmp_path / "run", env_or_task="CartPole-v1")
    assert not (tmp_path / "run").exists()


def test_steps_below_one_rollout__are_refused(tmp_path):
    with pytest.raises(ValueError, match="steps=15: must be at least one rollout"):
        go(tmp_path / "run", steps=15)
    assert not (tmp_path / "run").exists()
