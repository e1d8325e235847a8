"""Damaged files beside the numbers, files that name code, and what a run is told of threads."""

import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("threadpoolctl")

import threadpoolctl

from gammaprime.agents import PPO
from gammaprime.runs import lock, startup
from gammaprime.runs.config import Evaluation
from gammaprime.runs.directory import from_json, is_done
from gammaprime.runs.metrics import read_rows
from gammaprime.runs.results import read_history
from gammaprime.runs.run import read_config
from gammaprime.runs.training import Callback, resume, train
from runs.failing_disk import Killed, failing_writes
from runs.training_runs import AGENT, EVERY_UPDATE, STEPS, TASK, StopAt, fingerprint, run

DEEP = b"[" * 100_000


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("runs") / "undisturbed")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "stopped"
    run(out, [StopAt(64)])
    return out


@pytest.fixture
def out(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


@pytest.mark.parametrize("content", [b"", b"{}\n", b"5\n", b"\xff\n", DEEP])
def test_damaged_wall_clock__stops_nothing(undisturbed, out, content):
    (out / "wall_clock.jsonl").write_bytes(content)
    run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


@pytest.mark.parametrize("seconds", ["NaN", "-Infinity", "1e999", "9" * 400, '"nan"'])
def test_wall_clock_whose_seconds_are_no_number__stops_nothing(undisturbed, out, seconds):
    clock = out / "wall_clock.jsonl"
    steps = [json.loads(line)["time/total_timesteps"] for line in clock.read_text().splitlines()]
    line = '{"time/time_elapsed": %s, "time/total_timesteps": %d}\n'
    clock.write_text("".join(line % (seconds, step) for step in steps))
    assert len(read_history(out).seconds) == 0
    run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", DEEP])
def test_damaged_manifest__stops_nothing_and_is_told(undisturbed, out, content):
    (out / "manifest.json").write_bytes(content)
    with pytest.warns(UserWarning, match=r"manifest\.json: .*began with is not known"):
        run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_damaged_hash_in_a_manifest__stops_nothing_where_a_checkpoint_has_the_hash(
    undisturbed, out
):
    manifest = from_json(out / "manifest.json")
    (out / "manifest.json").write_text(json.dumps(manifest | {"config_sha256": "0" * 64}))
    run(out)
    assert fingerprint(out) == fingerprint(undisturbed.path)


def test_done_without_a_hash__is_named(undisturbed, tmp_path):
    out = shutil.copytree(undisturbed.path, tmp_path / "done")
    (out / "done").write_text("{}")
    with pytest.raises(ValueError, match=r"done: damaged, it has no hash"):
        is_done(out, from_json(out / "config.json"))


@pytest.mark.parametrize(
    "change",
    [
        *({"pid": x} for x in (-1, 0, 2**31, 10**400, True)),
        *({"created": x} for x in (10**400, float("nan"))),
        *({"progress": {"fps": x}} for x in (float("nan"), float("inf"), 10**400)),
    ],
)
def test_lock_of_this_machine_with_odd_numbers__is_held_as_long_as_it_is_young(tmp_path, change):
    (tmp_path / ".lock-000001").write_text(json.dumps(lock.this_process() | change))
    (tmp_path / ".lock-²").write_text("{}")
    assert lock.read(tmp_path).progress == {}


@pytest.mark.parametrize(
    "content",
    [
        *(b"5", b"[]", b"{}", b'{"pid": "x"}', b'{"pid": 1, "created": null}', DEEP),
        b'{"pid": 1, "created": 1.0, "progress": 5}',
        b'{"pid": 1, "created": 1.0, "progress": {"steps": "x", "total": 1}}',
    ],
)
def test_lock_with_odd_contents__is_held_as_long_as_it_is_young(tmp_path, content):
    file = tmp_path / ".lock-000001"
    file.write_bytes(content)
    assert lock.read(tmp_path).progress == {}
    old = time.time() - 2 * lock.PATIENCE
    os.utime(file, (old, old))
    assert lock.read(tmp_path) is None


@pytest.mark.parametrize("line", [b"{}", b"5", b"[1]", b'{"time/total_timesteps": "x"}', DEEP])
def test_line_that_is_none_of_metrics__is_named(out, line):
    (out / "metrics.jsonl").write_bytes(line + b"\n")
    for read in (read_rows, read_history):
        with pytest.raises(ValueError, match=r"metrics\.jsonl: line 1: "):
            read(out)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": ["train"]},
        {"settings": None},
        {"settings": 5},
        *({"protocol": x} for x in (None, 5, {"eval_every": "x"}, {"eval_episodes": [1]})),
        *({"agent": x} for x in (None, 5, {"kind": ["ppo"]}, {"kind": {"a": 1}}, ["ppo"])),
        *({"steps": x} for x in (None, "many", [1], 1.5)),
        *({"seed": x} for x in (None, "1", -1, 0.5)),
        *({"task": x} for x in (None, 5, [1], {}, {"object": [1]}, "a:b:c")),
        *({"protocol": {"time_limit": x}} for x in (-1, "x", 2**63, 10**400)),
        {"steps": 10**400},
        {"agent": {"kind": "ppo", "learning_rate": 10**400}},
    ],
)
def test_configuration_of_wrong_types__is_one_line_that_names_the_file(out, change):
    table = from_json(out / "config.json")
    (table if set(change) <= set(table) else table["settings"]).update(change)
    (out / "config.json").write_text(json.dumps(table))
    with pytest.raises(ValueError, match=r"config\.json: ") as refused:
        read_config(out)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"5", b"[[1]]", b"\xff", DEEP])
