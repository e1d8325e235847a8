"""Locks: one owner at a time, beats that are seen, deaths that are noticed, losses that stop."""

import json
import os
import subprocess
import sys
import time

import pytest

from gammaprime.runs import lock
from gammaprime.runs.lock import BusyError, Lock, LostError, hold, read, take

ELSEWHERE = {"machine": "another one", "host": "far", "pid": 1, "created": 1.0, "command": "x"}


def pretend(folder, number, age=0.0, **content):
    """A lock as a process of another machine would have written it, so many seconds ago."""
    folder.mkdir(exist_ok=True)
    file = folder / f".lock-{number:06d}"
    file.write_text(json.dumps({**ELSEWHERE, **content}))
    written = time.time() - age
    os.utime(file, (written, written))
    return file


def locks(folder):
    return sorted(file.name for file in folder.glob(".*"))


def test_lock__is_taken_once_until_it_is_released(tmp_path):
    mine = take(tmp_path)
    with pytest.raises(BusyError, match="is being trained by process"):
        take(tmp_path)
    assert read(tmp_path) is not None
    mine.release()
    assert read(tmp_path) is None
    again = take(tmp_path)
    assert again.number == mine.number + 1
    assert locks(tmp_path) == [".lock-000002"]


def test_refusal__says_who_holds_the_run_where_and_since_when(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/gammaprime", "train", "ppo"])
    take(tmp_path)
    holder = read(tmp_path)
    assert holder.pid == os.getpid()
    assert holder.command == "gammaprime train ppo"
    with pytest.raises(BusyError) as refused:
        take(tmp_path)
    for part in (str(os.getpid()), lock.platform.node(), "gammaprime train ppo", holder.since):
        assert part in str(refused.value)
    assert time.strftime("%Y-%m-%d") in holder.since


def test_owner_that_slept_while_another_finished__has_lost_the_run(tmp_path):
    mine = take(tmp_path)
    pretend(tmp_path, mine.number + 1, free=True)
    assert read(tmp_path) is None
    assert not mine.held
    with pytest.raises(LostError, match="was taken over by another process"):
        mine.check()


def test_owner_whose_lock_is_gone__has_lost_the_run(tmp_path):
    mine = take(tmp_path)
    mine.check()
    (tmp_path / ".lock-000001").unlink()
    assert not mine.held
    assert not mine.beat()
    mine.release()
    assert locks(tmp_path) == []


def test_owner_that_was_given_up__finds_out_and_writes_nothing(tmp_path):
    mine = take(tmp_path)
    file = pretend(tmp_path, mine.number + 1)
    before = file.read_bytes()
    assert not mine.beat()
    with pytest.raises(LostError, match="process 1 on far"):
        mine.check()
    mine.release()
    assert file.read_bytes() == before
    assert read(tmp_path) is not None


def test_number_that_was_taken_over_at_once__is_not_had(tmp_path, monkeypatch):
    content = Lock.content

    def sleep_first(self):
        pretend(tmp_path, self.number + 1)
        return content(self)

    monkeypatch.setattr(Lock, "content", sleep_first)
    with pytest.raises(BusyError, match="just taken"):
        take(tmp_path)
    assert locks(tmp_path) == [".lock-000002"]


def test_beat__carries_the_progress(tmp_path):
    mine = take(tmp_path)
    assert read(tmp_path).progress == {}
    mine.progress = {"steps": 7}
    assert mine.beat()
    assert read(tmp_path).progress == {"steps": 7}


TAKE = """
import sys
from pathlib import Path
from gammaprime.runs.lock import BusyError, take
sys.stdin.readline()
try:
    print(take(Path(sys.argv[1])).number, flush=True)
except BusyError:
    print("busy", flush=True)
sys.stdin.readline()
"""


def start(*arguments):
    command = [sys.executable, "-c", TAKE, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("state", [{"free": True}, {"age": 2 * lock.PATIENCE}])
def test_of_processes_that_race__one_gets_it(tmp_path, state):
    pretend(tmp_path, 4, **state)
    racers = [start(tmp_path) for _ in range(6)]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = sorted(racer.stdout.readline().strip() for racer in racers)
    assert answers == ["5", *["busy"] * 5]
    for racer in racers:
        racer.communicate("stop\n", timeout=20)


def test_killed_owner__is_noticed_at_once_on_its_machine(tmp_path):
    owner = start(tmp_path)
    owner.stdin.write("go\n")
    owner.stdin.flush()
    assert owner.stdout.readline() == "1\n"
    with pytest.raises(BusyError):
        take(tmp_path)
    owner.kill()
    # Not yet waited for, it is a zombie: dead, whatever its number says.
    deadline = time.monotonic() + 10
    while read(tmp_path) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    owner.communicate()
    assert take(tmp_path).number == 2


def test_owner_of_this_machine_that_is_stopped__keeps_its_run(tmp_path):
    file = tmp_path / f".lock-{take(tmp_path).number:06d}"
    os.utime(file, (0.0, 0.0))
    assert read(tmp_path) is not None


@pytest.mark.parametrize(("age", "held"), [(1.0, True), (lock.PATIENCE + 1.0, False)])
def test_number_of_a_process_that_was_used_again__is_its_owner_only_while_it_beats(
    tmp_path, age, held
):
    mine = take(tmp_path)
    content = json.loads((tmp_path / f".lock-{mine.number:06d}").read_text())
    pretend(tmp_path, mine.number, age, **content | {"created": content["created"] - 3600.0})
    assert (read(tmp_path) is not None) == held


def test_process_of_another_user__is_not_taken_for_dead(tmp_path, monkeypatch):
    psutil = pytest.importorskip("psutil")

    def refuse(pid):
        raise psutil.AccessDenied(pid)

    take(tmp_path)
    monkeypatch.setattr(psutil, "Process", refuse)
    assert read(tmp_path) is not None
    with pytest.raises(BusyError):
        take(tmp_path)


def test_lock_of_another_machine__is_free_after_patience_without_a_beat(tmp_path):
    pretend(tmp_path, 3, age=lock.PATIENCE - 5.0)
    with pytest.raises(BusyError, match="process 1 on far"):
        take(tmp_path)
    pretend(tmp_path, 3, age=lock.PATIENCE + 5.0)
    assert read(tmp_path) is None
    assert take(tmp_path).number == 4


def test_age_of_a_beat__is_told_by_the_clock_of_the_file_system(tmp_path, monkeypatch):
    pretend(tmp_path, 3)
    # This machine's own clock is an hour ahead of the one that dates files.
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3600.0)
    assert read(tmp_path) is not None
    assert locks(tmp_path) == [".lock-000003"]


def test_number_that_another_has_just_taken__is_not_taken_from_it(tmp_path, monkeypatch):
    pretend(tmp_path, 1, free=True)
    file = pretend(tmp_path, 2)
    before = file.read_bytes()
    monkeypatch.setattr(lock, "_newest", lambda path: 1)
    with pytest.raises(BusyError, match="just taken"):
        take(tmp_path)
    assert file.read_bytes() == before


def test_number_that_two_others_have_passed__is_given_back(tmp_path, monkeypatch):
    pretend(tmp_path, 1, free=True)
    # Between the look and the hand, another took 2, released it, and a third took 3.
    pretend(tmp_path, 3)
    newest = [1, 1]
    monkeypatch.setattr(lock, "_newest", lambda path: newest.pop() if newest else 3)
    with pytest.raises(BusyError, match="just taken"):
        take(tmp_path)
    assert locks(tmp_path) == [".lock-000001", ".lock-000003"]


@pytest.mark.parametrize("content", ["", "{", "[1]", "null"])
def test_lock_that_is_still_being_written__is_held(tmp_path, content):
    (tmp_path / ".lock-000001").write_text(content)
    assert read(tmp_path).pid == 0
    with pytest.raises(BusyError):
        take(tmp_path)


def test_hold__beats_in_the_background_until_the_run_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with hold(tmp_path) as mine:
        mine.progress = {"steps": 3}
        deadline = time.monotonic() + 10
        while read(tmp_path).progress != {"steps": 3}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        mine.check()
        pretend(tmp_path, mine.number + 1)
        with pytest.raises(LostError):
            mine.check()
    assert read(tmp_path).host == "far"


def test_hold__releases_whatever_happens(tmp_path):
    def fail():
        assert read(tmp_path) is not None
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"), hold(tmp_path):
        fail()
    assert read(tmp_path) is None


def test_full_disk__does_not_end_the_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.005)
    told = []

    def write(self, more):
        told.append(more)
        raise OSError("no space left")

    with hold(tmp_path):
        monkeypatch.setattr(Lock, "_write", write)
        deadline = time.monotonic() + 10
        while len(told) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.005)
