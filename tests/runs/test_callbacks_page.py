"""The callbacks of docs/callbacks.md work as printed, and progress is shown from Python."""

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")

import gammaprime as gp
from gammaprime.runs.progress import ProgressLine
from runs.training_runs import AGENT, STEPS, run

PAGE = (Path(__file__).parents[2] / "docs/callbacks.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


class Recorder:
    """A stub that notes every call: of wandb, of its run, and of mlflow."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self.calls.append((name, args, kwargs))
            return self

        return call


@pytest.fixture
def page(tmp_path, monkeypatch):
    """What the blocks define, each run by itself as printed, but for the sizes."""
    monkeypatch.chdir(tmp_path)
    stubs = {"wandb": Recorder(), "mlflow": Recorder()}
    for name, stub in stubs.items():
        monkeypatch.setitem(sys.modules, name, stub)
    found = {}
    for block in BLOCKS:
        names = {"SMALL": AGENT}
        fewer = block.replace("gp.PPO()", "SMALL").replace("steps=1e6", f"steps={STEPS}")
        exec(compile(fewer, "docs/callbacks.md", "exec"), names)
        found |= names
    return SimpleNamespace(**found)


def test_page__trains_as_printed(page):
    assert page.run.done
    assert page.run.path == Path("results/runs/hopper")


def test_early_stopping__stops_at_the_first_evaluation_that_is_good_enough(page, tmp_path):
    found = run(tmp_path / "run", [page.StopAtReturn(-1e9)])
    assert not found.done
    assert found.steps == 96  # where the first evaluation is
    assert gp.resume(found, progress=False).done
    assert run(None, [page.StopAtReturn(1e9)]).done


@pytest.mark.parametrize("name", ["LogToWandb", "LogToMlflow"])
def test_trackers__are_told_settings_and_every_update(page, name):
    callback = vars(page)[name]()
    found = run(None, [callback])
    stub = page.wandb if name == "LogToWandb" else page.mlflow
    logged = [call for call in stub.calls if call[0] in ("log", "log_metrics")]
    assert [call[2]["step"] for call in logged] == [
        row["time/total_timesteps"] for row in found.rows
    ]
    assert logged[-1][1][0]["eval/mean_reward"] == found.rows[-1]["eval/mean_reward"]
    assert not any(isinstance(x, list) for call in logged for x in call[1][0].values())
    assert stub.calls[-1][0] in ("finish", "end_run")
    if name == "LogToWandb":  # without an id, a resumed run would be another one there
        assert stub.calls[0][2]["id"] == found.config.folder


def test_progress__is_one_line_that_is_written_over(monkeypatch):
    stream = io.StringIO()
    run(None, [ProgressLine(stream)])
    first, *lines = stream.getvalue().split("\r")
    assert first.startswith(f"{STEPS} steps: 8 rollouts of 32; trained with γ = 0.99, judged by")
    assert re.match(rf"100 %  step {STEPS} .*steps/s  done *\n$", lines[-1])


@pytest.mark.parametrize(
    ("asked", "terminal", "shown"), [(True, 0, 1), (None, 1, 1), (None, 0, 0), (False, 1, 0)]
)
def test_progress__is_shown_when_asked_for_or_seen(asked, terminal, shown, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: bool(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    run(None, progress=asked)
    assert ("trained with γ = 0.99" in stream.getvalue()) == bool(shown)
