"""A folder of runs knows which sweeps were run into it, with what changes, and reports them."""

import gc
import json
import os
import subprocess
import sys
from importlib import resources

import pytest

from figures import fake_runs
from gammaprime.figures import options
from gammaprime.runs import directory
from gammaprime.runs.directory import from_json, to_json
from gammaprime.sweeps.driver import State
from gammaprime.sweeps.report import find_notes, read_note, report, write_note
from gammaprime.sweeps.spec import Sweep, load_experiment, shipped

SMOKE = resources.files("gammaprime.experiments").joinpath("smoke.toml").read_text()


def test_notes__give_sweeps_with_their_changes(tmp_path):
    smoke = load_experiment("smoke")
    changed = smoke.change(steps=1280, seeds=(0, 1, 2), tasks=["Hopper-v4"])
    for sweep in (smoke, changed, smoke):
        write_note(sweep, tmp_path)
    found = [read_note(note) for note in find_notes(tmp_path)]
    assert len(found) == 2
    assert smoke in found
    (again,) = [sweep for sweep in found if sweep.changed]
    assert again.configs() == changed.configs()
    assert again.changed == {"steps": 1280, "seeds": [0, 1, 2], "tasks": ["Hopper-v4"]}


def test_notes__remove_what_killed_processes_left_but_not_what_is_being_written(tmp_path):
    old, young = (tmp_path / "sweeps" / f".a.json.{pid}.tmp" for pid in (7, 8))
    old.parent.mkdir()
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    note = write_note(load_experiment("smoke"), tmp_path)
    assert set(old.parent.iterdir()) == {note, young}


def test_note__keeps_the_text_of_a_file_that_may_go(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(SMOKE)
    sweep = load_experiment(file)
    note = write_note(sweep, tmp_path / "runs")
    file.unlink()
    assert find_notes(tmp_path / "runs") == [note]
    assert read_note(note) == sweep


def test_notes__of_specs_whose_names_have_dots_are_two(tmp_path):
    for name in ("gamma0.99", "gamma0.999"):
        (tmp_path / f"{name}.toml").write_text(SMOKE)
        sweep = load_experiment(tmp_path / f"{name}.toml")
        assert sweep.name == name
        write_note(sweep, tmp_path)
    names = [note.name.rpartition("-")[0] for note in find_notes(tmp_path)]
    assert names == ["gamma0.99", "gamma0.999"]


def test_folder_without_notes__has_none(tmp_path):
    assert find_notes(tmp_path) == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "smoke"}, "is not the note of a sweep"),
        ({"name": "smoke", "changed": {"gamma": 1}}, "from another version"),
        ({"name": "weights", "changed": {}}, "weights is not a sweep"),
        ({"name": "smok", "changed": {}}, "did you mean 'smoke'"),
        ({"name": "smoke", "changed": {}, "text": 3}, "text=3: must be that of a spec"),
    ],
)
def test_note_of_another_kind__is_refused_and_the_report_says_why(tmp_path, entry, message):
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps/odd.json").write_bytes(to_json(entry))
    (note,) = find_notes(tmp_path)
    with pytest.raises(ValueError, match=message):
        read_note(note)
    pytest.importorskip("matplotlib")
    said = []
    with pytest.raises(ValueError, match="nothing is left to show"):
        report(tmp_path, tmp_path / "page.html", said.append)
    assert said[0].startswith("left out odd: ")


