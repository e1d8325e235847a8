"""Training runs in this process: what they store, tell and give back."""

import json
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

import gymnasium

from gammaprime.envs import probes
from gammaprime.networks import Actor, Layer, Policy
from gammaprime.runs import training
from gammaprime.runs.config import Evaluation, RunConfig
from gammaprime.runs.directory import from_json
from gammaprime.runs.training import Callback, evaluate, train
from runs.training_runs import (
    AGENT,
    EVERY_UPDATE,
    STEPS,
    TASK,
    TIME_LIMIT,
    StopAt,
    fingerprint,
    run,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "undisturbed")


def test_run__leaves_the_folder_it_promises(undisturbed):
    names = {file.name for file in undisturbed.path.glob("[!.]*")}
    stored = {"config.json", "manifest.json", "metrics.jsonl", "wall_clock.jsonl", "policy.npz"}
    assert names == stored | {"policy_best.npz", "checkpoints", "done"}
    assert undisturbed.done
    assert undisturbed.steps == STEPS
    manifest = from_json(undisturbed.path / "manifest.json")
    assert {"versions", "cpu", "mujoco_build", "command", "seed", "threads"} <= manifest.keys()


def test_metrics__are_named_as_in_stable_baselines3_and_hold_no_clock(undisturbed):
    rows = undisturbed.rows
    text = (undisturbed.path / "metrics.jsonl").read_text()
    assert [json.loads(line) for line in text.splitlines()] == rows
    assert [row["time/total_timesteps"] for row in rows] == list(range(32, STEPS + 1, 32))
    shared = {"train/loss", "train/approx_kl", "train/clip_fraction", "train/explained_variance"}
    assert all(shared <= row.keys() for row in rows)
    assert "rollout/ep_rew_mean" in rows[-1]
    assert not [name for row in rows for name in row if "fps" in name or "elapsed" in name]
    clock = (undisturbed.path / "wall_clock.jsonl").read_text().splitlines()
    assert len(clock) == len(rows)
    assert {"time/fps", "time/time_elapsed"} <= json.loads(clock[0]).keys()


def test_rollout_means__are_those_of_the_episodes_in_the_rows(undisturbed):
    episodes = np.array([episode for row in undisturbed.rows for episode in row["episodes"]])
    last = undisturbed.rows[-1]
    assert 2 < len(episodes) < 100
    names = ("ep_len_mean", "ep_rew_mean", "ep_rew_mean_gamma", "ep_rew_mean_gamma_prime")
    told = [last[f"rollout/{name}"] for name in names]
    np.testing.assert_allclose(told, episodes[:, 1:].mean(axis=0), rtol=1e-12)
    assert (episodes[:, 1] <= TIME_LIMIT).all()


def test_evaluations__come_at_their_steps_and_at_the_end(undisturbed):
    judged = [row for row in undisturbed.rows if "eval/mean_reward" in row]
    assert [row["time/total_timesteps"] for row in judged] == [96, 192, 256]
    for row in judged:
        episodes = np.array(row["eval/episodes"])
        assert episodes.shape == (2, 4)
        names = ("ep_length", "reward", "reward_gamma", "reward_gamma_prime")
        told = [row[f"eval/mean_{name}"] for name in names]
        np.testing.assert_allclose(told, episodes.mean(axis=0), rtol=1e-12)
        assert row["eval/mean_reward_gamma_prime"] < row["eval/mean_reward"]


def test_evaluation__does_not_touch_the_training(undisturbed):
    never = Evaluation(every=0, gamma_prime=0.95)
    alone = train(AGENT, TASK, STEPS, seed=3, evaluation=never, time_limit=TIME_LIMIT)
    for mine, row in zip(alone.rows, undisturbed.rows, strict=True):
        assert mine == {name: x for name, x in row.items() if not name.startswith("eval/")}


