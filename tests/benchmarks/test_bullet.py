"""The PyBullet contests: that they time the same physics, and judge it by the issue's numbers."""

import numpy as np
import pytest

pytest.importorskip("pybullet")

from benchmarks import bullet


@pytest.mark.parametrize("task", bullet.TASKS)
def test_contenders__end_with_the_same_joints_each_time(task):
    makes = (bullet.ours, bullet.gymnasiums, bullet.physics)
    runs = [make(task, 120) for make in makes]
    runs += [bullet.physics(task, 120, then) for then in (bullet.call, bullet.observe)]
    first = runs[0]()
    assert np.ptp(first) > 0.0
    for run in (*runs, *runs):
        np.testing.assert_array_equal(run(), first)


def test_limits__are_the_issues():
    limits = {
        (contest.name, limit.peer): 1 / limit.ratio
        for contest in bullet.CONTESTS
        for limit in contest.limits
    }
    expected = {("bullet-training-HalfCheetahBulletEnv-v0", "through Gymnasium"): 2.0}
    for task in ("HalfCheetahBulletEnv-v0", "AntBulletEnv-v0", "Walker2DBulletEnv-v0"):
        expected |= {
            (f"bullet-{task}", "gymnasium"): 2.4,
            (f"bullet-{task}", "stepSimulation"): 0.6,
        }
    assert limits == pytest.approx(expected)
    assert {limit.agree for contest in bullet.CONTESTS for limit in contest.limits} == {0.0}
