"""Checkpoints: whatever happens while one is written or kept, a whole one is loaded or none."""

import contextlib
import errno
import json
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("safetensors")

from gammaprime.runs import checkpoint
from gammaprime.runs.checkpoint import Checkpoint, DamagedError
from runs.failing_disk import SYNCED, Killed, failing_writes


def at(step):
    """A checkpoint in which every number says which step it is of."""
    arrays = {
        "agent/.params[0].weight": np.full((3, 4), step, np.float32),
        "env/age": np.array([step, step + 1]),
        "env/words": np.array([2**63 + step], np.uint64),
        "count": np.array(step),
        "alive": np.array([True, False]),
        "none": np.zeros((0, 2)),
    }
    return Checkpoint(step, 10 * step, arrays)


def assert_is(loaded, step):
    wanted = at(step)
    assert (loaded.step, loaded.metrics_bytes) == (step, 10 * step)
    assert loaded.arrays.keys() == wanted.arrays.keys()
    for name, array in wanted.arrays.items():
        np.testing.assert_array_equal(loaded.arrays[name], array, strict=True)


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def damage(file, how):
    content = bytearray(file.read_bytes())
    if how == "cut short":
        content = content[: len(content) // 2]
    elif how == "a bit flipped":
        content[len(content) // 2] ^= 1
    elif how == "something else":
        content = bytearray(b"years of work")
    file.write_bytes(content)


HARMS = ["cut short", "a bit flipped", "something else"]


def test_load__gives_back_the_newest_with_types_and_shapes(tmp_path):
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, at(step))
    assert_is(checkpoint.load(tmp_path), 3)


def test_save__keeps_the_last_two(tmp_path):
    for step in (5, 90, 1000):
        checkpoint.save(tmp_path, at(step))
    stems = ("000000000090", "000000001000")
    assert files(tmp_path) == sorted(f"{s}.{e}" for s in stems for e in ("json", "safetensors"))


def test_load__is_none_where_none_was_finished(tmp_path):
    assert checkpoint.load(tmp_path / "nowhere") is None
    (tmp_path / "000000000001.safetensors").write_bytes(b"the manifest was never written")
    assert checkpoint.load(tmp_path) is None


def test_arrays_in_any_layout__keep_their_entries(tmp_path):
    x = np.arange(6.0).reshape(2, 3)
    checkpoint.save(tmp_path, Checkpoint(1, 0, {"f": np.asfortranarray(x), "t": x.T[::-1]}))
    loaded = checkpoint.load(tmp_path).arrays
    np.testing.assert_array_equal(loaded["f"], x)
    np.testing.assert_array_equal(loaded["t"], x.T[::-1])


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@pytest.mark.parametrize("how", HARMS)
def test_damage_to_the_newest__falls_back_loudly(tmp_path, how, suffix):
    for step in (1, 2):
        checkpoint.save(tmp_path, at(step))
    damage(tmp_path / f"000000000002{suffix}", how)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.warns(UserWarning, match="000000000002.*going back to step 1"):
        loaded = checkpoint.load(tmp_path)
    assert_is(loaded, 1)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("how", HARMS)
def test_damage_to_all__is_refused_and_nothing_is_changed(tmp_path, how):
    for step in (1, 2):
        checkpoint.save(tmp_path, at(step))
    for file in tmp_path.glob("*.safetensors"):
        damage(file, how)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(DamagedError, match=r"no checkpoint is whole.*000000000002.*000000000001"):
        checkpoint.load(tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_missing_data__is_damage(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, at(step))
    (tmp_path / "000000000002.safetensors").unlink()
    with pytest.warns(UserWarning, match="is missing"):
        assert_is(checkpoint.load(tmp_path), 1)


def test_set_aside__puts_damage_under_another_name_and_makes_the_next_load_quiet(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, at(step))
    damage(tmp_path / "000000000002.json", "cut short")
    checkpoint.set_aside(tmp_path, 1)
    assert_is(checkpoint.load(tmp_path), 1)
    checkpoint.save(tmp_path, at(2))
    assert_is(checkpoint.load(tmp_path), 2)
    assert "000000000002.safetensors.damaged" in files(tmp_path)


def test_format_of_another_version__is_not_guessed_at(tmp_path):
    checkpoint.save(tmp_path, at(1))
    manifest = tmp_path / "000000000001.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 2}))
    with pytest.raises(DamagedError, match="format 2 is not the 1 of this version"):
        checkpoint.load(tmp_path)


def test_manifest_that_disagrees_with_its_data__is_damage(tmp_path):
    checkpoint.save(tmp_path, at(1))
    manifest = tmp_path / "000000000001.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"metrics_bytes": 11}))
    with pytest.raises(DamagedError, match="does not say what"):
        checkpoint.load(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KEYS = ["format", "step", "metrics_bytes", "bytes", "sha256"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.sampled_from(KEYS) | st.text(), json_values, max_size=3))
def test_mutated_manifest__gives_the_truth_or_an_error(tmp_path, changes):
    checkpoint.save(tmp_path, at(7))
    manifest = tmp_path / "000000000007.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))
    with contextlib.suppress(DamagedError):
        assert_is(checkpoint.read(manifest), 7)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=64) | json_values.map(lambda x: json.dumps(x).encode()))
