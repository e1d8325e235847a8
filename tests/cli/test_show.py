"""What a person sees: a line that lives in a terminal, a few lines elsewhere."""

import io

import pytest

pytest.importorskip("jax")
pytest.importorskip("rich")

from rich.console import Console

from gammaprime.agents import PPO
from gammaprime.cli.show import Display, SweepDisplay, duration, forecast_line
from gammaprime.runs.config import RunConfig
from gammaprime.runs.progress import Pace
from gammaprime.runs.session import Update
from gammaprime.sweeps.driver import Driver, State, plan
from gammaprime.sweeps.forecast import Cost, Forecast, kind_of_run
from sweeps.fake_pool import FakePool

JUDGED = {"eval/mean_reward": 10.0, "eval/mean_reward_gamma": 5.0}
JUDGED |= {"eval/mean_reward_gamma_prime": 9.0}


def update(steps, total=1000, **row):
    return Update(steps, total, {"rollout/ep_rew_mean": 12.34, **row}, {})


def show(terminal, monkeypatch, seconds_each):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, highlight=False)
    clock = iter(range(10**6))
    monkeypatch.setattr("gammaprime.cli.show.time.monotonic", lambda: seconds_each * next(clock))
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


def test_speed__is_that_of_learning_once_there_is_any():
    pace = Pace()
    for steps, moment in ((100, 0.0), (200, 0.1)):
        pace.add(update(steps), moment)
    assert "1,000 steps/s" in pace.line(update(200))
    for steps, moment in ((300, 0.2), (350, 10.2), (400, 20.2)):
        pace.add(update(steps, **{"train/critic_loss": 1.0}), moment)
    assert "5 steps/s  2 min 0 s left" in pace.line(update(400))


def test_terminal__sees_one_line_that_is_redrawn(monkeypatch):
    text = show(True, monkeypatch, seconds_each=0.01)
    assert text.startswith("\x1b[?25l")
    assert "compiling" in text
    # A hundred updates in one second: redrawn at most five times, for the evaluation and the end.
    assert 3 < text.count(" %  step") < 12
    assert text.rstrip().endswith("\x1b[?25h")


COST = Cost(fps=1_000.0, row_bytes_per_step=10.0, state_bytes=1e5)


def shown(jobs, costs=None, terminal=False):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    display = SweepDisplay(console)
    display.name, display.costs = "mine", costs or {}
    work = Driver(jobs, FakePool(2), display)
    with display:
        display.on_round(work)
        display.on_round(work)
    return console.file.getvalue()


@pytest.fixture
def jobs(tmp_path):
    agent = PPO(num_steps=64, minibatches=1)
    configs = [RunConfig(agent, "Hopper-v4", 100_000, seed).resolve() for seed in range(6)]
    jobs = plan([(f"PPO(γ{config.seed})", config) for config in configs], tmp_path)
    states = (State.DONE, State.FAILED, State.RUNNING, State.ELSEWHERE)
    for job, state in zip(jobs, states, strict=False):
        job.state = state
    jobs[2].progress = {"steps": 60_000, "total": 99_968, "return": 123.456, "fps": 500.0}
    return jobs


def test_lines__tell_the_whole_and_are_not_repeated(jobs):
    text = shown(jobs)
    assert text == (
        "mine: 1 of 6 runs done, 1 running, 1 elsewhere, 1 failed, 500 steps/s, "
        "about 5 min 40 s left\n"
    )


def test_time_left__uses_the_speed_of_the_kind_where_it_is_known(jobs):
    kind = kind_of_run(jobs[0].config.to_table())
    # 40,000 and 3 times 100,000 steps at 1,000 steps/s, two at a time.
    assert "about 2 min 50 s left" in shown(jobs, {kind: COST})


def test_time_left__follows_the_wall_clock_of_what_was_trained_so_far(jobs):
    kind = kind_of_run(jobs[0].config.to_table())
    cost = COST._replace(start_seconds=10.0, evaluation_seconds=2.0)
    # Forecast for 60,000 steps: 10 s, 60 s and 6 evaluations.  They took twice as long.
    jobs[2].spent = 2 * (10.0 + 60.0 + 6 * 2.0)
    # Left: 40,000 steps and 4 evaluations, and three whole runs; two at a time.
    left = 2 * ((40.0 + 4 * 2.0) + 3 * (10.0 + 100.0 + 10 * 2.0)) / 2
    assert f"about {duration(left)} left" in shown(jobs, {kind: cost})
    # A run that has just been started says nothing yet of the speed.
    jobs[4].state, jobs[4].spent = State.RUNNING, 500.0
    assert f"about {duration(left)} left" in shown(jobs, {kind: cost})


def test_nothing_known__promises_no_time(jobs):
    jobs[2].progress = {}
    assert "left" not in shown(jobs)


def test_table__shows_what_runs(jobs):
    text = shown(jobs, terminal=True)
    assert "1 of 6 runs done" in text
    (line,) = {line.strip() for line in text.splitlines() if "PPO(γ2)" in line}
    assert " ".join(line.split()) == "PPO(γ2) Hopper-v4 2 60 % 123.5 500 1 min 20 s"
    assert "elsewhere" in text
    assert "PPO(γ5)" not in text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Forecast(2, 200_000, 100.0, 1.3e6, {}), "measured 2,000 steps/s together: about 1 min 40"),
        (Forecast(2, 200_000, None, None, {}), "too short to measure what they take"),
        (
            Forecast(2, 200_000, 100.0, 1.3e6, {}, (("Hopper-v4", "trpo"),)),
            "about 1 min 40 s and 1 MB of disk, without what could not be measured: trpo on Hopper",
        ),
    ],
)
def test_forecast__is_told_as_far_as_it_is_known(cost, text):
    line = forecast_line(cost, 2)
    assert line.startswith("2 runs of 200,000 steps in all, 2 at a time; ")
    assert text in line
