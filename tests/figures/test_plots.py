"""Plots of single runs: what is joined, named, smoothed and refused."""

import json

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figures.fake_runs import CURVES, load, write
from gammaprime import cli
from gammaprime.figures import plots
from gammaprime.runs.results import find_runs, read_history


@pytest.fixture
def folder(tmp_path):
    """Runs of two tasks, three variants and five seeds, without the note of their sweep."""
    write(load(CURVES), tmp_path / "runs", lambda planned: 100.0 + planned.seed)
    return tmp_path / "runs"


def histories(folder):
    return [read_history(path) for path in find_runs([folder])]


def test_seeds_of_one_configuration__are_one_line_named_by_what_differs(folder):
    drawn = plots.lines(histories(folder), plots.Options())
    assert sorted({line.name for line in drawn}) == [
        "ppo, gae, gamma 0.99",
        "ppo, gae, gamma 0.999",
        "ppo, taylor_q",
    ]
    assert {(line.task, len(line.curves)) for line in drawn} == {
        ("Hopper-v4", 5),
        ("Walker2d-v4", 5),
    }


def test_points__are_means_over_the_share_of_the_axis_that_the_footnote_names(folder):
    (run, *_) = histories(folder)
    (line,) = plots.lines([run], plots.Options(smooth=0.5))
    ended, value = run.episodes[:, 0], run.episodes[:, 2]
    assert line.curves[0, -1] == pytest.approx(value[ended > 0.5 * ended.max()].mean())
    assert "last 50 % of the axis" in plots.describe([line], plots.Options(smooth=0.5))
    (raw,) = plots.lines([run], plots.Options(smooth=0.0))
    assert raw.curves[0, -1] == value[-1]


def test_any_metric__against_seconds(folder):
    path = find_runs([folder])[0]
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    clock = [{"time/total_timesteps": r["time/total_timesteps"]} for r in rows]
    lines = [json.dumps(c | {"time/time_elapsed": 2.0 * i}) for i, c in enumerate(clock, 1)]
    (path / "wall_clock.jsonl").write_text("\n".join(lines) + "\n")
    run = read_history(path)
    (line,) = plots.lines([run], plots.Options("eval/mean_reward", x="seconds", smooth=0.0))
    assert line.grid[-1] == 2.0 * len(rows)
    assert line.curves[0, -1] == rows[-1]["eval/mean_reward"]
    assert np.isnan(line.curves[0, 0])  # before the first evaluation


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_command__writes_the_format_of_its_file(folder, suffix, capsys):
    out = folder.parent / f"picture{suffix}"
    assert cli.main(["plot", str(folder), "--metric", "J_gamma", "--log", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert out.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--metric retrun", "unknown metric 'retrun': did you mean 'return'?"),
        ("--x seconds", "has no wall-clock; plot it against steps"),
        ("--out a.gif", "a.gif: must end in .png, .svg, .pdf"),
        ("--smooth 2", "smooth=2.0: must lie in [0, 1]"),
    ],
)
def test_what_cannot_be_plotted__is_one_line(folder, words, message, capsys, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert cli.main(["plot", str(folder), *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_folder_without_runs__is_refused(tmp_path, capsys):
    assert cli.main(["plot", str(tmp_path)]) == 2
    assert "holds no training run" in capsys.readouterr().err


def test_report__of_the_folder_of_one_run_shows_it(folder):
    run, out = sorted(folder.iterdir())[0], folder.parent / "page.html"
    assert cli.main(["report", str(run), "--out", str(out)]) == 0
    assert "Single runs" in (page := out.read_text())
    assert run.name in page


def test_report__shows_runs_that_belong_to_no_sweep(folder):
    out = folder.parent / "page.html"
    assert cli.main(["report", str(folder), "--out", str(out)]) == 0
    page = out.read_text()
    assert "Single runs" in page
    assert "30 runs" in page
    assert "No sweep was run here" in page
