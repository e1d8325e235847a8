"""What is read of a run: metrics as columns, its policy, its configuration."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gammaprime.runs.metrics import Metrics
from gammaprime.runs.run import Run, load_policy, read_metrics

PUBLISHED = Path(__file__).resolve().parents[2] / "results/published/runs"
ROWS = [
    {"time/total_timesteps": 32, "episodes": []},
    {"time/total_timesteps": 64, "train/loss": 0.5, "episodes": [[40, 20, 1.0, 0.5, 0.9]]},
    {"time/total_timesteps": 96, "train/loss": 0.25, "eval/episodes": [], "episodes": []},
]


def write(folder, rows=ROWS, rest=""):
    folder.mkdir(exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(lines + rest)
    return folder


def test_metrics__are_columns_with_nan_where_a_row_has_none(tmp_path):
    metrics = read_metrics(write(tmp_path))
    assert list(metrics) == ["time/total_timesteps", "train/loss"]
    np.testing.assert_array_equal(metrics["time/total_timesteps"], [32, 64, 96])
    assert metrics["time/total_timesteps"].dtype == np.int64
    np.testing.assert_array_equal(metrics["train/loss"], [np.nan, 0.5, 0.25])
    assert repr(metrics) == "Metrics(time/total_timesteps, train/loss)"


def test_line_that_is_still_being_written__is_left_out(tmp_path):
    whole = read_metrics(write(tmp_path / "whole"))
    cut = read_metrics(write(tmp_path / "cut", rest='{"time/total_timesteps": 12'))
    assert list(cut) == list(whole)
    np.testing.assert_array_equal(cut["time/total_timesteps"], whole["time/total_timesteps"])


def test_metrics__become_a_data_frame_where_pandas_is_there(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    metrics = Metrics(ROWS)
    frame = metrics.to_pandas()
    assert list(frame) == ["time/total_timesteps", "train/loss"]
    for name, column in metrics.items():
        np.testing.assert_array_equal(frame[name].to_numpy(), column)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs pandas: pip install pandas"):
        Metrics(ROWS).to_pandas()


def test_folder_without_a_run__is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no metrics here"):
        read_metrics(tmp_path)
    with pytest.raises(FileNotFoundError, match="no policy here"):
        load_policy(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a run directory"):
        Run.load(tmp_path)
    (tmp_path / "config.json").write_text('{"kind": "toy", "settings": {}}')
    with pytest.raises(ValueError, match=r"config\.json: is not the configuration of a training"):
        Run.load(tmp_path)


def test_published_run__is_loaded():
    folder = sorted(PUBLISHED.glob("*/config.json"))[0].parent
    run = Run.load(folder)
    assert run.done
    assert run.steps == run.metrics["time/total_timesteps"][-1] <= run.config.steps
    assert run.config.folder == folder.name
