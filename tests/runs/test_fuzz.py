"""Files of a run, flipped and cut at random: the same result, or one line and exit code 2.

Files that decide nothing must give the same result.
"""

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

from gammaprime import cli
from gammaprime.agents import TD3, DensityRatio
from gammaprime.runs import lock, segments
from gammaprime.runs.metrics import read_rows
from gammaprime.runs.results import read_history
from gammaprime.runs.training import evaluate, resume
from runs.training_runs import EVERY_UPDATE, StopAt, fingerprint, run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

REPLAY = TD3(
    num_envs=2,
    num_steps=8,
    updates_per_step=0.25,
    hidden=(4,),
    batch_size=6,
    replay_size=200,
    random_steps=32,
    learning_starts=48,
    weighting=DensityRatio(recent_size=70, batch_size=5),
)
SETTINGS = {"on-policy": {}, "with a replay": {"agent": REPLAY, "steps": 240}}
WITH_EVENTS = EVERY_UPDATE | {"tensorboard": True}
STRAY = (".worker.log", "notes.txt")
DECIDES_NOTHING = ("wall_clock.jsonl", "tensorboard/", *STRAY)
POLICIES = ("policy.npz", "policy_best.npz")
"""Decide nothing in a run that goes on."""
ROUNDS, CALLS = 6, 3
"""Harms of each file in this process, and calls of the command line for each kind of run."""


def flip_bit(content, rng):
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def flip_byte(content, rng):
    content[rng.randrange(len(content))] = rng.randrange(256)


def change_digit(content, rng):
    digits = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
    if digits:
        content[rng.choice(digits)] = ord(rng.choice("0123456789"))


def cut(content, rng):
    del content[rng.randrange(len(content)) :]


def take_out(content, rng):
    start = rng.randrange(len(content))
    del content[start : start + rng.randrange(1, 100)]


def zero(content, rng):
    start = rng.randrange(len(content))
    stop = min(start + rng.randrange(1, 600), len(content))
    content[start:stop] = bytes(stop - start)


PAIR = re.compile(rb'("[^"]+": )("[^"]*"|[-+.\w]+|\{[^{}]*\}|\[\[.*?\]\]|\[[^\[\]]*\])')
ODD = (
    b"null",
    b"[1]",
    b'{"a": 1}',
    b'"x"',
    b"-1",
    b"NaN",
    b"1e999",
    b"9" * 400,
    b"[[1, 1, 1e308, 1, 1]]",
)


def replace_values(content, rng):
    """Give a key of a JSON file, on every line, a value of another type or size."""
    if keys := sorted({pair[1] for pair in PAIR.finditer(content)}):
        key, value = rng.choice(keys), rng.choice(ODD)
        content[:] = PAIR.sub(lambda pair: key + value if pair[1] == key else pair[0], content)


HARMS = (flip_bit, flip_byte, change_digit, cut, take_out, zero, replace_values)


def harms(name, rng):
    """Harms of a file: more of them if its values can be replaced, most if it decides nothing."""
    more = ROUNDS if name.endswith((".json", ".jsonl")) else 0
    more *= 5 if name in DECIDES_NOTHING else 1
    return [*rng.choices(HARMS, k=ROUNDS), *[replace_values] * more]


def files(folder):
    found = (file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    return sorted(str(file.relative_to(folder)) for file in found)


def harmed(folder, name, harm, rng, to):
    """A copy of a run in which one file is not what it was."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    content = bytearray((to / name).read_bytes())
    harm(content, rng)
    (to / name).write_bytes(content)
    return to


def answer(call):
    """What a call gives; None if it is refused, which the command line tells in one line."""
    try:
        return call()
    except (ValueError, OSError) as error:
        line = str(error).strip()
    assert "\n" not in line
    return None


@pytest.fixture(scope="module", params=SETTINGS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def runs(kind, tmp_path_factory):
    """A run that was stopped, and the same run, undisturbed."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "LARGEST", 32)
        patch.setattr(lock, "PATIENCE", 0.0)
        make_runs(folder, SETTINGS[kind])
        yield folder / "stopped", folder / "calm"


def make_runs(folder, settings):
    with pytest.MonkeyPatch.context() as patch:
        # Several segments, most of them shared by both checkpoints.
        patch.setattr(segments, "LARGEST", 32)
        run(folder / "stopped", [StopAt(176)], **settings, tensorboard=True)
        run(folder / "calm", **settings, tensorboard=True)
    for name in STRAY:
        for out in ("stopped", "calm"):
            (folder / out / name).write_text("7 lines\n")


MAKE = """
import sys
from pathlib import Path
from gammaprime.runs import startup
startup.use_one_thread()
from runs.test_fuzz import SETTINGS, make_runs
make_runs(Path(sys.argv[1]), SETTINGS[sys.argv[2]])
"""


@pytest.fixture(scope="module")
def runs_of_a_process(kind, tmp_path_factory, environment):
    """Both runs, made in a process with one thread: this one may have given JAX more before."""
    folder = tmp_path_factory.mktemp("runs_of_a_process")
    where = {**environment, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, "-c", MAKE, str(folder), kind], env=where, check=True)
    return folder / "stopped", folder / "calm"


