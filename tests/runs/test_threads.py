"""Threads change the time a run takes, and nothing else of it."""

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from dataclasses import replace

from gammaprime import envs
from gammaprime.cli import main
from gammaprime.runs import training
from runs.training_runs import AGENT, EVERY_UPDATE, StopAt, fingerprint, run

FOUR = replace(AGENT, num_envs=4)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("one") / "run", agent=FOUR)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_run__is_stopped_and_resumed_to_the_same_bits(undisturbed, tmp_path, threads):
    out = tmp_path / "run"
    assert not run(out, [StopAt(100)], agent=FOUR, threads=threads).done
    # The folder names the numbers, so another number of threads goes on with it.
    assert training.resume(out, **EVERY_UPDATE, threads=3).done
    assert fingerprint(out) == fingerprint(undisturbed.path)
    config = (out / "config.json").read_bytes()
    assert config == (undisturbed.path / "config.json").read_bytes()


def test_threads__step_the_training_and_the_evaluation(monkeypatch):
    made = []

    def make(*arguments, **options):
        made.append((arguments[1], options["threads"]))
        return original(*arguments, **options)

    original = envs.make
    monkeypatch.setattr(envs, "make", make)
    run(None, agent=FOUR, threads=3)
    # Two episodes are evaluated at once: a third thread would idle.
    assert made == [(4, 3), (2, 2)]


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        (0, "threads=0: must be an integer >= 1"),
        (5, r"threads=5: must be at most num_envs=4; .* so 1 would idle"),
    ],
)
def test_train__refuses_threads_before_it_makes_a_folder(tmp_path, threads, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "run", agent=FOUR, threads=threads)
    assert not (tmp_path / "run").exists()


def test_train__refuses_threads_for_an_environment_that_was_made():
    env = envs.make("Hopper-v4", 4)
    with pytest.raises(ValueError, match="threads and env_kwargs need a task or a constructor"):
        training.train(FOUR, env, 128, threads=2)
    env.close()


def test_command__has_threads_and_resume_too(undisturbed, tmp_path, capsys):
    out = tmp_path / "run"
    run(out, [StopAt(100)], agent=FOUR)
    assert main(["resume", f"{out}", "--threads", "5", "--no-tensorboard"]) == 2
    assert "so 1 would idle" in capsys.readouterr().err
    assert main(["resume", f"{out}", "--threads", "4", "--no-tensorboard"]) == 0
    assert (out / "metrics.jsonl").read_bytes() == (undisturbed.path / "metrics.jsonl").read_bytes()
    words = ["--task", "CartPole-v1", "--num-envs", "2", "--steps", "1e4", "--threads", "2"]
    assert main(["train", "ppo", *words, "--out", f"{tmp_path / 'other'}"]) == 2
    assert "threads=2: must be 1 for CartPole-v1" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
