"""The command line: what it prints, what it refuses, and what it leaves behind."""

import json
import shlex
import subprocess
import sys

import pytest

import gammaprime
from gammaprime import cli
from gammaprime.cli.sweep import progress_line
from gammaprime.experiments import toy

TINY = """
title = "a tiny toy"
kind = "toy"
[settings]
seed = 0
num_mdps = 3
num_states = 4
num_actions = 2
concentration = 0.1
gamma = 0.2
gamma_prime = 0.8
order = 3
num_trajectories = 2
repetitions = 2
reward_noise = 0.2
truncation = 1e-3
base_noise = [0.0, 1.0]
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A spec file in an empty working directory, where results/ will appear."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def run_folder(root):
    (folder,) = (root / "results/runs").iterdir()
    return folder


def test_run_then_figure__leave_numbers_and_pictures(tiny, capsys):
    assert cli.main(["run", "tiny.toml"]) == 0
    out, err = capsys.readouterr()
    assert str(run_folder(tiny).relative_to(tiny)) in out
    assert "gammaprime figure tiny.toml" in out
    assert "100 %" in err
    assert cli.main(["figure", "tiny.toml"]) == 0
    printed = capsys.readouterr().out.split()
    assert printed[:2] == ["results/figures/tiny.png", "results/figures/tiny.svg"]
    assert all((tiny / file).is_file() for file in printed)


def test_folders__can_be_chosen(tiny, capsys):
    assert cli.main(["run", "tiny.toml", "--out", "here"]) == 0
    assert "next: gammaprime figure tiny.toml --runs here\n" in capsys.readouterr().out
    assert cli.main(["figure", "tiny.toml", "--runs", "here", "--out", "there"]) == 0
    assert (tiny / "there/tiny.png").is_file()
    assert not (tiny / "results").exists()


def test_figure__adds_pdf_if_it_is_asked_for(tiny):
    assert cli.main(["run", "tiny.toml"]) == 0
    assert cli.main(["figure", "tiny.toml", "--out", "plain"]) == 0
    assert cli.main(["figure", "tiny.toml", "--out", "both", "--format", "pdf"]) == 0
    plain, both = ({file.name for file in (tiny / out).iterdir()} for out in ("plain", "both"))
    assert both - plain == {"tiny.pdf"}


def interrupted(*args):
    raise KeyboardInterrupt


def test_finished_run__is_skipped_unless_forced(tiny, capsys, monkeypatch):
    cli.main(["run", "tiny.toml"])
    started = []
    run = toy.run
    monkeypatch.setattr(toy, "run", lambda *args: started.append(args) or run(*args))
    capsys.readouterr()
    assert cli.main(["run", "tiny.toml"]) == 0
    assert "already done; --force runs it again" in capsys.readouterr().out
    assert started == []
    before = (run_folder(tiny) / "data.npz").read_bytes()
    assert cli.main(["run", "tiny.toml", "--force"]) == 0
    assert len(started) == 1
    assert (run_folder(tiny) / "data.npz").read_bytes() == before


def test_finished_run__is_kept_when_a_forced_one_is_interrupted(tiny, monkeypatch):
    cli.main(["run", "tiny.toml"])
    before = {file.name: file.read_bytes() for file in run_folder(tiny).iterdir()}
    monkeypatch.setattr(toy, "run", interrupted)
    assert cli.main(["run", "tiny.toml", "--force"]) == 130
    assert {file.name: file.read_bytes() for file in run_folder(tiny).iterdir()} == before
    assert cli.main(["figure", "tiny.toml"]) == 0


def test_want_of_memory__is_told_without_a_traceback(tiny, capsys, monkeypatch):
    def greedy(*args):
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr(toy, "run", greedy)
    assert cli.main(["run", "tiny.toml"]) == 2
    told = capsys.readouterr().err
    assert told.endswith(
        "gammaprime: not enough memory: Unable to allocate 7.28 TiB; ask for smaller sizes\n"
    )


def test_run_of_another_format__is_kept_unless_it_is_forced(tiny, capsys):
    cli.main(["run", "tiny.toml"])
    folder = run_folder(tiny)
    ours = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "done").write_text('{"format": 99}')
    (folder / "data.npz").write_bytes(b"as another version has it")
    capsys.readouterr()
    assert cli.main(["run", "tiny.toml"]) == 2
    refusal = capsys.readouterr().err
    assert "is in format 99, this version of gammaprime reads format 1; " in refusal
    assert refusal.endswith("with --out, or replace it with --force\n")
    assert (folder / "data.npz").read_bytes() == b"as another version has it"
    assert cli.main(["run", "tiny.toml", "--force"]) == 0
    where = folder.relative_to(tiny)
    assert f"gammaprime: {where}: --force replaces what was done here\n" in capsys.readouterr().err
    assert (folder / "data.npz").read_bytes() == ours["data.npz"]
    assert cli.main(["run", "tiny.toml"]) == 0


def test_force__replaces_no_run_of_other_settings_and_tells_of_none_where_there_is_none(
    tiny, capsys
):
    assert cli.main(["run", "tiny.toml", "--force"]) == 0
    assert "replaces" not in capsys.readouterr().err
    folder = run_folder(tiny)
    (folder / "config.json").write_text("{}")
    data = (folder / "data.npz").read_bytes()
    assert cli.main(["run", "tiny.toml", "--force"]) == 2
    refusal = capsys.readouterr().err
    assert "belongs to another configuration" in refusal
    assert refusal.count("\n") == 1
    assert (folder / "data.npz").read_bytes() == data


def test_interrupt__exits_with_130_and_the_same_command_finishes_later(tiny, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(toy, "run", interrupted)
        assert cli.main(["run", "tiny.toml"]) == 130
    assert "interrupted; the same command starts it again" in capsys.readouterr().err
    assert list(tiny.rglob("done")) == []
    assert cli.main(["figure", "tiny.toml"]) == 2
    assert "first: gammaprime run tiny.toml" in capsys.readouterr().err
    assert cli.main(["run", "tiny.toml"]) == 0
    assert (run_folder(tiny) / "done").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "fig_error"], "unknown experiment 'fig_error': did you mean 'fig_errors'?"),
        (["figure", "wieghts"], "unknown experiment 'wieghts': did you mean 'weights'?"),
        (["run", "nowhere.toml"], "nowhere.toml: no such file"),
        (["figure", "fig_errors"], "no finished run here; first: gammaprime run fig_errors"),
    ],
)
def test_what_cannot_be_done__is_one_line_on_stderr(tiny, capsys, arguments, message):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gammaprime: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tiny / "results").exists()


def test_unknown_key__is_told_with_the_nearest(tiny, capsys):
    (tiny / "tiny.toml").write_text(TINY.replace("num_mdps", "num_mdp"))
    assert cli.main(["run", "tiny.toml"]) == 2
    assert "unknown key 'num_mdp': did you mean 'num_mdps'?" in capsys.readouterr().err


def test_missing_matplotlib__is_answered_with_the_line_that_installs_it(tiny):
    cli.main(["run", "tiny.toml"])
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "from gammaprime.cli import main\n"
        "sys.exit(main(['figure', 'tiny.toml']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "gammaprime: figures need matplotlib: pip install 'gammaprime[report]'\n"


def test_list__names_what_ships(capsys):
    assert cli.main(["list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"fig_errors", "fig_onpolicy", "table_td3", "demo", "weights"} <= set(names)
    assert names == sorted(names)


def test_list__imports_nothing_that_trains():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['jax', 'gymnasium', 'mujoco', 'rich']))\n"
        "from gammaprime.cli import main\n"
        "sys.exit(main(['list']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fig_td3" in done.stdout


def test_progress__tells_each_tenth_once_where_there_is_no_terminal(capsys):
    report = progress_line("name")
    for done in range(1, 201):
        report(done, 200)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("name:  10 %, 20 of 200, ")
    assert lines[-1].startswith("name: 100 %, 200 of 200, 0 s left")


def test_debug__shows_the_traceback_before_the_line(tiny, capsys, monkeypatch):
    for words in (["--debug", "run", "nowhere.toml"], ["run", "nowhere.toml", "--debug"]):
        assert cli.main(words) == 2
        err = capsys.readouterr().err
        assert err.startswith("Traceback (most recent call last):\n")
        assert err.endswith("gammaprime: nowhere.toml: no such file\n")
    monkeypatch.setenv(cli.DEBUG, "1")
    assert cli.main(["run", "nowhere.toml"]) == 2
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv(cli.DEBUG, "0")
    assert cli.main(["run", "nowhere.toml"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_unexpected_error__is_one_line_with_the_way_to_its_traceback(tiny, capsys, monkeypatch):
    def broken(*args):
        raise KeyError("of a user")

    monkeypatch.setattr(toy, "run", broken)
    assert cli.main(["run", "tiny.toml"]) == 1
    line = "gammaprime: KeyError: 'of a user' (--debug shows the traceback)\n"
    assert capsys.readouterr().err == line


def test_manifest__has_the_command_and_not_the_program_that_called_it(tiny, monkeypatch):
    words = ["/usr/bin/another", "program", "--with=secrets"]
    monkeypatch.setattr(sys, "argv", list(words))
    assert cli.main(["run", "tiny.toml", "--out", "here"]) == 0
    assert sys.argv == words
    (folder,) = (tiny / "here").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["command"] == ["gammaprime", "run", "tiny.toml", "--out", "here"]


def test_suggested_command__can_be_pasted_into_a_shell(tiny, capsys):
    (tiny / "a b.toml").write_text(TINY)
    assert cli.main(["run", "a b.toml", "--out", "my runs"]) == 0
    suggested = capsys.readouterr().out.splitlines()[-1].partition("next: ")[2]
    assert shlex.split(suggested) == ["gammaprime", "figure", "a b.toml", "--runs", "my runs"]


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"gammaprime {gammaprime.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help__needs_the_standard_library_alone(arguments):
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['numpy', 'scipy', 'jax', 'matplotlib']))\n"
        "from gammaprime.cli import main\n"
        f"main({arguments})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gammaprime" in done.stdout
