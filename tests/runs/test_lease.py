"""Leases: one owner at a time, beats that are seen, deaths that are noticed, losses that stop."""

import json
import subprocess
import sys
import time

import pytest

from gammaprime.runs import lease
from gammaprime.runs.lease import HeldError, Lease, Watch, read, take

ELSEWHERE = {"machine": "another one", "pid": 1, "started": "1"}


def pretend(folder, number, **content):
    """A lease as a process of another machine would have written it."""
    folder.mkdir(exist_ok=True)
    (folder / f".lease-{number:06d}").write_text(json.dumps({**ELSEWHERE, **content}))


def leases(folder):
    return sorted(file.name for file in folder.glob(".lease-*"))


def test_lease__is_taken_once_until_it_is_released(tmp_path):
    mine = take(tmp_path)
    with pytest.raises(HeldError, match="another process has this run"):
        take(tmp_path)
    assert not read(tmp_path).free
    mine.release()
    assert read(tmp_path).free
    again = take(tmp_path)
    assert again.number == mine.number + 1
    assert leases(tmp_path) == [".lease-000002"]


def test_owner_that_slept_while_another_finished__has_lost_the_run(tmp_path):
    mine = take(tmp_path)
    other = take(tmp_path, stale=read(tmp_path).token)
    (tmp_path / "done").touch()
    other.release()
    assert read(tmp_path).free
    assert not mine.held
    assert other.held


def test_owner_whose_lease_is_gone__has_lost_the_run(tmp_path):
    mine = take(tmp_path)
    assert mine.held
    (tmp_path / ".lease-000001").unlink()
    assert not mine.held
    assert not mine.beat({})
    mine.release()
    assert leases(tmp_path) == []


def test_number_that_was_taken_over_at_once__is_not_had(tmp_path, monkeypatch):
    beat = Lease.beat

    def sleep_first(self, progress):
        pretend(tmp_path, self.number + 1, beat=1)
        return beat(self, progress)

    monkeypatch.setattr(Lease, "beat", sleep_first)
    with pytest.raises(HeldError, match="just taken"):
        take(tmp_path)
    assert leases(tmp_path) == [".lease-000002"]


def test_beat__carries_the_progress_and_changes_the_token(tmp_path):
    mine = take(tmp_path)
    before = read(tmp_path)
    assert mine.beat({"steps": 7})
    after = read(tmp_path)
    assert after.content["progress"] == {"steps": 7}
    assert after.token != before.token


TAKE = """
import sys
from pathlib import Path
from gammaprime.runs.lease import HeldError, take
sys.stdin.readline()
try:
    print(take(Path(sys.argv[1])).number, flush=True)
except HeldError:
    print("held", flush=True)
sys.stdin.readline()
"""


