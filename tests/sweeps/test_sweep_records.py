"""Records: what runs have stored, whole or cut, in the order of the spec."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime.runs.files import to_json
from gammaprime.sweeps import spec
from gammaprime.sweeps.records import own_discounts, read_records

SPEC = """
title = "three variants, two of them the same"
base = { kind = "ppo", num_steps = 64, minibatches = 4 }
tasks = ["Hopper-v4", "Swimmer-v4"]
seeds = [0, 1]
steps = 1_000
[[variants]]
name = "PPO"
[[variants]]
name = "the same"
gamma = 0.99
[[variants]]
name = "PPO 0.999"
gamma = 0.999
protocol = { eval_gamma_prime = 0.9 }
[figure]
kind = "curves"
"""


def row(step, episodes, judged=None):
    told = {"time/total_timesteps": step, "episodes": episodes}
    if judged is not None:
        names = ("eval/mean_reward", "eval/mean_reward_gamma", "eval/mean_reward_gamma_prime")
        told |= dict(zip(names, judged, strict=True))
    return told


ROWS = [
    row(64, [[30, 30, 5.0, 4.0, 4.5]]),
    row(128, [], judged=(10.0, 8.0, 9.0)),
    row(192, [[100, 70, 6.0, 5.0, 5.5], [150, 50, 7.0, 6.0, 6.5]], judged=(11.0, 9.0, 10.0)),
]


def store(path, config, content, done=True):
    path.mkdir(parents=True)
    (path / "config.json").write_bytes(to_json(config))
    (path / "manifest.json").write_text('{"cpu": "a processor"}')
    (path / "metrics.jsonl").write_bytes(content)
    if done:
        digest = hashlib.sha256(content).hexdigest()
        (path / "done").write_text(json.dumps({"metrics_sha256": digest, "seconds": 2.0}))


def lines(rows):
    return b"".join(to_json(row, indent=None) for row in rows)


@pytest.fixture
def sweep():
    return spec.parse(SPEC, "mine", where="mine.toml")


def test_records__are_one_for_each_variant_task_and_seed_in_order(sweep, tmp_path):
    records = read_records(sweep, tmp_path)
    order = [(r.variant, r.task, r.seed) for r in records]
    tasks = ("Hopper-v4", "Swimmer-v4")
    names = ("PPO", "the same", "PPO 0.999")
    assert order == [(name, task, seed) for name in names for task in tasks for seed in (0, 1)]
    for record in records:
        assert (record.steps, record.reached, record.done) == (1_000, 0, False)
        assert record.episodes.shape == (0, 5)
        assert record.evaluations.shape == (0, 4)
        assert record.manifest == {}
        assert record.config["settings"]["seed"] == record.seed
    assert {r.gamma_prime for r in records if r.variant == "PPO"} == {0.999}
    assert {r.gamma_prime for r in records if r.variant == "PPO 0.999"} == {0.9}


def test_finished_run__is_read_by_all_variants_that_share_it(sweep, tmp_path):
    first = sweep.runs()[0]
    store(first.path(tmp_path), first.config, lines(ROWS))
    read = [r for r in read_records(sweep, tmp_path) if r.reached]
    assert [r.variant for r in read] == ["PPO", "the same"]
    for record in read:
        assert record.path == first.path(tmp_path)
        assert record.done
        assert record.reached == 192
        np.testing.assert_array_equal(record.episodes[:, 0], [30, 100, 150])
        np.testing.assert_array_equal(record.episodes[0], [30, 30, 5.0, 4.0, 4.5])
        np.testing.assert_array_equal(record.evaluations, [[128, 10, 8, 9], [192, 11, 9, 10]])
        assert record.manifest == {"cpu": "a processor"}


def test_run_under_way__is_read_without_the_line_that_is_being_written(sweep, tmp_path):
    first = sweep.runs()[0]
    store(first.path(tmp_path), first.config, lines(ROWS)[:-9], done=False)
    record = read_records(sweep, tmp_path)[0]
    assert (record.reached, record.done) == (128, False)
    assert len(record.episodes) == 1


def test_metrics_that_were_changed__are_refused(sweep, tmp_path):
    first = sweep.runs()[0]
    path = first.path(tmp_path)
    store(path, first.config, lines(ROWS))
    (path / "metrics.jsonl").write_bytes(lines(ROWS[:2]))
    with pytest.raises(ValueError, match=r"metrics.jsonl: damaged"):
        read_records(sweep, tmp_path)


def test_folder_of_another_configuration__is_refused(sweep, tmp_path):
    first = sweep.runs()[0]
    store(first.path(tmp_path), {"kind": "train", "settings": {}}, lines(ROWS))
    with pytest.raises(ValueError, match="belongs to another configuration"):
        read_records(sweep, tmp_path)


def test_records__are_found_wherever_the_folder_is_named_from(sweep, tmp_path, monkeypatch):
    first = sweep.runs()[0]
    store(first.path(tmp_path / "runs"), first.config, lines(ROWS))
    monkeypatch.chdir(tmp_path)
    assert read_records(sweep, Path("runs"))[0].done


@pytest.mark.parametrize(
    ("stored", "known"),
    [
        ([("A", None, 0.9), ("B", None, 0.99)], {"A": 0.9, "B": 0.99}),
        ([("A", None, 0.9), ("A", None, 0.9), ("A", 50, 0.98)], {"A": 0.9}),
        ([("A", None, 0.9), ("A", None, 0.5), ("B", 50, 0.98)], {}),
    ],
)
def test_own_discounts__are_those_on_which_all_runs_of_a_task_agree(tmp_path, stored, known):
    for i, (task, limit, gamma_prime) in enumerate(stored):
        protocol = {"time_limit": limit, "eval_gamma_prime": gamma_prime}
        (tmp_path / str(i)).mkdir()
        config = {"kind": "train", "settings": {"task": task, "protocol": protocol}}
        (tmp_path / str(i) / "config.json").write_bytes(to_json(config))
    for name, text in (("torn", "{"), ("toy", '{"kind": "toy", "settings": {"seed": 0}}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    assert own_discounts(tmp_path) == known