def test_configuration_that_is_none__is_one_line_that_names_the_file(out, content):
    (out / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json: "):
        read_config(out)


def test_configuration_that_is_changed_before_the_first_checkpoint__is_refused(out):
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    (out / "done").unlink(missing_ok=True)
    table = from_json(out / "config.json")
    table["settings"]["seed"] += 1
    (out / "config.json").write_text(json.dumps(table))
    with pytest.raises(
        ValueError, match=r"config\.json: its hash is not the one in manifest\.json"
    ):
        resume(out)


NAMED = {"task": "evil:Env-v0", "advantage": {"kind": "evil:Slot"}}


@pytest.mark.parametrize("key", NAMED)
def test_code_that_a_file_names__is_imported_only_if_allowed(out, tmp_path, monkeypatch, key):
    (tmp_path / "evil.py").write_text("raise RuntimeError('was run')")
    monkeypatch.syspath_prepend(tmp_path)
    table = from_json(out / "config.json")
    settings = table["settings"]
    (settings if key == "task" else settings["agent"])[key] = NAMED[key]
    (out / "config.json").write_text(json.dumps(table))
    name = NAMED[key] if key == "task" else NAMED[key]["kind"]
    told = rf"config\.json: '{name}' would import and run the module 'evil'.*--allow-imports"
    with pytest.raises(ValueError, match=told):
        resume(out)
    monkeypatch.setenv("GAMMAPRIME_ALLOW_IMPORTS", "1")
    with pytest.raises(RuntimeError, match="was run"):
        resume(out)


def test_training__has_one_blas_thread_and_gives_the_others_back(tmp_path):
    def threads():
        found = threadpoolctl.threadpool_info()
        return [pool["num_threads"] for pool in found if pool["user_api"] == "blas"]

    class Look(Callback):
        def on_update(self, update):
            seen.append(threads())

    seen = []
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        run(tmp_path / "run", [Look()], steps=64)
        assert threads() == before
    assert before
    assert set(before) == {2}
    assert all(set(count) == {1} for count in seen)
    assert from_json(tmp_path / "run/manifest.json")["blas_threads"] == 1


LARGE = """
import sys
import gammaprime as gp

agent = gp.PPO(num_envs=64, num_steps=8, hidden=(256, 256), epochs=1, minibatches=2)
gp.train(agent, "Ant-v4", 1024, out=sys.argv[1], evaluation=gp.Evaluation(every=0))
"""


@pytest.mark.slow
def test_large_networks_from_python__have_the_same_bits_whatever_threads_blas_was_given(tmp_path):
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        words = [sys.executable, "-c", LARGE, str(tmp_path / threads)]
        subprocess.run(words, env=environment, check=True, timeout=300)
    assert fingerprint(tmp_path / "1") == fingerprint(tmp_path / "2")


def test_run_that_began_with_other_threads__is_told(out):
    manifest = from_json(out / "manifest.json")
    (out / "manifest.json").write_text(json.dumps(manifest | {"blas_threads": 2}))
    with pytest.warns(UserWarning, match="began with blas_threads 2, goes on with 1"):
        run(out)


def test_run_that_began_before_threads_were_noted__is_not_told(out):
    manifest = from_json(out / "manifest.json")
    kept = {name: x for name, x in manifest.items() if not name.endswith("_threads")}
    (out / "manifest.json").write_text(json.dumps(kept))
    assert run(out).done


@pytest.mark.parametrize("what", ["the folder", "what is in it"])
def test_folder_that_is_removed_while_training__is_told_and_nothing_is_called_saved(tmp_path, what):
    out = tmp_path / "run"

    class Remove(Callback):
        def on_update(self, update):
            if update.steps == 64:
                for path in [out] if what == "the folder" else out.glob("[!.]*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    with pytest.raises(FileNotFoundError, match="was removed while it was trained; nothing of it"):
        run(out, [Remove()])


def test_seed_and_settings_of_numpy__are_taken_as_integers(tmp_path):
    agent = PPO(num_envs=np.int64(2), num_steps=16, hidden=(8,), epochs=2, minibatches=2)
    made = run(tmp_path / "run", agent=agent, seed=np.int64(3), steps=np.int64(64))
    other = run(None, steps=64)
    assert made.config.folder == other.config.folder
    assert made.rows == other.rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agent": PPO}, r"agent=<class .*PPO'>: must be an agent with its settings, like PPO\(\)"),
        ({"agent": "ppo"}, "agent='ppo': must be an agent with its settings"),
        ({"steps": None}, "steps=None: must be a whole number of at least 1"),
        ({"steps": "1e6"}, "steps='1e6': must be a whole number"),
        ({"steps": 10**400}, "steps=1000.*: must be a whole number"),
        ({"callbacks": Callback}, "callbacks=<class .*: must be objects like MyCallback"),
        ({"callbacks": None}, "callbacks=None: must be objects"),
        ({"evaluation": Evaluation}, "evaluation=<class .*: must be like Evaluation"),
        ({"time_limit": 1.5}, "time_limit=1.5: must be an integer >= 1"),
        ({"time_limit": 2**63}, "time_limit=9223372036854775808: must be at least 1 and below"),
    ],
)
def test_arguments_of_wrong_kinds__are_one_line(tmp_path, changes, message):
    settings = {"agent": AGENT, "env_or_task": TASK, "steps": STEPS} | changes
    with pytest.raises(ValueError, match=message):
        train(**settings, out=tmp_path / "run", **EVERY_UPDATE)
    assert not (tmp_path / "run").exists()