def start(*arguments):
    command = [sys.executable, "-c", TAKE, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_of_processes_that_race__one_gets_it(tmp_path):
    pretend(tmp_path, 4, free=True)
    racers = [start(tmp_path) for _ in range(6)]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = sorted(racer.stdout.readline().strip() for racer in racers)
    assert answers == ["5", *["held"] * 5]
    for racer in racers:
        racer.communicate("stop\n", timeout=20)


def test_killed_owner__is_noticed_at_once_on_its_machine(tmp_path):
    owner = start(tmp_path)
    owner.stdin.write("go\n")
    owner.stdin.flush()
    assert owner.stdout.readline() == "1\n"
    with pytest.raises(HeldError):
        take(tmp_path)
    owner.kill()
    # Not yet waited for, it is a zombie: dead, whatever its number says.
    deadline = time.monotonic() + 10
    while not read(tmp_path).free:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    owner.communicate()
    assert take(tmp_path).number == 2


def test_number_of_a_process_that_was_used_again__is_not_its_owner(tmp_path):
    mine = take(tmp_path)
    content = read(tmp_path).content | {"started": "0"}
    (tmp_path / f".lease-{mine.number:06d}").write_text(json.dumps(content))
    assert read(tmp_path).free


def test_lease_of_another_machine__is_stale_only_after_patience_without_a_beat(
    tmp_path, monkeypatch
):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    watch = Watch(patience=60)
    pretend(tmp_path, 3, beat=1)
    assert not watch.is_free(tmp_path, read(tmp_path))
    now += 50
    pretend(tmp_path, 3, beat=2)
    assert not watch.is_free(tmp_path, read(tmp_path))
    now += 59
    assert not watch.is_free(tmp_path, read(tmp_path))
    with pytest.raises(HeldError):
        take(tmp_path)
    now += 2
    seen = read(tmp_path)
    assert watch.is_free(tmp_path, seen)
    assert take(tmp_path, stale=seen.token).number == 4


def test_stale_lease_that_beats_again__is_not_taken(tmp_path):
    pretend(tmp_path, 3, beat=1)
    watched = read(tmp_path).token
    pretend(tmp_path, 3, beat=2)
    with pytest.raises(HeldError):
        take(tmp_path, stale=watched)


def test_owner_that_was_given_up__finds_out_and_writes_nothing(tmp_path):
    mine = take(tmp_path)
    pretend(tmp_path, mine.number + 1, beat=1)
    before = (tmp_path / ".lease-000002").read_bytes()
    assert not mine.beat({"steps": 1})
    mine.release()
    assert (tmp_path / ".lease-000002").read_bytes() == before
    assert not read(tmp_path).free


def test_number_that_another_has_just_taken__is_not_taken_from_it(tmp_path, monkeypatch):
    pretend(tmp_path, 1, free=True)
    seen = read(tmp_path)
    pretend(tmp_path, 2, beat=1)
    before = (tmp_path / ".lease-000002").read_bytes()
    monkeypatch.setattr(lease, "read", lambda folder: seen)
    with pytest.raises(HeldError, match="just taken"):
        take(tmp_path)
    assert (tmp_path / ".lease-000002").read_bytes() == before


def test_number_that_two_others_have_passed__is_given_back(tmp_path, monkeypatch):
    pretend(tmp_path, 1, free=True)
    seen = read(tmp_path)
    # Between the look and the hand, another took 2, released it, and a third took 3.
    pretend(tmp_path, 3, beat=1)
    monkeypatch.setattr(lease, "read", lambda folder: seen)
    with pytest.raises(HeldError, match="just taken"):
        take(tmp_path)
    assert leases(tmp_path) == [".lease-000001", ".lease-000003"]


@pytest.mark.parametrize("content", ["", "{", "[1]", "null"])
def test_lease_that_is_still_being_written__is_held(tmp_path, content):
    (tmp_path / ".lease-000001").write_text(content)
    assert not read(tmp_path).free
    with pytest.raises(HeldError):
        take(tmp_path)


def test_kept__beats_in_the_background_and_tells_a_loss(tmp_path):
    mine, lost = take(tmp_path), []
    first = read(tmp_path).token
    with lease.kept(mine, lambda: {"steps": 3}, lambda: lost.append(1), beat=0.01):
        deadline = time.monotonic() + 10
        while read(tmp_path).token == first:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not lost
        pretend(tmp_path, mine.number + 1, beat=1)
        while not lost:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_kept__releases_whatever_happens(tmp_path):
    def fail():
        raise ValueError("x")

    with (
        pytest.raises(ValueError, match="x"),
        lease.kept(take(tmp_path), dict, lambda: None, beat=5.0),
    ):
        fail()
    assert read(tmp_path).free


def test_full_disk__does_not_end_the_beats(tmp_path, monkeypatch):
    mine, told = take(tmp_path), []

    def write(self, more):
        told.append(more)
        raise OSError("no space left")

    monkeypatch.setattr(Lease, "_write", write)
    monkeypatch.setattr(Lease, "release", lambda self: None)
    with lease.kept(mine, dict, lambda: told.append("lost"), beat=0.005):
        deadline = time.monotonic() + 10
        while len(told) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert "lost" not in told