def test_each_evaluation__has_seeds_of_its_own_and_needs_no_memory():
    zero = Layer(np.zeros((11, 3), np.float32), np.zeros(3, np.float32))
    actor = Actor((zero,), np.zeros(3, np.float32), None, "tanh")
    world = training.Environments(TASK, AGENT, 10, False, True)
    first, other = (
        RunConfig(AGENT, TASK, STEPS, seed, Evaluation(episodes=2), 10).resolve() for seed in (0, 1)
    )
    at_32, at_64, again = (world.evaluate(actor, first, step) for step in (32, 64, 32))
    assert at_32 == again != at_64
    assert world.evaluate(actor, other, 32) != at_32
    assert at_32[0] != at_32[1]
    world.close()


def test_default_gamma_prime__is_that_of_the_time_limit(undisturbed):
    protocol = from_json(undisturbed.path / "config.json")["settings"]["protocol"]
    assert protocol["eval_gamma_prime"] == 1 - 1 / TIME_LIMIT


def test_in_memory__is_the_same_run_and_writes_nothing(undisturbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = run(None)
    assert here.rows == undisturbed.rows
    assert here.path is None
    assert list(tmp_path.iterdir()) == []


def test_stopped_by_a_callback__is_resumed_to_the_same_bits(undisturbed, tmp_path):
    out = tmp_path / "run"
    first = run(out, [StopAt(100)])
    assert not first.done
    assert first.steps == 128
    assert not (out / "done").exists()
    assert training.resume(out, **EVERY_UPDATE).done
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_finished_run__is_not_trained_again(undisturbed):
    class Never(Callback):
        def on_update(self, update):
            pytest.fail("it was trained again")

    again = run(undisturbed.path, [Never()])
    assert again.rows == undisturbed.rows
    assert again.done


def test_environment_that_was_made__is_trained_on_but_not_evaluated():
    env = probes.action_reward().env(AGENT.num_envs)
    result = train(AGENT, env, 64)
    assert not any("eval/mean_reward" in row for row in result.rows)
    assert result.policy(env.reset(0)).shape == (AGENT.num_envs,)
    with pytest.raises(ValueError, match="need a task or a constructor"):
        train(AGENT, env, 64, evaluation=Evaluation(every=32))


def test_environment_that_was_made__is_resumed_by_the_same_call(tmp_path):
    def go(out, callbacks=(), delay=4):
        env = probes.discount_chain(delay).env(AGENT.num_envs)
        return train(AGENT, env, 128, out=out, callbacks=callbacks, **EVERY_UPDATE)

    go(tmp_path / "calm")
    go(tmp_path / "stopped", [StopAt(64)])
    with pytest.raises(ValueError, match="belongs to another configuration"):
        go(tmp_path / "stopped", delay=5)
    with pytest.raises(ValueError, match="was trained on an object"):
        training.resume(tmp_path / "stopped")
    go(tmp_path / "stopped")
    assert fingerprint(tmp_path / "stopped") == fingerprint(tmp_path / "calm")


def test_tensorboard__gets_the_numbers_and_changes_none(undisturbed, tmp_path):
    out = tmp_path / "run"
    run(out, tensorboard=True)
    (events,) = (out / "tensorboard").iterdir()
    content = events.read_bytes()
    for name in (b"rollout/ep_rew_mean", b"eval/mean_reward_gamma_prime", b"time/fps"):
        assert name in content
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_policy__acts_as_the_trained_one_and_within_bounds(undisturbed):
    policy = Policy.load(undisturbed.path)
    obs = np.random.default_rng(0).normal(size=(5, 11)) * 10
    np.testing.assert_array_equal(policy(obs), undisturbed.policy(obs))
    # A product of one row may round otherwise than that of five.
    np.testing.assert_allclose(policy(obs)[2], policy(obs[2]), rtol=1e-5)
    wild = Policy(replace_log_std(policy.actor, 5.0), policy.low, policy.high)
    drawn = wild(obs, np.random.default_rng(0))
    assert drawn.min() == -1.0
    assert drawn.max() == 1.0


def replace_log_std(actor, value):
    return replace(actor, log_std=np.full_like(actor.log_std, value))


def test_policy__refuses_what_is_none(undisturbed, tmp_path):
    policy = Policy.load(undisturbed.path)
    with pytest.raises(ValueError, match=r"obs has shape \(3,\): must be \(11,\) or \(N, 11\)"):
        policy(np.zeros(3))
    with pytest.raises(FileNotFoundError, match="no policy here"):
        Policy.load(tmp_path)
    content = (undisturbed.path / "policy.npz").read_bytes()
    for broken in (b"", b"years of work", content[:-9], content[: len(content) // 2]):
        (tmp_path / "policy.npz").write_bytes(broken)
        with pytest.raises(ValueError, match="not a policy, or damaged"):
            Policy.load(tmp_path)


def test_policy__needs_numpy_alone(undisturbed):
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['jax', 'scipy', 'safetensors', 'mujoco']))\n"
        "import numpy\n"
        "from gammaprime.networks import Actor, Layer, Policy\n"
        "print(Policy.load(sys.argv[1])(numpy.zeros(11)).tolist())\n"
    )
    path = str(undisturbed.path)
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.stdout == f"{undisturbed.policy(np.zeros(11)).tolist()}\n", done.stderr


