"""Terminals that are closed, narrow, full or know no Greek, and Ctrl-C before anything began."""

import builtins
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gammaprime import cli
from gammaprime.cli import terminal

COMMAND = [sys.executable, "-c", "import sys; from gammaprime.cli import main; sys.exit(main())"]
TINY = """
title = "a tiny table"
kind = "weights"
[settings]
gamma = 0.9
gamma_prime = 0.99
orders = [0, 1]
lookahead = 3
num_steps = 10
"""


@pytest.fixture
def closed_pipe():
    """The number of a file that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def run(words, environment=None, **streams):
    environment = {**os.environ, **(environment or {})}
    return subprocess.run([*COMMAND, *words], env=environment, timeout=120, **streams)


def test_import_of_the_command_line__loads_nothing_that_takes_time():
    script = "import __future__, os, sys; before = set(sys.modules); import gammaprime.cli\n"
    script += "print(*sorted(set(sys.modules) - before))"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["gammaprime", "gammaprime.cli"]


def test_interrupt_during_the_first_imports__is_a_line_and_130(monkeypatch, capsys):
    load = builtins.__import__

    def interrupted(name, *rest):
        if name == "argparse":
            raise KeyboardInterrupt
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == (
        "\ngammaprime: interrupted; the same command starts it again\n"
    )


def test_list_that_nobody_reads__ends_quietly(closed_pipe):
    done = run(["list"], stdout=closed_pipe, stderr=subprocess.PIPE)
    assert done.returncode == 141
    assert done.stderr == b""


def test_full_disk_behind_standard_output__is_one_line():
    with Path("/dev/full").open("w") as full:
        done = run(["list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "gammaprime: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("names", [("stdout",), ("stderr",), ("stdout", "stderr")])
@pytest.mark.parametrize("how", ["nobody reads", "full disk"])
def test_run__outlives_its_terminal(tmp_path, closed_pipe, names, how):
    (tmp_path / "tiny.toml").write_text(TINY)
    with Path("/dev/full").open("w") as full:
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        streams |= dict.fromkeys(names, closed_pipe if how == "nobody reads" else full)
        done = run(["run", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "runs")], **streams)
    assert done.returncode == 0
    assert list(tmp_path.glob("runs/*/done"))


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_run_that_begins_without_a_terminal__is_done(tmp_path, closed):
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["run", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "runs")]
    done = subprocess.run(["sh", "-c", f"{shlex.join([*COMMAND, *words])} {closed}"], timeout=120)
    assert done.returncode == 0
    assert list(tmp_path.glob("runs/*/done"))


def test_error__is_told_by_its_exit_code_where_nobody_reads_it(closed_pipe):
    assert run(["resume", "nowhere"], stderr=closed_pipe).returncode == 2


def test_terminal_without_greek__reads_words():
    done = run(["list"], {"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert done.stdout.isascii()
    assert b"eta" in done.stdout


def test_help_without_greek__reads_words():
    pytest.importorskip("tyro")
    done = run(["train", "ppo", "--help"], {"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"gamma'" in done.stdout


@pytest.mark.parametrize(("text", "shown"), [("J_γ ± 1", b"J_gamma +- 1"), ("漢", b"?")])
def test_letters_that_cannot_be_shown__are_spelled(monkeypatch, text, shown):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    with terminal.any_encoding():
        sys.stdout.write(text)
        sys.stdout.flush()
    assert raw.getvalue() == shown
    assert sys.stdout.errors == "strict"


@pytest.mark.parametrize("columns", ["1", "5"])
def test_help_in_a_narrow_terminal__is_shown_in_40_columns(columns):
    pytest.importorskip("tyro")
    # No more than 4 GB of memory, and one thread, so that it is enough.
    line = f"ulimit -v 4000000; exec {shlex.join([*COMMAND, 'train', 'ppo', '--help'])}"
    settings = {**os.environ, "COLUMNS": columns, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(["sh", "-c", line], env=settings, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert max(len(line) for line in lines if line[:1] in "│╭╰") == 40
