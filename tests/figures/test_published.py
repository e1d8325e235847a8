"""Numbers in the text and the tables of the published results are those of the published runs."""

from pathlib import Path

import pytest

from gammaprime.figures import comparisons, options, tables
from gammaprime.runs.directory import from_json
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
    assert len(manifests) > 500
    for path in manifests:
        found = from_json(path)
        assert found == without_folders(found), path.parent.name
