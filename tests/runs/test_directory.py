"""Folders of runs: whole or not there, of one configuration, never unpickled."""

import json
from pathlib import Path

import numpy as np
import pytest

from gammaprime.runs import directory, provenance

CONFIG = {"kind": "toy", "settings": {"seed": 3, "levels": (0.0, 0.5)}}
OTHER = {"kind": "toy", "settings": {"seed": 4, "levels": (0.0, 0.5)}}
DATA = {"x": np.arange(6.0).reshape(2, 3), "k": np.array([1, 2])}


@pytest.fixture
def path(tmp_path):
    return tmp_path / directory.folder_name("name", CONFIG)


def complete(path, config=CONFIG, data=DATA):
    manifest = provenance.manifest(config["settings"]["seed"], ["gammaprime", "run"])
    directory.begin(path, config, manifest)
    directory.finish(path, data, seconds=1.5)


def test_read__gives_back_what_was_stored(path):
    complete(path)
    run = directory.read(path, CONFIG)
    assert run.data.keys() == DATA.keys()
    for key, value in DATA.items():
        np.testing.assert_array_equal(run.data[key], value)
        assert run.data[key].dtype == value.dtype
    assert run.config["settings"]["seed"] == 3
    assert run.manifest["command"] == ["gammaprime", "run"]
    assert run.manifest["seed"] == 3
    assert {"python", "numpy", "scipy", "gammaprime", "cpu"} <= run.manifest.keys()


def test_folder_name__is_the_same_for_the_same_settings_only(path):
    reordered = {"settings": dict(reversed(CONFIG["settings"].items())), "kind": "toy"}
    assert directory.folder_name("name", reordered) == path.name
    assert directory.folder_name("name", OTHER) != path.name
    assert path.name.startswith("name-")


def test_same_data__gives_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        complete(tmp_path / folder)
    files = [(tmp_path / folder / "data.npz").read_bytes() for folder in ("a", "b")]
    assert files[0] == files[1]


@pytest.mark.parametrize("last_file", ["config.json", "manifest.json", "data.npz", "done"])
def test_crash_while_writing__leaves_no_done_and_the_next_run_works(path, monkeypatch, last_file):
    replace = Path.replace

    def crash(self, target):
        if Path(target).name == last_file:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            complete(path)
    assert not (path / last_file).exists()
    assert not directory.is_done(path, CONFIG)
    with pytest.raises(FileNotFoundError, match="was not finished"):
        directory.read(path, CONFIG)
    complete(path)
    assert directory.is_done(path, CONFIG)
    assert {file.name for file in path.iterdir()} == {
        *("config.json", "manifest.json", "data.npz", "done")
    }


def test_begin__takes_back_done_before_anything_else(path, monkeypatch):
    complete(path)
    monkeypatch.setattr(directory, "write_whole", lambda *_: pytest.fail("stop here"))
    with pytest.raises(pytest.fail.Exception):
        directory.begin(path, CONFIG, {})
    assert not directory.is_done(path, CONFIG)


@pytest.mark.parametrize(
    "use", [directory.is_done, directory.read, lambda p, c: directory.begin(p, c, {})]
)
def test_folder_of_another_configuration__is_refused(path, use):
    complete(path)
    with pytest.raises(ValueError, match="belongs to another configuration"):
        use(path, OTHER)
    assert directory.is_done(path, CONFIG)


def test_folder_that_is_no_run__is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="is not a run directory"):
        directory.begin(tmp_path, CONFIG, {})
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_one_flipped_bit__is_noticed(path):
    complete(path)
    packed = bytearray((path / "data.npz").read_bytes())
    packed[len(packed) // 2] ^= 1
    (path / "data.npz").write_bytes(packed)
    with pytest.raises(ValueError, match=r"data\.npz: damaged"):
        directory.read(path, CONFIG)


def test_pickled_arrays__are_not_read(path):
    complete(path, data={"x": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        directory.read(path, CONFIG)


@pytest.mark.parametrize(("text", "message"), [("{", "not valid JSON"), ("[]", "a JSON object")])
def test_config_that_cannot_be_read__is_named(path, text, message):
    complete(path)
    (path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=rf"config\.json: .*{message}"):
        directory.read(path, CONFIG)


def test_done__holds_the_seconds(path):
    complete(path)
    assert json.loads((path / "done").read_text())["seconds"] == 1.5


@pytest.mark.parametrize("number", [0, 2, "one"])
def test_run_of_another_format__is_refused(path, number):
    complete(path)
    done = json.loads((path / "done").read_text())
    (path / "done").write_text(json.dumps(done | {"format": number}))
    told = f"is in format {number!r}, this version of gammaprime reads format 1"
    with pytest.raises(ValueError, match=told):
        directory.is_done(path, CONFIG)
    with pytest.raises(ValueError, match=told):
        directory.read(path, CONFIG)


def test_done_without_a_format__is_of_the_first(path):
    complete(path)
    done = json.loads((path / "done").read_text())
    assert "format" not in done
    assert directory.is_done(path, CONFIG)
    (path / "done").write_text(json.dumps(done | {"format": 1}))
    assert directory.read(path, CONFIG).data


def test_manifest__has_the_command_of_gammaprime_and_of_no_other_program(monkeypatch):
    for program, command in (
        ("/usr/bin/gammaprime", ["gammaprime", "train", "ppo"]),
        ("/usr/bin/pytest", []),
        ("script.py", []),
    ):
        monkeypatch.setattr("sys.argv", [program, "train", "ppo"])
        assert provenance.manifest(0)["command"] == command
    assert provenance.manifest(0, ["gammaprime", "x"])["command"] == ["gammaprime", "x"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\n"
            "processor\t: 1\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n",
            "AMD EPYC (family 25, model 1)",
        ),
        ("model name\t: Some: Processor\n", "Some: Processor"),
    ],
)
def test_processor__is_named_with_its_family_and_model(tmp_path, text, name):
    (tmp_path / "cpuinfo").write_text(text)
    assert provenance.cpu_model(tmp_path / "cpuinfo") == name


def test_processor_that_the_system_does_not_tell__has_a_name(tmp_path):
    (tmp_path / "cpuinfo").write_text("CPU part\t: 0xd0c\n")
    known = provenance.cpu_model(tmp_path / "missing")
    assert provenance.cpu_model(tmp_path / "cpuinfo") == known != ""
