"""Numbers in the text of the published results are those of the published tables."""

from pathlib import Path

PUBLISHED = Path(__file__).parents[2] / "results/published"


def test_scores_of_the_presets__are_those_of_the_table_that_was_drawn():
    rows = (PUBLISHED / "learning_classic_table.md").read_text().splitlines()
    told = (PUBLISHED / "README.md").read_text().splitlines()
    scores = [row.strip("| ").split(" | ") for row in rows if "-v1" in row]
    assert len(scores) == 3
    for task, score in scores:
        (line,) = [line for line in told if line.startswith(f"| {task} |")]
        assert f" {score.removesuffix(' (3)')} |" in line
