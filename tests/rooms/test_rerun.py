"""A published run can be made again from its configuration, and a difference is found."""

import pytest

from gammaprime.runs.results import read_history
from gammaprime.sweeps.publish import pack
from results_tool import rerun
from runs import training_runs


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The configuration and the shortened metrics of a small run."""
    folder = tmp_path_factory.mktemp("published")
    run = training_runs.run(folder / "whole")
    (folder / "small").mkdir()
    (folder / "small/metrics.jsonl").write_bytes(pack(run.rows))
    (folder / "small/config.json").write_bytes((folder / "whole/config.json").read_bytes())
    return folder / "small"


def test_run_made_again__has_the_same_episodes(published, tmp_path):
    assert rerun.rerun(published, tmp_path / "again") is None
    assert len(read_history(tmp_path / "again").episodes) > 0


def test_first_difference__is_found_in_values_and_in_lengths(published):
    lines = (published / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    steps = training_runs.AGENT.rollout_size
    whole = b"".join(lines)
    assert rerun.first_difference(whole, whole) is None
    assert rerun.first_difference(whole, b"".join(lines[:2])) == 3 * steps
    assert rerun.first_difference(b"".join(lines[:2]), whole) == 3 * steps
    changed = lines[1].replace(b'"episodes": [[', b'"episodes": [[1, 1, 1.0, 1.0, 1.0], [')
    assert changed != lines[1]
    assert rerun.first_difference(whole, b"".join([lines[0], changed, *lines[2:]])) == 2 * steps


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ([1000, 10, 71.593], True),  # 71.59249 rounded to 71.5925 first
        ([1000, 10, 71.60], False),
        ([1001, 10, 71.592], False),
        ([1000, 10], False),
        ([1000, 10, -71.592], False),
    ],
)
def test_same__allows_for_the_last_published_digit_alone(other, equal):
    assert rerun.same([1000, 10, 71.592], other) is equal
    assert rerun.same({"a": [1000, 10, 71.592]}, {"a": other}) is equal
