"""A folder of runs knows which sweeps were asked for, and with what changes."""

import pytest

from gammaprime.runs.files import to_json
from gammaprime.sweeps import history, spec


def test_history__recalls_sweeps_with_their_changes(tmp_path):
    smoke = spec.load("smoke")
    changed = smoke.change(steps=1280, seeds=(0, 1, 2), tasks=["Hopper-v4"])
    for sweep in (smoke, changed, smoke):
        history.note(tmp_path, "smoke", sweep)
    found = [history.recall(note) for note in history.noted(tmp_path)]
    assert len(found) == 2
    assert smoke in found
    (again,) = [sweep for sweep in found if sweep.changed]
    assert again.runs() == changed.runs()
    assert dict(again.changed) == {"steps": 1280, "seeds": [0, 1, 2], "tasks": ["Hopper-v4"]}


def test_history__keeps_the_text_of_a_file_that_may_go(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        spec.resources.files("gammaprime.experiments").joinpath("smoke.toml").read_text()
    )
    sweep = spec.load(str(file))
    history.note(tmp_path / "runs", str(file), sweep)
    file.unlink()
    (note,) = history.noted(tmp_path / "runs")
    assert history.recall(note) == sweep


def test_history__of_a_folder_without_any_is_empty(tmp_path):
    assert history.noted(tmp_path) == []
    assert history.computed(tmp_path) == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "smoke"}, "is not the record of a sweep"),
        ({"name": "smoke", "changed": {"gamma": 1}}, "from another version"),
        ({"name": "weights", "changed": {}}, "weights is no sweep"),
        ({"name": "smok", "changed": {}}, "did you mean 'smoke'"),
        ({"name": "smoke", "changed": {}, "text": 3}, "text=3: must be that of a spec"),
    ],
)
def test_history__refuses_what_it_did_not_write(tmp_path, entry, message):
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps/odd.json").write_bytes(to_json(entry))
    (note,) = history.noted(tmp_path)
    with pytest.raises(ValueError, match=message):
        history.recall(note)