def test_run_that_was_stopped__ends_as_ever_or_is_refused(runs, tmp_path):
    stopped, calm = runs
    assert any(name.startswith("tensorboard/") for name in files(stopped))
    rng, ended = random.Random(19), 0
    for name in files(stopped):
        for harm in harms(name, rng):
            out = harmed(stopped, name, harm, rng, tmp_path / "run")
            if answer(lambda out=out: resume(out, **WITH_EVENTS)):
                ended += 1
                assert fingerprint(out) == fingerprint(calm), (name, harm)
            else:
                assert not name.startswith((*DECIDES_NOTHING, *POLICIES)), (name, harm)
    assert ended > ROUNDS


def test_finished_run__is_read_and_evaluated_as_ever_or_refused(runs, tmp_path):
    _, calm = runs
    rng = random.Random(19)
    scores, history = evaluate(calm, episodes=2), read_history(calm)
    rows = read_rows(calm)
    told = 0
    for name in files(calm):
        for harm in harms(name, rng):
            out = harmed(calm, name, harm, rng, tmp_path / "run")
            if found := answer(lambda out=out: evaluate(out, episodes=2)):
                for mine, other in zip(found[3:], scores[3:], strict=True):
                    np.testing.assert_array_equal(mine, other, err_msg=name)
            if read := answer(lambda out=out: read_history(out)):
                np.testing.assert_array_equal(read.episodes, history.episodes, err_msg=name)
            if again := answer(lambda out=out: resume(out, **WITH_EVENTS)):
                told += 1
                assert again.done
                assert again.rows == rows, (name, harm)
            if name.startswith(DECIDES_NOTHING):
                assert found, (name, harm)
                assert read, (name, harm)
                assert again, (name, harm)
    assert told > ROUNDS


@pytest.mark.parametrize("which", [0, 1], ids=["stopped", "calm"])
def test_report__shows_the_run_beside_a_damaged_one(runs, tmp_path, capsys, which):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    folder = runs[which]
    shutil.copytree(runs[1], tmp_path / "runs/whole")
    page, rng = tmp_path / "page.html", random.Random(19)
    names = [name for name in files(folder) if name.endswith((".json", ".jsonl", "done"))]
    for name in (name for name in names if "/" not in name):
        for harm in harms(name, rng)[: 2 * ROUNDS]:
            out = harmed(folder, name, harm, rng, tmp_path / "runs/run")
            page.unlink(missing_ok=True)
            assert cli.main(["report", str(tmp_path / "runs"), "--out", str(page)]) == 0, harm
            told = capsys.readouterr().err.splitlines()
            assert len(told) <= 1, (name, told)
            assert "<svg" in page.read_text(encoding="utf-8")
            assert all(out.name in line for line in told)
        code = cli.main(["report", str(out), "--out", str(page)])
        told = capsys.readouterr().err.splitlines()
        assert code == 0 or (code == 2 and told[-1].startswith("gammaprime: ")), name


def test_command_line__ends_as_ever_or_with_one_line_and_2(
    runs_of_a_process, tmp_path, environment
):
    stopped, calm = runs_of_a_process
    rng = random.Random(20)
    code = "import sys; from gammaprime.cli import main; sys.exit(main())"
    names = [name for name in files(stopped) if not name.startswith(".lock")]
    for name in ["config.json", "metrics.jsonl", *rng.sample(names, CALLS)]:
        out = harmed(stopped, name, rng.choice(HARMS), rng, tmp_path / "run")
        words = ["resume", str(out), "--checkpoint-seconds", "0"]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr
        if done.returncode == 0:
            assert fingerprint(out) == fingerprint(calm), name
        else:
            assert done.returncode == 2
            assert done.stdout == ""
            assert done.stderr.splitlines()[-1].startswith("gammaprime: ")
