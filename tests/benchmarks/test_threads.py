"""The contests of threads: the same work on one thread and on two, judged by the issue's number."""

import numpy as np
import pytest

from benchmarks import threads


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(threads, "NUM_STEPS", 20)


def test_step_on__ends_in_the_same_bits_each_time():
    one, two = threads.step_on(1, "Hopper-v4"), threads.step_on(2, "Hopper-v4")
    expected = one()
    for run in (two, two, one):
        assert run().tobytes() == expected.tobytes()


def test_step_by_rollout__is_the_same_physics_to_a_tolerance_but_not_to_the_bit():
    # Warm starts are lost between two calls, so that the solver stops elsewhere.
    rollout, ours = (
        threads.step_by_rollout(2, "HalfCheetah-v4"),
        threads.step_on(1, "HalfCheetah-v4"),
    )
    state, obs = rollout()[:, 2:], ours()  # after the time and the position along x
    np.testing.assert_allclose(state, obs, rtol=1e-3, atol=1e-3)
    assert (state != obs).any()


def test_limits__are_the_issues():
    limits = {c.name: (c.limits[0].ratio, c.limits[0].agree, c.num_cores) for c in threads.CONTESTS}
    assert limits == {
        "threads-training-Ant-v4": (pytest.approx(1 / 1.35), 0.0, 2),
        "threads-stepping-HalfCheetah-v4": (1.0, 0.0, 2),
    }
