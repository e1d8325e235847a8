"""Gymnasium's MuJoCo tasks at the speed of physics: one model, N MjData stepped in place.

Only ``mj_step`` runs row by row.  Observations, rewards and health are computed for the whole
batch, in Gymnasium's own order of operations and from Gymnasium's own model files: row i gives
the same bits as ``gymnasium.make(id)`` after ``reset(seed=env.seeds[i])``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    import gymnasium
    import mujoco
except ImportError as error:
    raise ImportError(
        f"MuJoCo tasks need {error.name or 'mujoco'}: pip install 'gammaprime[train]'"
    ) from error

from gammaprime.envs.contract import (
    Ages,
    Box,
    Discrete,
    Snapshot,
    check_actions,
    check_finite,
    check_started,
    read,
)
from gammaprime.envs.generators import (
    WORDS,
    make_generator,
    pack_generators,
    spawn_seeds,
    unpack_generator,
)
from gammaprime.envs.mujoco_tasks import TASKS, Array, contact_forces
from gammaprime.envs.threads import Threads
from gammaprime.types import Transition

# Not imported from gymnasium.envs.mujoco: that would need what only rendering needs.
_ASSETS = Path(gymnasium.__file__).parent / "envs/mujoco/assets"
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
"""All that the next mj_step depends on: the positions and velocities, but also the time, the
controls and the accelerations that warm-start the contact solver."""


class MujocoEnv:
    """N rows of one MuJoCo task.

    ``data`` lists the N MjData; writing to them changes the physics of their row.
    """

    exact_resume = True

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        *,
        time_limit: int | None = None,
        stagger: bool = False,
        threads: int = 1,
    ) -> None:
        if task not in TASKS:
            raise ValueError(f"task={task!r}: must be one of {', '.join(TASKS)}")
        self.task = task
        self._task = TASKS[task]
        limit = self._task.time_limit if time_limit is None else time_limit
        self._ages = Ages(num_envs, limit, stagger)
        self.num_envs = num_envs
        self.time_limit = self._ages.time_limit
        self._threads = Threads(threads, num_envs)
        self.seeds: list[int] = []
        self.model = mujoco.MjModel.from_xml_path(str(_ASSETS / self._task.model_file))
        # Without a middle phase contacts are the same; HalfCheetah gains, the others do not lose.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_MIDPHASE
        # The search for islands stays: without it one substep in about 200,000 ends its solver an
        # iteration sooner or later, and its bits are not Gymnasium's.
        self.data = [mujoco.MjData(self.model) for _ in range(num_envs)]
        self._view()
        low, high = self.model.actuator_ctrlrange.astype(np.float32).T
        self.action: Box | Discrete = Box(low.shape, np.dtype(np.float32), low, high)
        infinite = np.full(self._observe(self._state()).shape[1], np.inf)
        self.observation = Box(infinite.shape, np.dtype(np.float64), -infinite, infinite)

    def _view(self) -> None:
        """Names for what is read in every step.  MjData never moves its arrays."""
        task, model = self._task, self.model
        # As an array without axes, by which NumPy divides faster than by a float.
        self._dt = np.array(model.opt.timestep * task.frame_skip)
        self._frame_skip, self._needs_forces = task.frame_skip, task.needs_contact_forces
        self._start = (self.data[0].qpos.copy(), self.data[0].qvel.copy())
        self._controls = [data.ctrl for data in self.data]
        self._physics = [part for data in self.data for part in (data.qpos, data.qvel)]
        self._extras = [[field(data) for data in self.data] for field, _ in task.extras]
        self._forces = [contact_forces(data) for data in self.data]
        self._torsos = [data.xpos[1] for data in self.data]

    @property
    def age(self) -> NDArray[np.int64]:
        return self._ages.age

    def reset(self, seed: int) -> Array:
        self.seeds = spawn_seeds(seed, self.num_envs)
        self._generators = [make_generator(row_seed) for row_seed in self.seeds]
        self._ages.restart()
        for row in range(self.num_envs):
            self._reset_row(row)
        state = self._state()
        self._x = self._travelled(state)
        self._obs = self._observe(state)
        return self._obs

    def step(self, action: ArrayLike) -> Transition:
        check_started("step", self.seeds)
        action = check_actions(action, self.action, self.num_envs)
        self._advance_physics(action)
        state = self._state()
        next_obs = self._observe(state)
        x = self._travelled(state)
        healthy = None if self._task.healthy is None else self._task.healthy(state)
        reward = self._pay(action, x, healthy)
        terminated = np.zeros(self.num_envs, bool) if healthy is None else ~healthy
        step, truncated = self._ages.advance()
        check_finite("next_obs", next_obs, step)
        check_finite("reward", reward, step)
        self._x, self._obs = x, next_obs
        if np.count_nonzero(terminated) or np.count_nonzero(truncated):
            self._restart_rows(terminated | truncated)
        early = self._ages.early
        return Transition(next_obs, reward, terminated, truncated, step, self._obs, early)

    def _advance_physics(self, action: NDArray[np.generic]) -> None:
        model, data, frame_skip, mj_step = self.model, self.data, self._frame_skip, mujoco.mj_step
        controls, needs_forces = self._controls, self._needs_forces

        def advance(rows: Iterable[int]) -> None:
            for row in rows:
                controls[row][:] = action[row]
                mj_step(model, data[row], frame_skip)
                if needs_forces:
                    mujoco.mj_rnePostConstraint(model, data[row])

        self._threads.run(advance)

    def _state(self) -> Array:
        """Positions and velocities.  Shapes: -> (N, nq + nv)."""
        return np.concatenate(self._physics).reshape(self.num_envs, -1)

    def _travelled(self, state: Array) -> Array:
        if self._task.travelled == "torso":
            return np.array([torso[0] for torso in self._torsos])
        if self._task.travelled == "mass":
            # Row by row: a batched einsum adds in another order, and the last bit differs.
            mass = self.model.body_mass
            sums = [np.einsum("b,bj->j", mass, data.xipos)[0] for data in self.data]
            return np.array(sums) / mass.sum()
        return state[:, 0]

    def _observe(self, state: Array) -> Array:
        task = self._task
        obs = state[:, task.hidden :].copy()
        if task.velocity_clip is not None:
            velocity = obs[:, self.model.nq - task.hidden :]
            np.maximum(velocity, -task.velocity_clip, out=velocity)
            np.minimum(velocity, task.velocity_clip, out=velocity)
        if not task.extras:
            return obs
        parts = [obs]
        for (field, dropped), views in zip(task.extras, self._extras, strict=True):
            extra = np.stack(views)
            if field is contact_forces and task.contact_clip is not None:
                extra = extra.clip(-task.contact_clip, task.contact_clip)
            parts.append(extra[:, dropped:])
        return np.concatenate(parts, axis=1)

    def _pay(
        self, action: NDArray[np.generic], x: Array, healthy: NDArray[np.bool_] | None
    ) -> Array:
        """forward + healthy − (control + contact), with the control cost in float32."""
        task = self._task
        alive: Any = task.healthy_reward
        if healthy is not None and not task.fall_is_paid:
            alive = healthy * task.healthy_reward
        if task.travelled == "nothing":
            return alive + np.zeros(self.num_envs)
        reward = (x - self._x) / self._dt
        if task.forward_weight != 1.0:
            reward = task.forward_weight * reward
        if healthy is not None:
            reward = reward + alive
        control = action.astype(np.float64) if task.control_in_double else action
        costs = task.control_weight * np.add.reduce(np.square(control), axis=1)
        return reward - (costs + self._contact_cost() if task.contact_weight else costs)

    def _contact_cost(self) -> Array:
        task = self._task
        forces = np.stack(self._forces)
        if task.contact_clip is not None:
            forces = forces.clip(-task.contact_clip, task.contact_clip)
        cost = task.contact_weight * np.square(forces).sum(axis=1)
        return cost if task.contact_cost_max is None else cost.clip(None, task.contact_cost_max)

    def _restart_rows(self, ended: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(ended):
            self._reset_row(int(row))
        self._ages.rejuvenate(ended)
        state = self._state()
        self._x = np.where(ended, self._travelled(state), self._x)
        self._obs = np.where(ended[:, None], self._observe(state), self._obs)

    def _reset_row(self, row: int) -> None:
        data, generator, noise = self.data[row], self._generators[row], self._task.reset_noise
        mujoco.mj_resetData(self.model, data)
        qpos, qvel = self._start
        data.qpos[:] = qpos + generator.uniform(-noise, noise, self.model.nq)
        if self._task.normal_velocity:
            data.qvel[:] = qvel + noise * generator.standard_normal(self.model.nv)
        else:
            data.qvel[:] = qvel + generator.uniform(-noise, noise, self.model.nv)
        mujoco.mj_forward(self.model, data)

    def snapshot(self) -> Snapshot:
        check_started("snapshot", self.seeds)
        physics = np.empty((self.num_envs, mujoco.mj_stateSize(self.model, _STATE)))
        for data, row in zip(self.data, physics, strict=True):
            mujoco.mj_getState(self.model, data, row, _STATE)
        return {
            "physics": physics,
            # The torso and the centre of mass lag behind the physics by a substep.
            "travelled": self._x.copy(),
            "obs": self._obs.copy(),
            "generators": pack_generators(self._generators),
            "seeds": np.array(self.seeds, np.uint64),
            **self._ages.snapshot(),
        }

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> Array:
        n = self.num_envs
        size = mujoco.mj_stateSize(self.model, _STATE)
        physics = read(snapshot, "physics", (n, size))
        generators = read(snapshot, "generators", (n, WORDS))
        seeds = read(snapshot, "seeds", (n,))
        self._x = np.array(read(snapshot, "travelled", (n,)), np.float64)
        self._obs = np.array(read(snapshot, "obs", (n, *self.observation.shape)), np.float64)
        self._ages.restore(snapshot)
        self.seeds = [int(seed) for seed in seeds]
        self._generators = [unpack_generator(words) for words in generators]
        for data, row in zip(self.data, physics, strict=True):
            mujoco.mj_resetData(self.model, data)
            mujoco.mj_setState(self.model, data, row, _STATE)
            # What follows from the state (poses, contacts) is filled in for those who look at
            # ``data``; setting the state again takes back what that did to the warm start.
            mujoco.mj_forward(self.model, data)
            mujoco.mj_setState(self.model, data, row, _STATE)
        return self._obs

    def close(self) -> None:
        """End the threads; MuJoCo's memory goes with its objects."""
        self._threads.close()