def test_any_bytes_as_a_manifest__are_refused(tmp_path, content):
    checkpoint.save(tmp_path, at(7))
    manifest = tmp_path / "000000000007.json"
    manifest.write_bytes(content)
    with pytest.raises(DamagedError):
        checkpoint.read(manifest)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(min_value=0), bit=st.integers(0, 7))
def test_any_bit_flipped_in_the_data__is_noticed(tmp_path, where, bit):
    checkpoint.save(tmp_path, at(7))
    data = tmp_path / "000000000007.safetensors"
    content = bytearray(data.read_bytes())
    content[where % len(content)] ^= 1 << bit
    data.write_bytes(content)
    with pytest.raises(DamagedError, match="hash"):
        checkpoint.read(data.with_suffix(".json"))


SAVING = ((Path, "open"), *SYNCED)


@pytest.mark.parametrize("lets_through", range(8))
def test_full_disk_at_each_step_of_saving__leaves_the_previous_ones(tmp_path, lets_through):
    for step in (1, 2):
        checkpoint.save(tmp_path, at(step))
    # A temporary file that is given up can still be removed.
    full = OSError(errno.ENOSPC, "No space left on device")
    with failing_writes(lets_through, SAVING, full), pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path, at(3))
    assert not list(tmp_path.glob(".*")), "temporary files take what space there is"
    loaded = checkpoint.load(tmp_path)
    assert_is(loaded, loaded.step)
    assert loaded.step >= 2
    checkpoint.save(tmp_path, at(4))
    assert_is(checkpoint.load(tmp_path), 4)


@pytest.mark.parametrize("lets_through", range(10))
def test_death_at_each_step_of_saving__leaves_a_whole_one(tmp_path, lets_through):
    for step in (1, 2):
        checkpoint.save(tmp_path, at(step))
    with failing_writes(lets_through, (*SAVING, (Path, "unlink"))), pytest.raises(Killed):
        checkpoint.save(tmp_path, at(3))
    loaded = checkpoint.load(tmp_path)
    assert_is(loaded, loaded.step)
    assert loaded.step >= 2
    checkpoint.save(tmp_path, at(4))
    assert_is(checkpoint.load(tmp_path), 4)
    checkpoint.set_aside(tmp_path, 4)
    assert not list(tmp_path.glob(".*"))


SAVES_FOREVER = """
import sys, itertools, numpy as np
from pathlib import Path
from gammaprime.runs import checkpoint
folder = Path(sys.argv[1])
first = (checkpoint.load(folder) or checkpoint.Checkpoint(0, 0, {})).step + 1
for step in itertools.count(first):
    arrays = {"x": np.full(50_000, step), "y": np.full(3, step, np.float32)}
    checkpoint.save(folder, checkpoint.Checkpoint(step, step, arrays))
"""


def test_sigkill_at_random_moments_of_saving__always_leaves_a_whole_one(tmp_path):
    rng, last = random.Random(0), 0
    for _ in range(15):
        process = subprocess.Popen([sys.executable, "-c", SAVES_FOREVER, str(tmp_path)])
        deadline = time.monotonic() + 60
        while not (tmp_path / f"{last + 3:012d}.json").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            saved = checkpoint.load(tmp_path)
        assert saved.step > last
        assert saved.metrics_bytes == saved.step
        for x in saved.arrays.values():
            assert (x == saved.step).all()
        last = saved.step