class Endless(gymnasium.Env):
    """An environment that nothing ends."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}


def test_environment_without_a_time_limit__is_refused_before_training(tmp_path):
    with pytest.raises(ValueError, match=r"Endless has no time limit.*set time_limit"):
        train(AGENT, Endless, steps=STEPS, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    never = Evaluation(every=0)
    assert train(AGENT, Endless, steps=STEPS, evaluation=never).done
    judged = train(AGENT, Endless, steps=STEPS, time_limit=9, evaluation=Evaluation(episodes=2))
    assert judged.rows[-1]["eval/mean_ep_length"] == 9.0


def test_environment_in_a_time_limit__is_evaluated_to_that_limit():
    def limited():
        return gymnasium.wrappers.PassiveEnvChecker(gymnasium.wrappers.TimeLimit(Endless(), 7))

    judged = train(AGENT, limited, steps=STEPS, evaluation=Evaluation(episodes=2))
    assert judged.rows[-1]["eval/mean_ep_length"] == 7.0
    assert judged.config.episode_limit == 7


def test_run_without_a_time_limit__is_evaluated_with_one():
    endless = train(AGENT, Endless, steps=STEPS, evaluation=Evaluation(every=0))
    scores = evaluate(endless, episodes=2, task=Endless, time_limit=5)
    assert scores.length.tolist() == [5.0, 5.0]


def test_metrics__staggered_episodes_are_kept_apart_and_count_in_no_mean(tmp_path):
    agent = replace(AGENT, num_envs=4, num_steps=8)
    rows = run(tmp_path / "run", agent=agent, env_or_task="Pendulum-v1", time_limit=20).rows
    cut = [episode for row in rows for episode in row.get("staggered_episodes", [])]
    assert [length for _, length, *_ in cut] == [5, 10, 15]
    assert {length for row in rows for _, length, *_ in row["episodes"]} == {20}
    assert {row["rollout/ep_len_mean"] for row in rows if "rollout/ep_len_mean" in row} == {20.0}


def test_run__tells_itself_in_a_line(tmp_path):
    found = run(tmp_path / "run", [StopAt(64)])
    assert repr(found) == f"Run(ppo-Hopper-v4-s3, 64 of 256 steps, not done, {tmp_path / 'run'})"
    assert repr(run(None)) == "Run(ppo-Hopper-v4-s3, 256 of 256 steps, done, in memory)"


def test_environment_of_a_user__is_trained_on_and_evaluated_by_its_constructor():
    path = Path(__file__).parents[2] / "examples/own_environment.py"
    module = runpy.run_path(str(path))
    scores = module["main"](steps=512)
    assert scores.task == "Walk"
    assert scores.length.shape == (5,)
    trained = train(AGENT, module["Walk"], steps=STEPS, time_limit=20)
    with pytest.raises(
        ValueError, match="trained on an object, Walk; give its constructor as task="
    ):
        training.evaluate(trained)
