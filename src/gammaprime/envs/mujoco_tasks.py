"""Gymnasium's MuJoCo tasks as data: what is observed, what is paid, what counts as healthy.

The order of the floating point operations is Gymnasium's own, so that the results are the same
to the last bit; ``mujoco.py`` reads these tables.  Version 5 differs from version 4 where the
tables say so: health is paid only while healthy, Ant sees its contact forces and pays for them,
Humanoid drops entries that are always zero and pays for contact, both feet of Walker2d grip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Field = Callable[[Any], Array]
"""An array of one MjData."""
Health = Callable[[Array], NDArray[np.bool_]]
"""Which rows are healthy, from the positions and velocities (N, nq + nv)."""


@dataclass(frozen=True)
class Task:
    """One task.  The defaults are HalfCheetah's."""

    model_file: str
    frame_skip: int
    reset_noise: float
    normal_velocity: bool = False
    """Is the velocity of a reset normal, rather than uniform?"""
    hidden: int = 1
    """Leading positions that the observation leaves out: they grow without bound."""
    velocity_clip: float | None = None
    extras: tuple[tuple[Field, int], ...] = ()
    """Further fields of the observation, and how many leading entries of each are dropped."""
    travelled: str = "joint"
    """What is paid for moving along x: the first joint, the torso or the centre of mass."""
    forward_weight: float = 1.0
    control_weight: float = 0.0
    control_in_double: bool = False
    """Is the control cost computed from MuJoCo's float64 copy of the action?"""
    contact_weight: float = 0.0
    contact_clip: float | None = None
    """Bound of each contact force, in the cost and in the observation."""
    contact_cost_max: float | None = None
    healthy: Health | None = None
    healthy_reward: float = 0.0
    fall_is_paid: bool = True
    """Is the healthy reward paid on the step of the fall too?"""
    time_limit: int = 1000

    @property
    def needs_contact_forces(self) -> bool:
        """MuJoCo fills ``cfrc_ext`` only when it is asked to."""
        return self.contact_weight > 0.0 or any(field is contact_forces for field, _ in self.extras)


def contact_forces(data: Any) -> Array:
    return data.cfrc_ext.reshape(-1)


def body_inertias(data: Any) -> Array:
    return data.cinert.reshape(-1)


def body_velocities(data: Any) -> Array:
    return data.cvel.reshape(-1)


def actuator_forces(data: Any) -> Array:
    return data.qfrc_actuator


def _hopper_health(state: Array) -> NDArray[np.bool_]:
    bounded = np.abs(state[:, 2:]).max(axis=1) < 100.0
    z, angle = state[:, 1], state[:, 2]
    return bounded & (z > 0.7) & (z < np.inf) & (np.abs(angle) < 0.2)


def _walker_health(state: Array) -> NDArray[np.bool_]:
    z, angle = state[:, 1], state[:, 2]
    return (z > 0.8) & (z < 2.0) & (np.abs(angle) < 1.0)


def _ant_health(state: Array) -> NDArray[np.bool_]:
    z = state[:, 2]
    return (z >= 0.2) & (z <= 1.0) & np.isfinite(state).all(axis=1)


def _humanoid_health(state: Array) -> NDArray[np.bool_]:
    z = state[:, 2]
    return (z > 1.0) & (z < 2.0)


def _pendulum_health(state: Array) -> NDArray[np.bool_]:
    return (np.abs(state[:, 1]) <= 0.2) & np.isfinite(state).all(axis=1)


_HALF_CHEETAH = Task("half_cheetah.xml", 5, 0.1, normal_velocity=True, control_weight=0.1)
_SWIMMER = Task("swimmer.xml", 4, 0.1, hidden=2, control_weight=1e-4)
_HOPPER = Task(
    *("hopper.xml", 4, 5e-3),
    velocity_clip=10.0,
    control_weight=1e-3,
    healthy=_hopper_health,
    healthy_reward=1.0,
)
_WALKER = replace(_HOPPER, model_file="walker2d.xml", healthy=_walker_health)
_ANT = Task(
    *("ant.xml", 5, 0.1),
    normal_velocity=True,
    hidden=2,
    travelled="torso",
    control_weight=0.5,
    healthy=_ant_health,
    healthy_reward=1.0,
)
_HUMANOID = Task(
    *("humanoid.xml", 5, 1e-2),
    hidden=2,
    extras=((body_inertias, 0), (body_velocities, 0), (actuator_forces, 0), (contact_forces, 0)),
    travelled="mass",
    forward_weight=1.25,
    control_weight=0.1,
    control_in_double=True,
    healthy=_humanoid_health,
    healthy_reward=5.0,
)
_PENDULUM = Task(
    *("inverted_pendulum.xml", 2, 0.01),
    hidden=0,
    travelled="nothing",
    healthy=_pendulum_health,
    healthy_reward=1.0,
)

TASKS = {
    "HalfCheetah-v4": _HALF_CHEETAH,
    "HalfCheetah-v5": _HALF_CHEETAH,
    "Hopper-v4": _HOPPER,
    "Hopper-v5": replace(_HOPPER, fall_is_paid=False),
    "Walker2d-v4": _WALKER,
    "Walker2d-v5": replace(_WALKER, model_file="walker2d_v5.xml", fall_is_paid=False),
    "Ant-v4": _ANT,
    "Ant-v5": replace(
        _ANT,
        extras=((contact_forces, 6),),
        contact_weight=5e-4,
        contact_clip=1.0,
        fall_is_paid=False,
    ),
    "Swimmer-v4": _SWIMMER,
    "Swimmer-v5": _SWIMMER,
    "Humanoid-v4": _HUMANOID,
    "Humanoid-v5": replace(
        _HUMANOID,
        extras=(
            *((body_inertias, 10), (body_velocities, 6)),
            *((actuator_forces, 6), (contact_forces, 6)),
        ),
        contact_weight=5e-7,
        contact_cost_max=10.0,
        fall_is_paid=False,
    ),
    "InvertedPendulum-v4": _PENDULUM,
    "InvertedPendulum-v5": replace(_PENDULUM, fall_is_paid=False),
}
