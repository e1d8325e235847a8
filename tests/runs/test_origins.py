"""Runs that are lengthened, and runs that begin with the parameters of another."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.agents import TRPO, TaylorCritic
from gammaprime.figures import plots
from gammaprime.runs import origins, session
from gammaprime.runs.config import Evaluation, RunConfig
from gammaprime.runs.directory import from_json
from gammaprime.runs.results import read_history
from gammaprime.runs.training import resume, train
from runs.training_runs import AGENT, EVERY_UPDATE, OFF_POLICY, STEPS, StopAt, fingerprint, run

LONGER = 2 * STEPS
STEADY = replace(AGENT, anneal=False)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "short", agent=STEADY)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "long", agent=STEADY, steps=LONGER)


def files(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def without_evaluations(path):
    lines = (path / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [{name: x for name, x in row.items() if not name.startswith("eval/")} for row in rows]


def parameters(path):
    newest = max((path / "checkpoints").glob("*.safetensors"))
    return {
        name: x for name, x in load_file(newest).items() if not name.startswith("agent/.num_upd")
    }


def test_lengthened_run__is_the_one_that_was_asked_for_so_long(short, long):
    """Without annealing: bit for bit, but for the evaluation at the end of the shorter one."""
    before = files(short.path)
    longer = resume(short, **EVERY_UPDATE, steps=float(LONGER))
    assert longer.done
    assert longer.path.parent == short.path.parent
    assert longer.path.name == longer.config.folder
    assert without_evaluations(longer.path) == without_evaluations(long.path)
    assert fingerprint(longer.path)["arrays"] == fingerprint(long.path)["arrays"]
    assert files(short.path) == before


def test_lengthened_run__is_another_configuration_that_says_where_it_began(short, long, tmp_path):
    longer = resume(short.path, **EVERY_UPDATE, steps=LONGER, out=tmp_path / "longer")
    table = from_json(longer.path / "config.json")
    origin = table["settings"].pop("origin")
    assert table == from_json(long.path / "config.json")
    assert (origin["taken"], origin["steps"]) == ("state", STEPS)
    assert longer.config.folder != long.config.folder
    assert RunConfig.from_table(from_json(longer.path / "config.json")) == longer.config
    manifest = from_json(longer.path / "manifest.json")
    assert manifest["origin"] == {"run": str(short.path), **origin}
    histories = [read_history(path) for path in (longer.path, long.path)]
    assert len(plots.lines(histories, plots.Options())) == 2


def test_seeds_of_a_lengthened_run__are_joined_in_a_plot(tmp_path):
    longer = []
    for seed in (0, 1):
        first = run(tmp_path / str(seed), seed=seed, steps=64)
        longer.append(resume(first, **EVERY_UPDATE, steps=96))
    (line,) = plots.lines([read_history(item.path) for item in longer], plots.Options())
    assert len(line.curves) == 2


def test_killed_lengthened_run__resumes_to_the_same_bits(short, tmp_path):
    calm = resume(short, **EVERY_UPDATE, steps=LONGER, out=tmp_path / "calm")
    stopped = resume(short, [StopAt(STEPS + 96)], **EVERY_UPDATE, steps=LONGER, out=tmp_path / "x")
    assert not stopped.done
    assert resume(stopped, **EVERY_UPDATE).done
    assert fingerprint(stopped.path) == fingerprint(calm.path)


def test_annealed_learning_rate__is_that_of_the_new_length(tmp_path, monkeypatch):
    seen = []
    update = type(AGENT).update

    def watch(self, state, policy, rollout, rng, remaining):
        seen.append(remaining)
        return update(self, state, policy, rollout, rng, remaining)

    first = run(tmp_path / "first", steps=64)
    monkeypatch.setattr(type(AGENT), "update", watch)
    resume(first, **EVERY_UPDATE, steps=128)
    assert seen == [0.5, 0.25]


def test_lengthened_off_policy_run__needs_its_replay(tmp_path):
    settings = {"agent": OFF_POLICY, "steps": 100}
    long = run(tmp_path / "long", **settings | {"steps": 200})
    kept = run(tmp_path / "kept", **settings, keep_replay=True)
    assert resume(kept, **EVERY_UPDATE).done  # and nothing of what is done is removed
    longer = resume(kept, **EVERY_UPDATE, steps=200)
    assert without_evaluations(longer.path) == without_evaluations(long.path)
    assert fingerprint(longer.path)["arrays"] == fingerprint(long.path)["arrays"]
    assert list((kept.path / "checkpoints" / "replay").iterdir())
    stopped = run(tmp_path / "stopped", [StopAt(60)], **settings)
    longer = resume(stopped, **EVERY_UPDATE, steps=200, out=tmp_path / "on")
    assert fingerprint(longer.path)["arrays"] == fingerprint(long.path)["arrays"]
    dropped = run(tmp_path / "dropped", **settings)
    with pytest.raises(ValueError, match=r"dropped its replay.*--keep-replay.*--init"):
        resume(dropped, **EVERY_UPDATE, steps=200)


def test_kept_replay__outlives_a_kill_and_a_resume_without_the_option(
    tmp_path,
):
    settings = {"agent": OFF_POLICY, "steps": 100}
    kept = run(tmp_path / "kept", **settings, keep_replay=True)
    (kept.path / "done").unlink()
    assert resume(kept.path, **EVERY_UPDATE).done
    longer = resume(kept.path, **EVERY_UPDATE, steps=200, out=tmp_path / "longer")
    long = run(tmp_path / "long", **settings | {"steps": 200})
    assert fingerprint(longer.path)["arrays"] == fingerprint(long.path)["arrays"]


def test_keep_replay__is_refused_where_there_is_none_or_no_folder(tmp_path):
    with pytest.raises(ValueError, match=r"keep_replay=True: must be False with PPO"):
        run(tmp_path / "run", keep_replay=True)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=r"keep_replay=True: must be False for a run that is kept"):
        run(None, agent=OFF_POLICY, keep_replay=True)


@pytest.mark.parametrize("steps", [32, STEPS - 32, STEPS + 31])
def test_steps_that_were_trained_already__are_refused(short, steps):
    with pytest.raises(ValueError, match=rf"steps={steps}: must be at least one rollout of 32 ab"):
        resume(short, steps=steps)


def test_the_same_steps__are_the_same_run(short):
    assert resume(short, steps=STEPS).path == short.path
    with pytest.raises(ValueError, match="out='there': is for a run that is lengthened"):
        resume(short, out="there")


def test_init__begins_with_the_parameters_and_nothing_else(short, tmp_path):
    class Seen(session.Callback):
        def on_start(self, start):
            self.text, self.arrays = str(start), parameters(start.path)

    seen = Seen()
    began = run(tmp_path / "began", [seen], seed=4, steps=64, init=short.path)
    end, plain = parameters(short.path), run(tmp_path / "plain", seed=4, steps=64)
    taken = ("agent/.params", "agent/.obs_statistics", "agent/.return_statistics")
    for name, x in seen.arrays.items():
        if name.startswith(taken):
            np.testing.assert_array_equal(x, end[name], strict=True)
        elif name.startswith("agent/"):
            assert not np.any(x), name  # Adam's moments, running returns
    assert f"with the parameters of a run of {STEPS} steps" in seen.text
    assert began.done
    assert began.rows[0]["episodes"] != plain.rows[0]["episodes"]
    origin = from_json(began.path / "config.json")["settings"]["origin"]
    assert (origin["taken"], origin["steps"]) == ("parameters", STEPS)
    assert from_json(began.path / "manifest.json")["origin"]["run"] == str(short.path)
    assert run(None, seed=4, steps=64, init=short).rows == began.rows


def test_init__of_an_off_policy_run_takes_all_its_networks(tmp_path):
    first = run(tmp_path / "first", agent=OFF_POLICY, steps=100)
    still = replace(OFF_POLICY, learning_starts=1000)
    with pytest.warns(UserWarning, match="learns nothing"):
        second = run(tmp_path / "second", agent=still, steps=50, init=first)
    before, after = parameters(first.path), parameters(second.path)
    names = [name for name in after if ".learned." in name and "moments" not in name]
    assert {name.split(".")[2].split("[")[0] for name in names} == {
        *("policy", "critics", "target_policy", "target_critics")
    }
    for name in names:
        np.testing.assert_array_equal(after[name], before[name], strict=True)


def test_stopped_run_with_init__resumes_without_the_run_it_came_from(short, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(short.path, source)
    calm = run(tmp_path / "calm", init=source)
    stopped = run(tmp_path / "stopped", [StopAt(96)], init=source)
    shutil.rmtree(source)
    assert resume(stopped, **EVERY_UPDATE).done
    assert fingerprint(stopped.path) == fingerprint(calm.path)


@pytest.mark.parametrize("command", ["init", "lengthen"])
def test_killed_before_anything_was_taken__is_refused_and_can_be_repeated(
    short, tmp_path, monkeypatch, command
):
    """Resuming it would train from scratch under a configuration that says otherwise."""
    out = tmp_path / "run"

    def begin():
        if command == "init":
            return run(out, init=short)
        return resume(short, **EVERY_UPDATE, steps=LONGER, out=out)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(origins.Source, "copy_to", die)
        with pytest.raises(KeyboardInterrupt):
            begin()
    with pytest.raises(ValueError, match=r"was stopped before it had the .* repeat the command"):
        resume(out, **EVERY_UPDATE)
    assert begin().done


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agent": replace(AGENT, hidden=(4,))}, r"init='.*': checkpoint holds .*\.params"),
        ({"agent": replace(AGENT, advantage=TaylorCritic(0.999))}, r"init='.*': .*\.critic"),
        ({"env_or_task": "HalfCheetah-v4"}, r"init='.*': checkpoint holds .*\.params"),
        ({"agent": OFF_POLICY}, r"init='.*': checkpoint and agent differ in '\.learned"),
        ({"init": "nowhere"}, "nowhere: is not a run directory"),
    ],
)
def test_parameters_that_do_not_fit__are_refused(short, changes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(None, **{"init": short.path} | changes)


def test_init__may_change_the_kind_of_on_policy_agent(short):
    trpo = TRPO(num_envs=2, num_steps=16, hidden=(8,))
    assert train(trpo, "Hopper-v4", 32, time_limit=20, evaluation=Evaluation(every=0), init=short)


def test_run_in_memory__is_nothing_to_begin_from(short):
    here = run(None, steps=64)
    with pytest.raises(ValueError, match="init: was kept in memory"):
        run(None, init=here)
    with pytest.raises(ValueError, match="run: was kept in memory"):
        resume(here, steps=128)


def test_ordinary_configuration__has_no_origin(short):
    assert "origin" not in from_json(short.path / "config.json")["settings"]
