"""What a person sees: a line that lives in a terminal, a few lines elsewhere."""

import io

import pytest

pytest.importorskip("jax")
pytest.importorskip("rich")

from rich.console import Console

from gammaprime.cli.display import Display, duration
from gammaprime.runs.old_training import Update

JUDGED = {"eval/mean_reward": 10.0, "eval/mean_reward_gamma": 5.0}
JUDGED |= {"eval/mean_reward_gamma_prime": 9.0}


def update(steps, total=1000, **row):
    return Update(steps, total, {"rollout/ep_rew_mean": 12.34, **row}, {})


def show(terminal, monkeypatch, seconds_each):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, highlight=False)
    clock = iter(range(10**6))
    monkeypatch.setattr("gammaprime.cli.display.time.monotonic", lambda: seconds_each * next(clock))
    with Display(console) as display:
        for steps in range(10, 1001, 10):
            if steps == 500:
                display.on_evaluation(update(steps, **JUDGED))
            assert display.on_update(update(steps)) is None
    return stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (42.4, "42 s"), (60, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_duration__is_told_in_two_words(seconds, text):
    assert duration(seconds) == text


def test_log__is_a_few_clean_lines(monkeypatch):
    lines = show(False, monkeypatch, seconds_each=1.0).splitlines()
    assert lines[0] == "  1 %  step 10  return 12.3"
    assert lines[1] == " 31 %  step 310  return 12.3  10 steps/s  1 min 9 s left"
    assert lines[2] == "step 500: evaluation of the policy: return 10.0, J_γ 5.0, J_γ' 9.0"
    assert lines[-1] == "100 %  step 1,000  return 12.3  evaluated 10.0  10 steps/s  done"
    assert len(lines) == 6


def test_speed__is_that_of_learning_once_there_is_any(monkeypatch):
    moments = iter([0.0, 0.1, 0.2, 10.2, 20.2])
    monkeypatch.setattr("gammaprime.cli.display.time.monotonic", lambda: next(moments))
    display = Display(Console(file=io.StringIO()))
    for steps in (100, 200):
        display.on_update(update(steps))
    assert "1,000 steps/s" in display.line(update(200))
    for steps in (300, 350, 400):
        display.on_update(update(steps, **{"train/critic_loss": 1.0}))
    assert "5 steps/s  2 min 0 s left" in display.line(update(400))


def test_terminal__sees_one_line_that_is_redrawn(monkeypatch):
    text = show(True, monkeypatch, seconds_each=0.01)
    assert text.startswith("\x1b[?25l")
    assert "compiling" in text
    # A hundred updates in one second: redrawn at most five times, for the evaluation and the end.
    assert 3 < text.count(" %  step") < 12
    assert text.rstrip().endswith("\x1b[?25h")