CACHE = "import sys; from pathlib import Path; from gammaprime.runs import startup\n"
CACHE += "for _ in range(300): assert startup.cache_compilations(Path(sys.argv[1]))"


def test_compilation_cache__is_cleaned_by_processes_that_start_together(tmp_path):
    words = [sys.executable, "-c", CACHE, str(tmp_path)]
    several = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    old = time.time() - 2 * startup.WRITTEN_WITHIN
    while any(process.poll() is None for process in several):
        for i in range(20):
            file = tmp_path / f"{i}-cache"
            file.write_bytes(b"x\x9c")
            if file.is_file():
                try:
                    os.utime(file, (old, old))
                except FileNotFoundError:
                    continue
    for process in several:
        assert process.communicate()[1] == ""
        assert process.returncode == 0


def test_entry_that_another_process_is_writing__stays(tmp_path):
    young, old = tmp_path / "young-cache", tmp_path / "old-cache"
    for file in (young, old):
        file.write_bytes(b"x\x9c")
    then = time.time() - 2 * startup.WRITTEN_WITHIN
    os.utime(old, (then, then))
    startup.cache_compilations(tmp_path)
    assert young.is_file()
    assert not old.exists()


def test_stray_temporary_files__are_removed_at_any_depth(tmp_path):
    out = tmp_path / "run"
    with failing_writes(9), pytest.raises(Killed):
        run(out)
    stray = [out / "checkpoints/.a.json.7.tmp", out / ".clock-7-7.tmp", out / ".done.7.tmp"]
    (out / "checkpoints").mkdir(exist_ok=True)
    for manifest in (out / "checkpoints").glob("*.json"):
        manifest.unlink()  # without a checkpoint the run begins anew
    for file in stray:
        file.touch()
    run(out)
    assert not list(out.rglob(".*.tmp"))


def test_token_of_a_process_that_has_ended__is_known(tmp_path):
    code = "import sys; from pathlib import Path; from gammaprime.runs import directory, lock\n"
    code += "Path(sys.argv[1]).write_bytes(directory.to_json(lock.this_process()))"
    ended, own, odd = (tmp_path / name for name in ("ended", "own", "odd"))
    subprocess.run([sys.executable, "-c", code, str(ended)], check=True)
    own.write_text(json.dumps(lock.this_process()))
    odd.write_bytes(b"")
    assert [lock.has_ended(file) for file in (ended, own, odd)] == [True, False, False]
