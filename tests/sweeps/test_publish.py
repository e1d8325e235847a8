"""Published runs: small copies that tell the same."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from gammaprime.runs.directory import COMPRESSED, read_lines
from gammaprime.runs.metrics import leave_out_ends, parse_rows
from gammaprime.runs.run import read_metrics
from gammaprime.sweeps.publish import publish, publish_run, without_folders
from gammaprime.sweeps.report import NOTES, find_notes, read_note
from gammaprime.sweeps.spec import load_experiment
from tests.figures import fake_runs


@pytest.fixture
def sweep():
    return fake_runs.load(fake_runs.CURVES).change(seeds=[0, 1], tasks=["Hopper-v4"])


def stored(sweep, root, share=lambda run: 1.0):
    fake_runs.write(sweep, root, lambda run: 1000.0 / 3.0 + run.seed, share)
    return sweep.results(root)


def test_publish__keeps_what_results_hold_to_five_digits(sweep, tmp_path):
    records = stored(sweep, tmp_path / "runs")
    publish(sweep, tmp_path / "runs", tmp_path / "published")
    copies = sweep.results(tmp_path / "published")
    assert len(copies) == len(records) == 6
    for copy, record in zip(copies, records, strict=True):
        assert copy.done
        assert (copy.config, copy.reached) == (record.config, record.reached)
        assert copy.manifest == {**copy.manifest, **record.manifest}
        for mine, theirs in (
            (copy.episodes, record.episodes),
            (copy.evaluations, record.evaluations),
        ):
            assert len(mine) > 0
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=0)


def test_publish__leaves_out_what_no_figure_reads(sweep, tmp_path):
    record = stored(sweep, tmp_path / "runs")[0]
    metrics = record.path / "metrics.jsonl"
    rows = [json.loads(line) | {"train/loss": 1 / 3} for line in metrics.read_text().splitlines()]
    silent = {"time/total_timesteps": 1, "episodes": []}
    rows = [silent, *rows, silent | {"time/total_timesteps": 99_999}, rows[-1] | {"episodes": []}]
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (record.path / "policy.npz").write_bytes(b"large")
    path = publish_run(record, tmp_path / "published")
    names = {file.name for file in path.iterdir()}
    assert names == {"config.json", "manifest.json", "metrics.jsonl.xz", "done"}
    lines = read_lines(path).decode().splitlines()
    assert len(lines) == len(rows) - 2
    assert "train/loss" not in "".join(lines)


def test_published_command__names_no_folder_of_the_machine(sweep, tmp_path):
    record = stored(sweep, tmp_path / "runs")[0]
    command = ["gammaprime", "run", "../own.toml", "--out", "/home/me/runs", "--ray=/run/ray"]
    record.manifest["command"] = command
    path = publish_run(record, tmp_path / "published")
    told = json.loads((path / "manifest.json").read_text())["command"]
    assert told == ["gammaprime", "run", "../own.toml", "--out", "runs", "--ray=ray"]
    assert command[4] == "/home/me/runs"
    for other in ({"seed": 0}, {"command": None}, {"command": 3}):
        assert without_folders(other) == other


def one_after_another(lengths):
    ends = np.cumsum(lengths).tolist()
    return [[end, length, 0.5, 0.25, 0.5] for end, length in zip(ends, lengths, strict=True)]


ENDS = st.integers(0, 99) | st.sampled_from([3.0, 7.0])
EPISODES = st.lists(st.tuples(ENDS, ENDS).map(lambda two: [*two, 0.5, 0.25, 0.5]), max_size=4)


@given(
    st.lists(EPISODES | st.lists(st.integers(1, 9), max_size=4).map(one_after_another), max_size=4)
)
def test_ends_that_are_left_out__come_back(updates):
    rows = [{"time/total_timesteps": 1, "episodes": episodes} for episodes in updates]
    content = "".join(f"{json.dumps(row)}\n" for row in leave_out_ends(rows))
    assert parse_rows(content.encode(), "metrics") == rows


def test_ends_of_one_environment__are_left_out_across_updates():
    first, second = one_after_another([5, 7, 2, 9])[:3], one_after_another([5, 7, 2, 9])[3:]
    rows = [{"episodes": first}, {"episodes": []}, {"episodes": second}]
    told = leave_out_ends(rows)
    assert [len(episode) for row in told for episode in row["episodes"]] == [4, 4, 4, 4]


def test_publish__takes_each_finished_run_once(tmp_path):
    same = '[[variants]]\nname = "PPO once more"\n\n[figure]'
    text = fake_runs.CURVES.replace("seeds = [0, 1, 2, 3, 4]", "seeds = [0, 1]")
    sweep = fake_runs.load(text.replace("[figure]", same))
    half = {0: 0.5}
    stored(sweep, tmp_path / "runs", share=lambda run: half.get(run.seed, 1.0))
    found = publish(sweep, tmp_path / "runs", tmp_path / "published")
    runs = [path for path in (tmp_path / "published").iterdir() if path.name != NOTES]
    assert sorted(found) == sorted(runs)
    assert {path.name for path in found} == {
        config.folder for _, config in sweep.configs() if config.seed not in half
    }


def test_publish__leaves_what_a_report_is_written_from(sweep, tmp_path):
    stored(sweep, tmp_path / "runs")
    publish(sweep, tmp_path / "runs", tmp_path / "published")
    (note,) = find_notes(tmp_path / "published")
    told = read_note(note).results(tmp_path / "published")
    assert sum(result.done for result in told) == len(sweep.configs()) > 0


def test_publish__says_where_there_is_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run of smoke is done here; first: gammaprime"):
        publish(load_experiment("smoke"), tmp_path, tmp_path / "published")


def test_publish__writes_a_copy_again_only_if_it_is_damaged_or_another(sweep, tmp_path):
    first, second, third, *_ = stored(sweep, tmp_path / "runs")
    copies = [publish_run(record, tmp_path / "published") for record in (first, second, third)]
    whole = [(copy / COMPRESSED).read_bytes() for copy in copies]
    (copies[1] / COMPRESSED).write_bytes(whole[1][:-9])
    fake_runs.write(sweep, tmp_path / "other", lambda run: 7.0)
    (changed,) = [r for r in sweep.results(tmp_path / "other") if r.path.name == copies[2].name]
    before = [(copy / COMPRESSED).stat().st_mtime_ns for copy in copies]
    for record in (first, second, changed):
        publish_run(record, tmp_path / "published")
    after = [(copy / COMPRESSED).stat().st_mtime_ns for copy in copies]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, False]
    assert (copies[1] / COMPRESSED).read_bytes() == whole[1]
    assert (copies[2] / COMPRESSED).read_bytes() != whole[2]


def test_publish__never_shortens_the_run_itself(sweep, tmp_path):
    record = stored(sweep, tmp_path / "runs")[0]
    before = (record.path / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match="is the run itself"):
        publish_run(record, tmp_path / "runs")
    assert (record.path / "metrics.jsonl").read_bytes() == before


def test_published_metrics__are_read_like_those_of_a_run(sweep, tmp_path):
    record = stored(sweep, tmp_path / "runs")[0]
    path = publish_run(record, tmp_path / "published")
    steps = read_metrics(path)["time/total_timesteps"]
    np.testing.assert_array_equal(steps, read_metrics(record.path)["time/total_timesteps"])


@pytest.mark.parametrize("damage", [lambda x: x[:-9], lambda x: x[:-1] + b"?", lambda x: b"?" * 40])
def test_published_metrics_that_are_damaged__are_refused(sweep, tmp_path, damage):
    path = publish_run(stored(sweep, tmp_path / "runs")[0], tmp_path / "published")
    file = path / COMPRESSED
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=r"metrics.jsonl.xz: damaged"):
        read_lines(path)
