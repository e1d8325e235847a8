"""Segments: a replay on disk, written once, found whole or found out."""

import contextlib
import math
import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("jax")
pytest.importorskip("safetensors")

from gammaprime.loops.replay import Replay
from gammaprime.runs import checkpoint, segments
from gammaprime.runs.checkpoint import Checkpoint
from gammaprime.runs.directory import DamagedError
from gammaprime.runs.segments import Parity
from gammaprime.types import Trajectory
from runs.failing_disk import SYNCED, Killed, failing_writes

MAX = 64


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small segments on a disk that does not make us wait."""
    monkeypatch.setattr(segments, "LARGEST", MAX)
    monkeypatch.setattr(os, "fsync", lambda file: None)


def add(replay, length):
    """Transitions that all know their number."""
    n = np.arange(replay.count, replay.count + length, dtype=float)[:, None]
    flag = n % 2 == 0
    wide = n[..., None]
    replay.add(Trajectory(wide, wide + 1, -wide, n, flag, ~flag, n.astype(int)))


def extend(folder, held, replay):
    """The segments that hold all, and the parity of them."""
    parity = Parity()
    for segment in held:
        parity.toggle(segment.file(folder).read_bytes())
    return segments.extend(folder, held, parity, replay)


def save(folder, held, replay):
    """A checkpoint as a run takes it; what it then holds."""
    held, parity = extend(folder, held, replay)
    arrays = {"replay/count": np.array(replay.count)}
    stored = (held, parity.write(folder))
    checkpoint.save(folder, Checkpoint(replay.count, replay.count, arrays, *stored))
    return held


def load(folder, size):
    """The replay of the newest checkpoint that is whole."""
    saved = checkpoint.load(folder)
    replay = Replay(size, 1, 1)
    replay.count = int(saved.arrays["replay/count"])
    segments.restore(folder, saved.segments, replay)
    return replay


def assert_same(replay, other):
    assert replay.count == other.count
    for name, field in replay.take(replay.oldest, replay.count).items():
        np.testing.assert_array_equal(other.take(other.oldest, other.count)[name], field)


def files(folder):
    return sorted(file.name for file in (folder / "replay").glob("*.safetensors"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(1, 150),
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=8),
)
def test_any_run__is_loaded_as_it_was_at_both_checkpoints_that_are_kept(tmp_path, size, lengths):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    replay, held = Replay(size, 1, 1), ()
    before = None
    for length in lengths:
        add(replay, length)
        held = save(folder, held, replay)
        assert_same(replay, load(folder, size))
        if before is not None:
            newest = folder / f"{replay.count:012d}.json"
            hidden = newest.rename(newest.with_suffix(".hidden"))
            assert load(folder, size).count == before
            hidden.rename(newest)
        before = replay.count
        needed = {segment.file(folder).name for segment in held}
        assert needed <= set(files(folder))


def test_checkpoint__writes_each_transition_a_few_times_and_leaves_a_few_files(
    tmp_path, monkeypatch
):
    written = []
    write = segments._write

    def counted(folder, replay, start, stop):
        written.append(stop - start)
        return write(folder, replay, start, stop)

    monkeypatch.setattr(segments, "_write", counted)
    size, new, rounds = 10 * MAX, 2, 800
    replay, held = Replay(size, 1, 1), ()
    most = math.log2(MAX / new)
    for _ in range(rounds):
        add(replay, new)
        held = save(tmp_path, held, replay)
        assert len(held) <= size / MAX + 1 + most
    assert sum(written) <= (most + 1) * new * rounds
    # Two checkpoints' worth, and no more.
    assert len(files(tmp_path)) <= size / MAX + 2 * most + 2
    assert_same(replay, load(tmp_path, size))


def test_large_steps__are_written_once_in_pieces(tmp_path):
    replay, held = Replay(1000, 1, 1), ()
    add(replay, 3 * MAX + 5)
    held = save(tmp_path, held, replay)
    assert [segment.length for segment in held] == [MAX, MAX, MAX, 5]
    add(replay, 3 * MAX)
    later = save(tmp_path, held, replay)
    assert later[:4] == held
    assert_same(replay, load(tmp_path, 1000))


def test_neighbours__are_put_together_without_what_was_overwritten(tmp_path):
    replay = Replay(50, 1, 1)
    add(replay, 30)
    held = save(tmp_path, (), replay)
    add(replay, 30)
    held = save(tmp_path, held, replay)
    assert [(segment.start, segment.stop) for segment in held] == [(10, 60)]
    assert_same(replay, load(tmp_path, 50))


def test_nothing_new__writes_nothing(tmp_path):
    replay = Replay(100, 1, 1)
    add(replay, 10)
    held, _ = extend(tmp_path, (), replay)
    assert extend(tmp_path, held, replay)[0] == held


def test_segments_of_overwritten_transitions__go_when_no_checkpoint_needs_them(tmp_path):
    replay = Replay(MAX, 1, 1)
    add(replay, MAX)
    first = save(tmp_path, (), replay)
    add(replay, MAX)
    second = save(tmp_path, first, replay)
    assert len(files(tmp_path)) == 2, "the previous checkpoint stays loadable"
    add(replay, MAX)
    third = save(tmp_path, second, replay)
    names = [segment.file(tmp_path).name for segment in (*second, *third)]
    assert files(tmp_path) == sorted(names)
    assert not set(first) & set(third)


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def flip(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.fixture
def two_checkpoints(tmp_path):
    """A replay of which both checkpoints share all segments but the last, and these segments."""
    replay = Replay(1000, 1, 1)
    add(replay, 3 * MAX + 5)
    first = save(tmp_path, (), replay)
    add(replay, MAX)
    return replay, first, save(tmp_path, first, replay)


@pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
def test_any_one_segment__is_rebuilt_bit_for_bit_and_told(tmp_path, two_checkpoints, harm):
    replay, first, second = two_checkpoints
    assert first == second[:4]
    for segment in second:
        file = segment.file(tmp_path)
        whole = file.read_bytes()
        harm(file)
        with pytest.warns(UserWarning, match=rf"{file.name}.*rebuilt from the others"):
            assert_same(replay, load(tmp_path, 1000))
        assert file.read_bytes() == whole


@pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
def test_damaged_parity__costs_nothing(tmp_path, two_checkpoints, harm):
    for file in (tmp_path / "replay").glob("parity-*"):
        harm(file)
    assert_same(two_checkpoints[0], load(tmp_path, 1000))


def test_two_damaged_segments__fall_back_to_a_checkpoint_that_needs_one(tmp_path, two_checkpoints):
    _, first, second = two_checkpoints
    flip(first[0].file(tmp_path))
    flip(second[-1].file(tmp_path))
    with (
        pytest.warns(UserWarning, match="rebuilt from the others"),
        pytest.warns(UserWarning, match=f"going back to step {3 * MAX + 5}"),
    ):
        loaded = load(tmp_path, 1000)
    assert loaded.count == 3 * MAX + 5
    # Going on from there writes the same segment again, and so mends it.
    add(loaded, MAX)
    assert save(tmp_path, first, loaded) == second
    assert_same(two_checkpoints[0], load(tmp_path, 1000))


def test_two_damaged_segments_that_both_checkpoints_need__are_named(tmp_path, two_checkpoints):
    for segment in two_checkpoints[1][:2]:
        flip(segment.file(tmp_path))
    with pytest.raises(DamagedError, match=r"no checkpoint is whole.*000000000000-000000000064"):
        checkpoint.load(tmp_path)


def test_checkpoint_of_a_version_without_parity__is_loaded_and_not_rebuilt(tmp_path):
    replay = Replay(1000, 1, 1)
    add(replay, 2 * MAX)
    held, _ = extend(tmp_path, (), replay)
    arrays = {"replay/count": np.array(replay.count)}
    checkpoint.save(tmp_path, Checkpoint(replay.count, 0, arrays, held))
    assert_same(replay, load(tmp_path, 1000))
    flip(held[0].file(tmp_path))
    with pytest.raises(DamagedError, match="its hash is not"):
        checkpoint.load(tmp_path)


def test_segment_that_is_damaged_when_it_leaves__lets_the_replay_be_written_anew(tmp_path):
    replay = Replay(2 * MAX, 1, 1)
    add(replay, 2 * MAX)
    held, parity = segments.extend(tmp_path, (), Parity(), replay)
    flip(held[0].file(tmp_path))
    add(replay, MAX)
    with pytest.warns(UserWarning, match="the replay buffer is written anew"):
        held, parity = segments.extend(tmp_path, held, parity, replay)
    arrays = {"replay/count": np.array(replay.count)}
    checkpoint.save(tmp_path, Checkpoint(replay.count, 0, arrays, held, parity.write(tmp_path)))
    flip(held[0].file(tmp_path))
    with pytest.warns(UserWarning, match="rebuilt"):
        assert_same(replay, load(tmp_path, 2 * MAX))


@pytest.mark.parametrize("removed", ["all", "one"])
def test_segments_that_were_removed__let_the_replay_be_written_anew(tmp_path, removed):
    replay = Replay(3 * MAX, 1, 1)
    add(replay, 2 * MAX)
    held, parity = segments.extend(tmp_path, (), Parity(), replay)
    shutil.rmtree(tmp_path / "replay") if removed == "all" else held[0].file(tmp_path).unlink()
    with pytest.warns(UserWarning, match="is missing; the replay buffer is written anew"):
        held, parity = segments.extend(tmp_path, held, parity, replay)
    arrays = {"replay/count": np.array(replay.count)}
    checkpoint.save(tmp_path, Checkpoint(replay.count, 0, arrays, held, parity.write(tmp_path)))
    assert_same(replay, load(tmp_path, 3 * MAX))


@pytest.mark.parametrize("row", [3, [3], [3, "../../etc"], ["3", "0" * 64], {"a": 1}])
def test_parity_that_makes_no_sense__is_refused(row):
    with pytest.raises(ValueError, match="makes no sense"):
        segments.parity_from_list(row)


@pytest.mark.parametrize("lets_through", range(12))
def test_death_at_each_step_of_saving__leaves_a_whole_replay(tmp_path, lets_through):
    replay, held = Replay(100, 1, 1), ()
    for _ in range(3):
        add(replay, 30)
        held = save(tmp_path, held, replay)
    add(replay, 30)
    with contextlib.suppress(Killed), failing_writes(lets_through, (*SYNCED, (Path, "unlink"))):
        save(tmp_path, held, replay)
    loaded = load(tmp_path, 100)
    assert loaded.count in (90, 120)
    np.testing.assert_array_equal(
        loaded.take(loaded.oldest, loaded.count)["reward"], np.arange(loaded.oldest, loaded.count)
    )
    checkpoint.set_aside(tmp_path, loaded.count)
    assert not list((tmp_path / "replay").glob(".*"))


def test_gap_between_segments__is_damage(tmp_path):
    replay = Replay(1000, 1, 1)
    add(replay, 3 * MAX)
    held, _ = extend(tmp_path, (), replay)
    with pytest.raises(DamagedError, match="no segment holds transitions from 64 on"):
        segments.check(tmp_path, (held[0], held[2]))


def test_segments_that_do_not_reach_the_count__are_refused(tmp_path):
    replay = Replay(1000, 1, 1)
    add(replay, 3 * MAX)
    held, _ = extend(tmp_path, (), replay)
    other = Replay(1000, 1, 1)
    other.count = 3 * MAX
    for wrong in (held[:2], held[1:], ()):
        with pytest.raises(ValueError, match="must hold 0 to 192"):
            segments.restore(tmp_path, wrong, other)


@pytest.mark.parametrize(
    "rows", [3, [3], [[1, 2, 3]], [[1, 2, 3, "../../etc"]], [[1, 2.0, 3, "0" * 64]], {"a": 1}]
)
def test_list_that_makes_no_sense__is_refused(rows):
    with pytest.raises(ValueError, match="makes no sense"):
        segments.from_list(rows)


def test_manifest_with_other_segments_than_its_data__is_damage(tmp_path):
    replay = Replay(1000, 1, 1)
    add(replay, MAX)
    save(tmp_path, (), replay)
    manifest = tmp_path / f"{MAX:012d}.json"
    manifest.write_text(manifest.read_text().replace('"segments": [', '"segments": [ [], '))
    with pytest.raises(DamagedError, match="does not say what"):
        checkpoint.load(tmp_path)


def test_drop__leaves_the_checkpoints_alone(tmp_path):
    replay = Replay(1000, 1, 1)
    add(replay, MAX)
    save(tmp_path, (), replay)
    checkpoint.save(tmp_path, Checkpoint(MAX + 1, 0, {"x": np.zeros(1)}))
    segments.drop(tmp_path)
    segments.drop(tmp_path)
    assert not (tmp_path / "replay").exists()
    assert checkpoint.load(tmp_path).step == MAX + 1
