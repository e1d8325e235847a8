"""Keyword arguments of environments: from Python and the command line to the hash and back."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

import gammaprime as gp
from gammaprime import cli, envs
from gammaprime.agents import PPO
from gammaprime.cli.options import read_env_kwargs
from gammaprime.runs import startup
from gammaprime.runs.config import Evaluation, RunConfig
from gammaprime.runs.directory import from_json
from runs.training_runs import AGENT, EVERY_UPDATE, StopAt, run

SEEN = {"exclude_current_positions_from_observation": False}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    return run(out, [StopAt(32)], env_or_task="Hopper-v5", env_kwargs=SEEN, steps=96)


def test_run__trains_resumes_and_is_judged_with_them(stored):
    assert len(stored.policy.actor.network[0].weight) == 12, "one observation more"
    assert from_json(stored.path / "config.json")["settings"]["protocol"]["env_kwargs"] == SEEN
    again = gp.resume(stored.path, **EVERY_UPDATE)
    assert again.done
    assert again.config.env_kwargs == SEEN
    assert gp.evaluate(again, episodes=2).length.shape == (2,)


def test_rows__are_those_of_gymnasium_with_the_same_arguments():
    env = envs.make("Hopper-v5", 2, env_kwargs=SEEN)
    env.reset(5)
    action = np.full((2, 3), 0.3, np.float32)
    seen = env.step(action)
    for row, seed in enumerate(env.seeds):
        one = gymnasium.make("Hopper-v5", **SEEN)
        one.reset(seed=seed)
        np.testing.assert_array_equal(seen.next_obs[row], one.step(action[row])[0])
        one.close()
    env.close()


def test_hash__knows_them_and_is_as_before_without():
    plain, empty, changed, other = (
        RunConfig(AGENT, "Hopper-v5", 64, env_kwargs=kwargs)
        for kwargs in ({}, {}, SEEN, {"healthy_reward": 0.5})
    )
    assert "env_kwargs" not in plain.to_table()["settings"]["protocol"]
    assert plain.folder == empty.folder
    assert len({plain.folder, changed.folder, other.folder}) == 3
    assert RunConfig.from_table(changed.to_table()) == changed


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"healty_reward": 1.0}, r"task='Hopper-v5', env_kwargs=.*unexpected keyword .*healty"),
        ({"a": (1, 2)}, r"env_kwargs=.*: must be a table of JSON values"),
        ({1: 2}, r"env_kwargs=.*: must be a table of JSON values"),
        ({"a": float("nan")}, r"env_kwargs=.*: must be a table of JSON values"),
        ({"max_episode_steps": 5}, "max_episode_steps is set by time_limit"),
    ],
)
def test_bad_arguments__are_refused_before_training(kwargs, message):
    with pytest.raises(ValueError, match=message):
        run(None, env_or_task="Hopper-v5", env_kwargs=kwargs)


def test_constructor__has_its_own_arguments():
    with pytest.raises(ValueError, match=r"env_kwargs=.*functools\.partial"):
        envs.make(lambda: gymnasium.make("CartPole-v1"), env_kwargs={"a": 1})
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ValueError, match="env_kwargs need a task or a constructor"):
        gp.train(PPO(num_steps=8, minibatches=1), env, 8, env_kwargs={"sutton_barto_reward": True})
    with pytest.raises(ValueError, match="no such task; did you mean Hopper-v"):
        envs.make("Hoper-v4", env_kwargs=SEEN)
    with pytest.raises(ValueError, match="threads=2: must be 1"):
        envs.make("Hopper-v5", 2, threads=2, env_kwargs=SEEN)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {}),
        ('{"a": false, "b": [1, 2]}', {"a": False, "b": [1, 2]}),
        ("a=false,b=0.5,c=ant.xml,d=True,e=None", {"a": False, "b": 0.5, "c": "ant.xml"}),
    ],
)
def test_words__are_json_or_pairs(text, wanted):
    assert read_env_kwargs(text).items() >= wanted.items()


@pytest.mark.parametrize("text", ["{a: 1}", "a", "=1", "a=1,b"])
def test_other_words__are_refused(text):
    with pytest.raises(ValueError, match="env_kwargs="):
        read_env_kwargs(text)


def test_command_line__takes_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(startup, "use_one_thread", lambda: None)
    out = tmp_path / "run"
    small = "--num-steps 16 --hidden 4 --epochs 1 --minibatches 1 --steps 16 --time-limit 9"
    words = f"train ppo --task CartPole-v1 {small} --no-compilation-cache --out {out}".split()
    words += ["--env-kwargs", "sutton_barto_reward=true", "advantage:gae"]
    assert cli.main(words) == 0
    assert from_json(out / "config.json")["settings"]["protocol"]["env_kwargs"] == {
        "sutton_barto_reward": True
    }
    metrics = gp.read_metrics(out)
    assert -1.0 <= metrics["eval/mean_reward"][-1] <= 0.0, "its rewards are 0, and -1 at a fall"


def test_vector_environment__is_refused_with_what_helps():
    vector = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    with pytest.raises(
        ValueError, match=r"vector environment.*true successor.*num_envs=3.*make_env"
    ):
        gp.train(PPO(num_envs=3), vector, 1e4, evaluation=Evaluation(every=0))
    vector.close()
