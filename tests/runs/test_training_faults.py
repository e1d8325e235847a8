"""Training runs that die, are stopped, break down or are refused: what is left of them."""

import errno
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

import gymnasium
from gymnasium.envs.registration import EnvSpec

from gammaprime.envs import mujoco
from gammaprime.loops.rollout import BreakdownError
from gammaprime.networks import Policy
from gammaprime.runs import checkpoint, lock
from gammaprime.runs.config import Evaluation
from gammaprime.runs.directory import from_json
from gammaprime.runs.interrupts import Interrupted
from gammaprime.runs.lock import LostError
from gammaprime.runs.run import Run
from gammaprime.runs.training import Callback, evaluate, resume, train
from runs.failing_disk import Killed, failing_writes
from runs.training_runs import (
    AGENT,
    EVERY_UPDATE,
    OFF_POLICY,
    STEPS,
    TASK,
    StopAt,
    fingerprint,
    run,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "undisturbed")


@pytest.mark.parametrize("lets_through", [0, 1, 2, 3, 5, 8, 9, 13, 21, 34, 55, 89])
def test_death_at_any_write__is_resumed_to_the_same_bits(undisturbed, tmp_path, lets_through):
    out = tmp_path / "run"
    with failing_writes(lets_through), pytest.raises(Killed):
        run(out)
    # A process that dies in the middle of a line leaves half of it.
    if (out / "metrics.jsonl").exists():
        with (out / "metrics.jsonl").open("ab") as file:
            file.write(b'{"time/total_timesteps": 9')
    run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)
    assert (out / "done").is_file()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal__saves_and_shows_how_to_go_on(undisturbed, tmp_path, number):
    class Send(Callback):
        def on_update(self, update):
            if update.steps == 96:
                os.kill(os.getpid(), number)

    out = tmp_path / "run"
    with pytest.raises(Interrupted, match=f"saved at step 96 .*gammaprime resume {out}") as stop:
        run(out, [Send()], checkpoint_seconds=1e9)
    assert stop.value.exit_code == 128 + number
    assert checkpoint.load(out / "checkpoints").step == 96
    run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_command_to_go_on__keeps_what_was_to_be_kept(tmp_path):
    class Send(Callback):
        def on_update(self, update):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match=r"gammaprime resume \S+ --keep-replay --keep-critic$"):
        run(tmp_path / "run", [Send()], agent=OFF_POLICY, keep_replay=True, keep_critic=True)


