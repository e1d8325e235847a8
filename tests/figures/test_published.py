"""Numbers in the text and the tables of the published results are those of the published runs."""

from pathlib import Path

import pytest

from gammaprime.figures import comparisons, options, tables
from gammaprime.runs.directory import from_json
from gammaprime.sweeps.driver import State
from gammaprime.sweeps.publish import without_folders
from gammaprime.sweeps.spec import load_experiment

PUBLISHED = Path(__file__).parents[2] / "results/published"
SWEEPS = sorted(path.name.removesuffix("_table.md") for path in PUBLISHED.glob("*_table.md"))


@pytest.mark.parametrize("name", SWEEPS)
def test_published_tables__are_those_of_the_published_runs(name, tmp_path):
    sweep = load_experiment(name)
    results, asked = sweep.results(PUBLISHED / "runs"), options.read(sweep)
    for draw in (tables.draw, tables.draw_seeds, comparisons.draw):
        (page,) = [file for file in draw(asked, results, tmp_path) if file.suffix == ".md"]
        assert page.read_text() == (PUBLISHED / page.name).read_text()


MUJOCO = ["HalfCheetah-v4", "Ant-v4", "Walker2d-v4"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fig_onpolicy", {}),
        ("fig_onpolicy_state", {}),
        ("fig_separating", {}),
        ("fig_ablation", {"tasks": MUJOCO}),
        ("ours", {}),
        ("ours_second", {}),
        ("ours_trpo", {}),
        ("learning_onpolicy", {}),
        ("learning_offpolicy", {}),
        ("learning_classic", {}),
    ],
)
def test_published_sweep__has_nothing_left_to_do(name, changes):
    jobs = load_experiment(name).change(**changes).jobs(PUBLISHED / "runs")
    assert jobs
    assert [job.title for job in jobs if job.state is not State.DONE] == []


def test_scores_of_the_presets__are_those_of_the_table_that_was_drawn():
    rows = (PUBLISHED / "learning_classic_table.md").read_text().splitlines()
    told = (PUBLISHED / "README.md").read_text().splitlines()
    scores = [row.strip("| ").split(" | ") for row in rows if "-v1" in row]
    assert len(scores) == 3
    for task, score in scores:
        (line,) = [line for line in told if line.startswith(f"| {task} |")]
        assert f" {score.removesuffix(' (3)')} |" in line


def test_published_runs__name_no_folder_of_the_machine_that_made_them():
    manifests = sorted(PUBLISHED.glob("runs/*/manifest.json"))
    assert len(manifests) > 600
    for path in manifests:
        found = from_json(path)
        assert found == without_folders(found), path.parent.name