def test_report_of_nothing__says_what_to_do_first(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(FileNotFoundError, match="nothing was run here; first: gammaprime run demo"):
        report(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        report(tmp_path / "nowhere")


SHOW = """
import sys
from pathlib import Path
import gammaprime.cli
from gammaprime.sweeps.spec import load_experiment, shipped
out = Path(sys.argv[1])
for name in shipped():
    experiment = load_experiment(name)
    if name in ("weights", "smoke"):
        assert gammaprime.cli.main(["figure", name, "--runs", str(out), "--out", str(out)]) == 0
    elif hasattr(experiment, "jobs"):
        assert all(job.state == "waiting" for job in experiment.jobs(out))
        assert not any(result.done for result in experiment.results(out))
assert gammaprime.cli.main(["report", str(out), "--out", str(out / "page.html")]) == 0
print([name for name in ("jax", "gymnasium", "mujoco", "pybullet", "optax") if name in sys.modules])
"""


def test_planning_figures_and_reports__import_no_simulator_and_no_jax(tmp_path):
    pytest.importorskip("matplotlib")
    from figures import fake_runs

    load_experiment("weights").run(tmp_path)
    smoke = load_experiment("smoke")
    assert isinstance(smoke, Sweep)
    fake_runs.write(smoke, tmp_path, lambda run: 100.0)
    write_note(smoke, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SHOW, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert len(shipped()) > 10


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "manifest.json", "done"])
def test_run_that_cannot_be_read__is_named_and_the_rest_is_shown(tmp_path, name):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    sweep, results = fake_runs.stored(fake_runs.CURVES, tmp_path / "runs", lambda planned: 100.0)
    write_note(sweep, tmp_path / "runs")
    damaged = results[3].path
    (damaged / name).write_bytes((damaged / name).read_bytes()[:-3])
    said = []
    page = report(tmp_path / "runs", tmp_path / "page.html", said.append).read_text()
    assert len(said) == 1
    assert said[0].startswith(f"left out {damaged.name}: {damaged / name}: ")
    assert damaged.name in page
    assert sweep.title in page
    with pytest.raises(ValueError, match=damaged.name):
        sweep.results(tmp_path / "runs")


@pytest.mark.parametrize("enabled", [True, False])
def test_reading__leaves_the_garbage_collector_as_it_was(tmp_path, enabled):
    sweep, results = fake_runs.stored(fake_runs.CURVES, tmp_path, lambda planned: 100.0)
    was = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        sweep.results(tmp_path)
        assert gc.isenabled() is enabled
        (results[0].path / "metrics.jsonl").write_bytes(b"{\n")
        with pytest.raises(ValueError, match=results[0].path.name):
            sweep.results(tmp_path)
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if was else gc.disable()


def test_run_that_two_sweeps_share__is_read_once(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    sweep, results = fake_runs.stored(fake_runs.CURVES, tmp_path, lambda planned: 100.0)
    write_note(sweep, tmp_path)
    write_note(sweep.change(seeds=[0, 1]), tmp_path)
    read, read_lines = [], directory.read_lines

    def count(path):
        read.append(path)
        return read_lines(path)

    monkeypatch.setattr(directory, "read_lines", count)
    report(tmp_path, tmp_path / "page.html")
    assert sorted(read) == sorted({result.path for result in results})


@pytest.fixture
def unfinished(tmp_path):
    """A sweep of two runs that were stopped half way, its folder, and the folders of both."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    short = {"[0, 1, 2, 3, 4]": "[0, 1]", ', "Walker2d-v4"': "", "100_000": "10_000"}
    text = fake_runs.CURVES.split('[[variants]]\nname = "PPO 0.999"')[0]
    for old, new in short.items():
        text = text.replace(old, new)
    text += '[figure]\nkind = "curves"\n'
    root = tmp_path / "runs"
    sweep, results = fake_runs.stored(text, root, lambda planned: 100.0, lambda planned: 0.5)
    return sweep, root, [result.path for result in results]


def change_json(file, change):
    table = json.loads(file.read_text())
    change(table)
    file.write_text(json.dumps(table))


def check_left_out(root, damaged, file, said):
    """The page names the damaged run alone, once, and shows the other."""
    page = report(root, root / "page.html", said.append).read_text()
    assert len(said) == 1
    assert said[0].startswith(f"left out {damaged.name}: {damaged / file}: ")
    assert damaged.name in page
    assert "<svg" in page


@pytest.mark.parametrize("in_a_sweep", [True, False])
@pytest.mark.parametrize(
    "facts",
    [
        *({"versions": x} for x in (None, [1], 5, "x", {"numpy": {"a": 1}})),
        {"cpu": "\ud800"},
        {"cpu": {"a": 1}, "cores": [2], "platform": None, "gammaprime": [1], "command": 5},
    ],
)
def test_manifest_with_facts_of_wrong_types__is_shown_without_them(unfinished, facts, in_a_sweep):
    sweep, root, paths = unfinished
    if in_a_sweep:
        write_note(sweep, root)
    change_json(paths[0] / "manifest.json", lambda table: table.update(facts))
    said = []
    page = report(root, root / "page.html", said.append).read_text()
    assert said == []
    assert "<svg" in page
    assert "{&#39;a&#39;" not in page


@pytest.mark.parametrize(
    "settings",
    [
        *({"task": x} for x in (None, 5, [1], {}, {"object": [1]}, {"object": None})),
        *({"seed": x} for x in (None, "1", [1], 0.5, True)),
    ],
)
def test_single_run_whose_task_or_seed_is_none__is_left_out(unfinished, settings):
    _, root, paths = unfinished
    change_json(paths[0] / "config.json", lambda table: table["settings"].update(settings))
    check_left_out(root, paths[0], "config.json", [])


@pytest.mark.parametrize("in_a_sweep", [True, False])
@pytest.mark.parametrize(
    "row",
    [
        *({"episodes": [[5000, 50, x, 1.0, 1.0]]} for x in (1e308, float("nan"), 10**400)),
        {"episodes": [[5000, 50, 1e308, 1.0, 1.0], [5000, 50, -1e308, 1.0, 1.0]]},
        {"episodes": [[float("inf"), 50, 1.0, 1.0, 1.0]]},
        {"episodes": [[1, 2, 3]] * 5},
        {"time/total_timesteps": 10**400},
    ],
)
def test_run_whose_numbers_cannot_be_drawn__is_left_out(unfinished, row, in_a_sweep):
    sweep, root, paths = unfinished
    if in_a_sweep:
        write_note(sweep, root)
    metrics = paths[0] / "metrics.jsonl"
    *lines, last = metrics.read_text().splitlines()
    metrics.write_text("\n".join([*lines, json.dumps(json.loads(last) | row), ""]))
    check_left_out(root, paths[0], "metrics.jsonl", [])


@pytest.mark.parametrize("kind", [["toy"], {"a": 1}, 5, None])
def test_folder_whose_kind_is_no_name__is_left_out(unfinished, kind):
    _, root, paths = unfinished
    change_json(paths[0] / "config.json", lambda table: table.update(kind=kind))
    check_left_out(root, paths[0], "config.json", [])


@pytest.mark.parametrize("task", ["$\\gama$", "\ud800"])
def test_single_run_whose_task_has_odd_characters__is_shown(unfinished, task):
    _, root, paths = unfinished
    change_json(paths[0] / "config.json", lambda table: table["settings"].update(task=task))
    assert "<svg" in report(root, root / "page.html").read_text()


@pytest.mark.parametrize("settings", [{"gamma": 10**400}, {"lookahead": "x"}, None])
def test_computation_whose_settings_are_damaged__is_left_out(unfinished, settings):
    _, root, _ = unfinished
    load_experiment("weights").run(root)
    (damaged,) = root.glob("weights-*")
    change = {
        "settings": settings and {**from_json(damaged / "config.json")["settings"], **settings}
    }
    change_json(damaged / "config.json", lambda table: table.update(change))
    said = []
    page = report(root, root / "page.html", said.append).read_text()
    assert [line.startswith(f"left out {damaged.name}: ") for line in said] == [True]
    assert damaged.name in page


def test_damaged_run__is_not_called_done(tmp_path):
    sweep, results = fake_runs.stored(fake_runs.CURVES, tmp_path, lambda planned: 100.0)
    metrics = results[0].path / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes().replace(b"1", b"2", 1))
    jobs = sweep.jobs(tmp_path)
    assert [job.state for job in jobs] == [State.FAILED] + [State.DONE] * (len(jobs) - 1)
    assert "metrics.jsonl: damaged, its hash is not the one in 'done'" in jobs[0].message


@pytest.mark.parametrize(
    "change",
    [
        ('base = "ppo"', 'base = { kind = "ppo", weighting = "evil:Slot" }'),
        ('tasks = ["Hopper-v4", "Walker2d-v4"]', 'tasks = ["evil:Env-v0"]'),
        ("gamma = 0.999\n", 'gamma = 0.999\nadvantage = { kind = "evil:Slot" }\n'),
    ],
)
def test_code_that_a_spec_names__is_imported_only_if_allowed(monkeypatch, tmp_path, change):
    (tmp_path / "evil.py").write_text("raise RuntimeError('was run')")
    monkeypatch.syspath_prepend(tmp_path)
    assert change[0] in fake_runs.CURVES
    text = fake_runs.CURVES.replace(*change)
    with pytest.raises(ValueError, match=r"would import and run the module 'evil'.*--allow-impo"):
        fake_runs.load(text)
    monkeypatch.setenv("GAMMAPRIME_ALLOW_IMPORTS", "1")
    with pytest.raises(RuntimeError, match="was run"):
        fake_runs.load(text).configs()


def test_code_that_a_note_names__is_not_imported(tmp_path):
    (tmp_path / "sweeps").mkdir()
    note = tmp_path / "sweeps/smoke-0.json"
    note.write_bytes(to_json({"name": "smoke", "changed": {"tasks": ["evil:Env-v0"]}}))
    with pytest.raises(ValueError, match="would import and run the module 'evil'"):
        read_note(note)


def test_variant_whose_name_is_no_formula__is_refused_before_anything_is_trained(tmp_path):
    pytest.importorskip("matplotlib")
    sweep = fake_runs.load(fake_runs.CURVES.replace('name = "PPO 0.999"', "name = '$\\gama$'"))
    with pytest.raises(ValueError, match=r"'\$.*gama\$': is not a formula that can be drawn"):
        sweep.run(tmp_path)
    assert not list(tmp_path.iterdir())
    for name in ("$\\gamma$", "5 $ and more"):
        fine = fake_runs.CURVES.replace('"PPO 0.999"', f"'{name}'")
        options.read(fake_runs.load(fine))
