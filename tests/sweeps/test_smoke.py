"""`smoke` from end to end by the installed command: trained, drawn, reported, found done."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("matplotlib")

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).with_name("gammaprime")


def gammaprime(folder, *words):
    """The output of a command; what goes wrong in a home of its own cannot come from another's."""
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [str(COMMAND), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_smoke__runs_to_a_figure_and_a_report(tmp_path):
    assert COMMAND.is_file(), "the package is not installed"
    out = gammaprime(tmp_path, "run", "smoke", "--workers", "2")
    assert "smoke: 4 runs, 0 done, 4 to do" in out
    assert "4 of 4 runs done\nnext: gammaprime figure smoke --runs results/runs" in out

    files = gammaprime(tmp_path, "figure", "smoke").split()
    endings = (".png", ".svg", ".csv", "_profiles.png", "_profiles.svg", "_profiles.csv")
    endings += ("_table.md", "_table.csv", "_comparisons.md", "_comparisons.csv", "_seeds.md")
    assert files == [f"results/figures/smoke{ending}" for ending in endings]
    with (tmp_path / "results/figures/smoke_comparisons.csv").open(encoding="utf-8") as file:
        first, *_ = csv.DictReader(file)
    assert (first["first"], first["second"], first["seeds_first"]) == ("PPO(K)", "PPO", "2")
    assert 0.0 <= float(first["probability"]) <= 1.0

    assert gammaprime(tmp_path, "report", "results/runs").strip() == "results/report.html"
    page = (tmp_path / "results/report.html").read_text("utf-8")
    assert "4 of 4 training runs are finished" in page
    assert "A check that sweeps, figures and reports work" in page
    assert "too few seeds to decide" in page

    assert "smoke: 4 runs, 4 done, 0 to do" in gammaprime(tmp_path, "run", "smoke")