def test_full_disk__is_reported_and_the_last_checkpoint_goes_on(undisturbed, tmp_path, monkeypatch):
    out = tmp_path / "run"
    save, saved = checkpoint.save, []

    def fill(folder, taken):
        if len(saved) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        saved.append(taken.step)
        save(folder, taken)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", fill)
        with pytest.raises(OSError, match=r"No space left.*step 96 is whole.*gammaprime resume"):
            run(out)
    run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_damaged_checkpoint__costs_one_interval_and_is_told(undisturbed, tmp_path):
    out = tmp_path / "run"
    run(out, [StopAt(128)])
    newest = max((out / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="going back to step 96"):
        run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_other_versions_or_machine__are_told_on_resume(tmp_path):
    out = tmp_path / "run"
    run(out, [StopAt(32)])
    manifest = from_json(out / "manifest.json")
    assert manifest["resume"] == "exact"
    (out / "manifest.json").write_text(json.dumps(manifest | {"cpu": "an abacus"}))
    with pytest.warns(UserWarning, match="began with cpu an abacus"):
        run(out)


def test_metrics_shorter_than_their_checkpoint__are_refused(tmp_path):
    out = tmp_path / "run"
    run(out, [StopAt(64)])
    (out / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"metrics\.jsonl: must hold the \d+ bytes"):
        run(out)


def test_folder_of_another_configuration__is_refused_and_left_alone(undisturbed):
    before = fingerprint(undisturbed.path)
    for change in ({"seed": 4}, {"steps": STEPS + 32}, {"agent": replace(AGENT, gamma=0.98)}):
        with pytest.raises(ValueError, match="belongs to another configuration"):
            run(undisturbed.path, **change)
    assert fingerprint(undisturbed.path) == before


def test_folder_in_use__is_refused(tmp_path):
    out = tmp_path / "run"

    class Intruder(Callback):
        def on_update(self, update):
            with pytest.raises(ValueError, match=f"is being trained by process {os.getpid()}"):
                run(out)
            return False

    run(out, [Intruder()])


def test_process_that_slept_and_lost_its_run__writes_nothing(tmp_path):
    out = tmp_path / "run"

    class Lose(Callback):
        def on_update(self, update):
            self.before = {file: file.read_bytes() for file in out.glob("*.jsonl")}
            (out / ".lock-000002").write_text('{"free": true}')

    lose = Lose()
    with pytest.raises(LostError, match="was taken over by another process"):
        run(out, [lose], checkpoint_seconds=1e9)
    assert len(lose.before) == 2
    assert {file: file.read_bytes() for file in lose.before} == lose.before
    assert not (out / "checkpoints").exists()


def test_lock__tells_how_far_the_run_is_and_is_free_afterwards(tmp_path, monkeypatch):
    out, told = tmp_path / "run", []

    class Watch(Callback):
        def on_update(self, update):
            held[0].beat()
            told.append((update, lock.read(out).progress))

    held, take = [], lock.take
    monkeypatch.setattr(lock, "take", lambda path: held.append(take(path)) or held[-1])
    run(out, [Watch()])
    update, progress = told[-1]
    assert (progress["steps"], progress["total"]) == (STEPS, STEPS)
    assert progress["return"] == update.row["rollout/ep_rew_mean"]
    assert 0 < progress["fps"] < 1e6
    assert "fps" not in told[0][1]
    assert lock.read(out) is None


class Faulty(mujoco.MujocoEnv):
    """An environment with a mistake of its author."""

    def step(self, action):
        return {}["key"] if self.age[0] == 9 else super().step(action)


def test_error_of_an_environment__keeps_its_type_and_is_no_breakdown(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyError, match="key") as raised:
        train(AGENT, Faulty(TASK, 2), STEPS, out=out, **EVERY_UPDATE)
    assert raised.traceback[-1].name == "step"
    assert not (out / "breakdown").exists()
    assert lock.read(out) is None


@pytest.mark.parametrize(
    ("steps", "message"), [(31, "at least one rollout"), (0, "at least 1"), (64.5, "whole number")]
)
def test_steps_that_make_no_run__are_refused(tmp_path, steps, message):
    with pytest.raises(ValueError, match=rf"steps={steps}.*{message}"):
        run(tmp_path / "run", steps=steps)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0"])
def test_seed_that_is_none__is_refused_before_anything_is_written(tmp_path, seed):
    with pytest.raises(ValueError, match=f"seed={seed!r}: must be an integer >= 0"):
        run(tmp_path / "run", seed=seed)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (42, "env_or_task=42: must be the name of a task"),
        ([dict], "must be the name of a task"),
        (dict, "makes a dict, no gymnasium.Env"),
        (mujoco.MujocoEnv(TASK, 3), "env has 3 rows: must be num_envs=2 of the agent"),
    ],
)
def test_what_cannot_be_trained_on__is_refused_before_anything_is_written(tmp_path, task, message):
    with pytest.raises(ValueError, match=message):
        train(AGENT, task, STEPS, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_checkpoint_of_another_version__is_refused_and_nothing_is_cut(tmp_path, monkeypatch):
    out = tmp_path / "run"
    run(out, [StopAt(64)])
    with (out / "metrics.jsonl").open("ab") as file:
        file.write(b"of an update after the checkpoint\n")
    before = {file: file.read_bytes() for file in out.rglob("[!.]*") if file.is_file()}
    init = type(AGENT).init

    def init_otherwise(self, *arguments):
        return init(self, *arguments)._replace(optimiser=np.zeros(3))

    monkeypatch.setattr(type(AGENT), "init", init_otherwise)
    with pytest.raises(ValueError, match=r"checkpoints: .*differ in .*optimiser.*another version"):
        run(out)
    manifests = ("manifest.json",)
    for file, content in before.items():
        assert file.name in manifests or file.read_bytes() == content


def test_run_on_an_object__tells_how_it_is_gone_on_with(tmp_path):
    class Send(Callback):
        def on_update(self, update):
            os.kill(os.getpid(), signal.SIGTERM)

    env = mujoco.MujocoEnv(TASK, 2, time_limit=20)
    with pytest.raises(Interrupted, match=r"go on with: train\(\) with the same arguments, out='"):
        train(AGENT, env, STEPS, out=tmp_path / "run", callbacks=[Send()], **EVERY_UPDATE)


def test_error_of_a_callback__is_its_own_where_there_is_no_folder():
    class Break(Callback):
        def on_update(self, update):
            raise OSError("the callback's own")

    with pytest.raises(OSError, match=r"^the callback's own$"):
        run(None, [Break()])


class Endless(gymnasium.Env):
    """No episode ends, and nothing cuts it."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_evaluation_that_might_never_end__is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="Endless has no time limit, so an evaluation might never"):
        train(AGENT, Endless, STEPS, out=tmp_path / "run", **EVERY_UPDATE)
    assert not (tmp_path / "run").exists()


def test_evaluation_that_does_not_end__is_given_up_and_told(monkeypatch):
    monkeypatch.setattr("gammaprime.loops.evaluate.LONGEST", 50)
    monkeypatch.setitem(gymnasium.registry, "Endless-v0", EnvSpec("Endless-v0", Endless))
    made = train(AGENT, "Endless-v0", STEPS, evaluation=Evaluation(every=0))
    message = "an episode has not ended after 50 steps: give the task a time limit"
    with pytest.raises(BreakdownError, match=message):
        evaluate(made, episodes=2)


def test_choices__are_the_task_s_own_numbers(tmp_path):
    out = tmp_path / "run"
    made = train(AGENT, Endless, STEPS, out=out, evaluation=Evaluation(every=0))
    for policy in (made.policy, Policy.load(out)):
        assert policy(np.zeros(1)) in (5, 6)
        assert set(policy(np.zeros((64, 1)), np.random.default_rng(0))) == {5, 6}


def change_digit(file, before, after):
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


@pytest.mark.parametrize("content", [b"", b"{}\n", b"5\n"])
def test_finished_run_whose_metrics_changed__is_damaged(tmp_path, content):
    out = tmp_path / "run"
    run(out, steps=64)
    (out / "metrics.jsonl").write_bytes(content)
    for use in (lambda: run(out, steps=64), lambda: resume(out), lambda: Run.load(out)):
        with pytest.raises(
            ValueError, match=r"metrics\.jsonl: damaged, its hash is not the one in"
        ):
            use()


def test_finished_run_whose_configuration_changed__is_damaged(tmp_path):
    out = tmp_path / "run"
    run(out, steps=64)
    change_digit(out / "config.json", '"seed": 3', '"seed": 4')
    for use in (resume, Run.load, evaluate):
        with pytest.raises(ValueError, match=r"config\.json: damaged, its hash is not the one in"):
            use(out)


def test_run_of_a_version_without_the_hash_of_its_configuration__is_read(tmp_path):
    out = tmp_path / "run"
    run(out, steps=64)
    done = from_json(out / "done")
    del done["config_sha256"]
    (out / "done").write_text(json.dumps(done))
    assert Run.load(out).done
    assert resume(out).done


@pytest.mark.parametrize(
    ("before", "after"),
    [('"seed": 3', '"seed": 4'), ('"gamma": 0.99', '"gamma": 0.98'), ("0.0003", "0.0004")],
)
def test_configuration_that_was_changed_since_the_checkpoint__is_refused(tmp_path, before, after):
    out = tmp_path / "run"
    run(out, [StopAt(64)])
    change_digit(out / "config.json", before, after)
    (out / "manifest.json").unlink()  # it has the hash as well
    metrics = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(
        ValueError, match=r"config\.json: was changed since the checkpoint at step 64"
    ):
        resume(out, **EVERY_UPDATE)
    assert (out / "metrics.jsonl").read_bytes() == metrics
    change_digit(out / "config.json", after, before)
    assert resume(out, **EVERY_UPDATE).done


def test_metrics_that_were_changed_after_the_older_checkpoint__go_back_to_it(undisturbed, tmp_path):
    out = tmp_path / "run"
    run(out, [StopAt(64)])
    content = (out / "metrics.jsonl").read_bytes()
    second = content.index(b"\n") + 1
    digit = second + content[second:].index(b"train/loss") + 15
    changed = bytes([content[digit] ^ 1])
    (out / "metrics.jsonl").write_bytes(content[:digit] + changed + content[digit + 1 :])
    with pytest.warns(UserWarning, match=r"metrics\.jsonl: its first .*going back to step 32"):
        run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_metrics_that_were_cut_between_the_checkpoints__go_back_to_the_older(undisturbed, tmp_path):
    out = tmp_path / "run"
    run(out, [StopAt(64)])
    with (out / "metrics.jsonl").open("r+b") as file:
        file.truncate((out / "metrics.jsonl").stat().st_size - 9)
    with pytest.warns(UserWarning, match=r"metrics\.jsonl: must hold .*going back to step 32"):
        run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_metrics_that_were_changed_before_both_checkpoints__are_refused(tmp_path):
    out = tmp_path / "run"
    run(out, [StopAt(64)])
    change_digit(out / "metrics.jsonl", '"time/total_timesteps": 32', '"time/total_timesteps": 33')
    changed = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"no checkpoint is whole: .*metrics\.jsonl: its first"):
        run(out)
    assert (out / "metrics.jsonl").read_bytes() == changed


def test_checkpoint_of_a_version_without_these_hashes__is_resumed(
    undisturbed, tmp_path, monkeypatch
):
    known = ("step", "metrics_bytes")
    facts = checkpoint.Checkpoint.facts.fget
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(
            checkpoint.Checkpoint,
            "facts",
            property(lambda self: {name: facts(self)[name] for name in known}),
        )
        run(out, [StopAt(64)])
    assert "config_sha256" not in from_json(out / "checkpoints/000000000064.json")
    run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


class Poisoned(mujoco.MujocoEnv):
    """Pays NaN from a certain step on, past its own checks."""

    steps_left = 70

    def step(self, action):
        self.steps_left -= 1
        seen = super().step(action)
        return seen if self.steps_left > 0 else seen._replace(reward=seen.reward * np.nan)


def test_reward_that_is_no_number__stops_with_what_is_needed_to_see_it_again(tmp_path):
    out = tmp_path / "run"
    env = Poisoned(TASK, 2, time_limit=20)
    with pytest.raises(BreakdownError, match=r"reward at step \d+ .*not finite.*breakdown"):
        train(AGENT, env, STEPS, seed=3, out=out, **EVERY_UPDATE)
    assert checkpoint.load(out / "checkpoints").step == 128
    about = from_json(out / "breakdown/about.json")
    assert about["step"] == 128
    assert about["config"]["settings"]["seed"] == 3
    with np.load(out / "breakdown/arrays.npz", allow_pickle=False) as arrays:
        assert not np.isfinite(arrays["rollout/reward"]).all()
        assert "agent/.num_updates" in arrays
        assert arrays["agent/.num_updates"] == 4


def test_parameters_that_are_no_numbers__stop_the_run(tmp_path, monkeypatch):
    update = type(AGENT).update

    def blow_up(self, state, policy, rollout, rng, remaining):
        """Learn well for half of the run, then at a rate that overflows float32."""
        remaining = remaining if remaining > 0.5 else 1e38
        return update(self, state, policy, rollout, rng, remaining)

    monkeypatch.setattr(type(AGENT), "update", blow_up)
    out = tmp_path / "run"
    with (
        np.errstate(all="ignore"),
        pytest.raises(BreakdownError, match=r"(not finite|must be finite)"),
    ):
        run(out)
    saved = checkpoint.load(out / "checkpoints")
    assert saved.step >= STEPS // 2
    assert all(np.isfinite(x).all() for x in saved.arrays.values())
