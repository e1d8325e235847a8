"""Published runs: small copies that tell the same."""

import json

import numpy as np
import pytest

from gammaprime.sweeps import history
from gammaprime.sweeps.publish import publish, publish_spec
from gammaprime.sweeps.records import read_records
from tests.figures import fake_runs


@pytest.fixture
def sweep():
    return fake_runs.load(fake_runs.CURVES).change(seeds=[0, 1], tasks=["Hopper-v4"])


def stored(sweep, root, share=lambda planned: 1.0):
    fake_runs.write(sweep, root, lambda planned: 1000.0 / 3.0 + planned.seed, share)
    return read_records(sweep, root)


def test_publish__keeps_what_records_hold_to_seven_digits(sweep, tmp_path):
    records = stored(sweep, tmp_path / "runs")
    for record in records:
        publish(record, tmp_path / "published")
    copies = read_records(sweep, tmp_path / "published")
    assert len(copies) == len(records) == 6
    for copy, record in zip(copies, records, strict=True):
        assert copy.done
        assert (copy.manifest, copy.config, copy.reached) == (
            record.manifest,
            record.config,
            record.reached,
        )
        for mine, theirs in (
            (copy.episodes, record.episodes),
            (copy.evaluations, record.evaluations),
        ):
            assert len(mine) > 0
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=0)


def test_publish__leaves_out_what_no_figure_reads(sweep, tmp_path):
    record = stored(sweep, tmp_path / "runs")[0]
    metrics = record.path / "metrics.jsonl"
    rows = [json.loads(line) | {"train/loss": 1 / 3} for line in metrics.read_text().splitlines()]
    silent = {"time/total_timesteps": 1, "episodes": []}
    rows = [silent, *rows, silent | {"time/total_timesteps": 99_999}, rows[-1] | {"episodes": []}]
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (record.path / "policy.npz").write_bytes(b"large")
    path = publish(record, tmp_path / "published")
    names = {file.name for file in path.iterdir()}
    assert names == {"config.json", "manifest.json", "metrics.jsonl", "done"}
    lines = (path / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == len(rows) - 2
    assert "train/loss" not in "".join(lines)


def test_publish_spec__takes_each_finished_run_once(tmp_path):
    spec = tmp_path / "made_up.toml"
    same = '[[variants]]\nname = "PPO once more"\n\n[figure]'
    text = fake_runs.CURVES.replace("seeds = [0, 1, 2, 3, 4]", "seeds = [0, 1]")
    text = text.replace("[figure]", same)
    spec.write_text(text)
    sweep = fake_runs.load(text)
    half = {0: 0.5}
    stored(sweep, tmp_path / "runs", share=lambda planned: half.get(planned.seed, 1.0))
    found = publish_spec(str(spec), tmp_path / "runs", tmp_path / "published")
    runs = [path for path in (tmp_path / "published").iterdir() if path.name != history.FOLDER]
    assert sorted(found) == sorted(runs)
    assert {path.name for path in found} == {
        planned.path(tmp_path).name for planned in sweep.runs() if planned.seed not in half
    }


def test_publish_spec__leaves_what_a_report_is_written_from(sweep, tmp_path):
    spec = tmp_path / "made_up.toml"
    spec.write_text(fake_runs.CURVES)
    stored(sweep, tmp_path / "runs")
    publish_spec(str(spec), tmp_path / "runs", tmp_path / "published")
    (note,) = history.noted(tmp_path / "published")
    told = read_records(history.recall(note), tmp_path / "published")
    assert sum(record.done for record in told) == len(sweep.runs()) > 0


def test_publish_spec__says_where_there_is_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run of smoke is done here; gammaprime run"):
        publish_spec("smoke", tmp_path, tmp_path / "published")
    with pytest.raises(ValueError, match="fig_errors: is computed"):
        publish_spec("fig_errors", tmp_path, tmp_path / "published")


def test_publish__never_shortens_the_run_itself(sweep, tmp_path):
    record = stored(sweep, tmp_path / "runs")[0]
    before = (record.path / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match="is the run itself"):
        publish(record, tmp_path / "runs")
    assert (record.path / "metrics.jsonl").read_bytes() == before
