"""PyBullet's locomotion tasks at the speed of physics: N simulators stepped in place.

Each row is loaded by the first reset of pybullet-envs-gymnasium's own environment, so files and
constants are the original's.  A step then makes seven calls of PyBullet where the original makes
some forty, and computes everything once, in the original's order of operations: row i gives the
same bits as ``gymnasium.make(id)`` after ``reset(seed=env.seeds[i])``.

A row is resumed by replaying its episode.  PyBullet can save its state (``saveBullet``), but what
it restores does not always continue bit for bit: in 7 of 390 states of a HalfCheetah that was
pushed hard, contact points differed, and joints were off by up to 1e-3 one step later.  A replay of
1,000 steps takes about 0.2 s and is exact, because the state after a reset depends on nothing
before it (800 episodes, each against a new simulator).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gammaprime.envs.quiet import quiet

try:
    with quiet():
        import pybullet  # its import is not silent either
        import pybullet_envs_gymnasium  # noqa: F401  (registers the tasks)
        from pybullet_utils.bullet_client import BulletClient
except ImportError as error:
    raise ImportError(
        f"PyBullet tasks need {error.name or 'pybullet'}: pip install 'gammaprime[bullet]'"
    ) from error

from gammaprime.envs import BULLET_TASKS
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
from gammaprime.envs.gym import action_space, observation_space, registered, registered_limit
from gammaprime.types import Transition

_BODY = 8
"""Leading entries of an observation: height, direction to the target (2), speed (3), roll, pitch;
then come the joints (angle and speed by turns) and the feet (1 on the floor)."""
_BOUND = 5.0
"""Bound of the entries of an observation."""
_LOW, _HIGH = np.array(-_BOUND, np.float32), np.array(_BOUND, np.float32)
_RESET_NOISE = 0.1
_AT_LIMIT = float(np.float32(0.99))
Floats = NDArray[np.float32]
Rows = list[list[float]]


class Robot:
    """One robot in a simulator of its own: the few calls that a step needs.

    Python's own floats are used here where NumPy's would round in the same way: arrays of six or
    eight numbers are slower.
    """

    def __init__(self, task: str) -> None:
        self.original = original = _load(task)
        robot = original.robot
        torso = robot.robot_body
        self.client: int = original.physicsClientId
        self.body: int = torso.bodies[torso.bodyIndex]
        self.joints = [joint.jointIndex for joint in robot.ordered_joints]
        self._strength = [robot.power * joint.power_coef for joint in robot.ordered_joints]
        self._ranges = [
            (joint.lowerLimit, joint.upperLimit - joint.lowerLimit)
            for joint in robot.ordered_joints
        ]
        # In the original's order, in which it adds up positions; the floor comes last.
        *parts, floor = robot.parts.values()
        self._links = [part.bodyPartIndex for part in parts if part.bodyPartIndex >= 0]
        self._torso: int = torso.bodyPartIndex
        self._torso_place = parts.index(torso)
        self._floor: int = floor.bodies[floor.bodyIndex]
        self._floor_x, self._floor_y, _ = floor.initialPosition.tolist()
        self._target_x, self._target_y = robot.walk_target_x, robot.walk_target_y
        self._dt: float = original.scene.dt
        self._to_target, self._rotation, self._speed = np.empty(2), np.eye(3), np.empty(3)
        self._foot_links = [part.bodyPartIndex for part in robot.feet]
        end = _BODY + 2 * len(self.joints)
        self.angles, self.speeds = slice(_BODY, end, 2), slice(_BODY + 1, end, 2)

    def reset(self, angles: Sequence[float], first: bool) -> list[float]:
        """Put the robot at its start, its joints at the given angles and at rest, and look."""
        pybullet.restoreState(self.original.stateId, physicsClientId=self.client)
        pybullet.resetJointStatesMultiDof(
            *(self.body, self.joints, [[angle] for angle in angles], [[0.0] for _ in angles]),
            physicsClientId=self.client,
        )
        self._shown_feet = [False] * len(self._foot_links)
        self._start_height: float | None = None
        numbers = self.look(first)
        self._last_potential = self._potential
        return numbers

    def push(self, action: Sequence[float]) -> None:
        """Advance the physics by one step."""
        torques = [
            strength * (1.0 if part > 1.0 else -1.0 if part < -1.0 else part)
            for strength, part in zip(self._strength, action, strict=True)
        ]
        pybullet.setJointMotorControlArray(
            *(self.body, self.joints, pybullet.TORQUE_CONTROL),
            forces=torques,
            physicsClientId=self.client,
        )
        pybullet.stepSimulation(self.client)

    def replay(self, action: Sequence[float]) -> list[float]:
        """Step without a reward, and look."""
        self.push(action)
        numbers = self.look()
        self._shown_feet, self._last_potential = self._feet, self._potential
        return numbers

    def look(self, first: bool = False) -> list[float]:
        """Return the observation before it is clipped, and note what the reward depends on.

        The mean place of all parts counts the floor, except at the first reset of all: then the
        original has not yet put it among the parts.
        """
        body, client = self.body, self.client
        links = pybullet.getLinkStates(body, self._links, 0, 0, client)
        joints = pybullet.getJointStates(body, self.joints, client)
        contacts = pybullet.getContactPoints(body, self._floor, -2, -2, client)
        x = [link[0][0] for link in links]
        y = [link[0][1] for link in links]
        if self._torso < 0:
            place, turn = pybullet.getBasePositionAndOrientation(body, client)
            speed = pybullet.getBaseVelocity(body, client)[0]
            x.insert(self._torso_place, place[0])
            y.insert(self._torso_place, place[1])
        else:
            place, turn = links[self._torso_place][:2]
            torso = pybullet.getLinkState(body, self._torso, 1, 0, client)
            # The original reads the speed along y into a variable that it then overwrites.
            speed = (torso[6][0], torso[7][2], torso[6][2])
        if self._start_height is None:
            self._start_height = place[2]
        roll, self._pitch, yaw = pybullet.getEulerFromQuaternion(turn)
        heading = self._aim(x, y, first) - yaw
        vx, vy, vz = self._turn(speed, yaw)
        numbers = [place[2] - self._start_height, float(np.sin(heading)), float(np.cos(heading))]
        numbers += (0.3 * vx, 0.3 * vy, 0.3 * vz, roll, self._pitch)
        for (angle, rate, _, _), (low, span) in zip(joints, self._ranges, strict=True):
            numbers += (2 * (angle - low) / span - 1.0, 0.1 * rate)
        numbers += self._shown_feet
        touching = {contact[3] for contact in contacts}
        self._feet = [foot in touching for foot in self._foot_links]
        return numbers

    def _aim(self, x: list[float], y: list[float], first: bool) -> float:
        """Return the direction from the parts' mean place to the target; note the potential.

        The potential is minus the distance over the seconds of a step, and its gain is paid.
        """
        if not first:
            x.append(self._floor_x)
            y.append(self._floor_y)
        sum_x, sum_y = np.add.reduce(np.array(x + y).reshape(2, -1), 1).tolist()
        dx, dy = self._target_x - sum_x / len(x), self._target_y - sum_y / len(y)
        to_target = self._to_target
        to_target[0], to_target[1] = dy, dx
        # Through BLAS, as np.linalg.norm does it: the last bit depends on it.
        self._potential = -math.sqrt(to_target.dot(to_target)) / self._dt
        return float(np.arctan2(dy, dx))

    def _turn(self, speed: Sequence[float], yaw: float) -> list[float]:
        """Return the speed as the torso sees it."""
        sin, cos = np.sin(-yaw), np.cos(-yaw)
        rotation, self._speed[:] = self._rotation, speed
        rotation[0, 0] = rotation[1, 1] = cos
        rotation[0, 1], rotation[1, 0] = -sin, sin
        # Through BLAS again.
        return rotation.dot(self._speed).tolist()

    def settle(self, scaled: Sequence[float], work: float, stall: float) -> tuple[float, bool]:
        """Return the reward of the step and whether it ended the episode.

        alive + progress − electricity − joints at their limits, by the original's own rules.
        scaled: what ``look`` returned, rounded to float32.  work, stall: means over the joints of
        |action · speed| and of action².
        """
        original = self.original
        # The observation shows the feet of the step before, and by those a fall is judged.
        original.robot.feet_contact = self._shown_feet
        assert self._start_height is not None  # since the first look
        height = min(max(scaled[0], -_BOUND), _BOUND) + self._start_height
        original._alive = alive = float(original.robot.alive_bonus(height, self._pitch))
        progress = self._potential - self._last_potential
        electricity = original.electricity_cost * work + original.stall_torque_cost * stall
        at_limit = sum([abs(angle) > _AT_LIMIT for angle in scaled[self.angles]])
        limits = original.joints_at_limit_cost * at_limit
        self._shown_feet, self._last_potential = self._feet, self._potential
        # Python's own sum, as in the original: from Python 3.12 on it rounds otherwise.
        return sum([alive, progress, electricity, limits]), original._isDone()


def _load(task: str) -> Any:
    """Return the original environment after its first reset, in a simulator of its own.

    Left to itself it would first look for a simulator in shared memory: that takes 0.1 s, and if
    some other program has one running, it would use that.
    """
    original: Any = registered(task, None)().unwrapped
    with quiet():  # every simulator says hello
        client = BulletClient(pybullet.DIRECT)
    client.resetSimulation()
    client.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
    original._p, original.physicsClientId, original.ownsPhysicsClient = client, client._client, True
    original.reset(seed=0)
    return original


class BulletEnv:
    """N rows of one PyBullet task; every row keeps the actions of its episode.

    ``robots`` lists the N robots; what is done to their simulators changes the physics of the row.
    """

    exact_resume = True

    def __init__(
        self, task: str, num_envs: int = 1, *, time_limit: int | None = None, stagger: bool = False
    ) -> None:
        if task not in BULLET_TASKS:
            raise ValueError(f"task={task!r}: must be one of {', '.join(BULLET_TASKS)}")
        self.task = task
        limit = registered_limit(task) if time_limit is None else time_limit
        self._ages = Ages(num_envs, limit, stagger)
        self.num_envs = num_envs
        self.time_limit = self._ages.time_limit
        self.seeds: list[int] = []
        self.robots = [Robot(task) for _ in range(num_envs)]
        original = self.robots[0].original
        self.action: Box | Discrete = action_space(original.action_space)
        self.observation = observation_space(original.observation_space)
        self._num_joints = len(self.robots[0].joints)
        self._at_reset = np.zeros((num_envs, WORDS), np.uint64)
        self._actions: list[Rows] = [[] for _ in self.robots]

    @property
    def age(self) -> NDArray[np.int64]:
        return self._ages.age

    def reset(self, seed: int) -> Floats:
        self.seeds = spawn_seeds(seed, self.num_envs)
        self._generators = [make_generator(row_seed) for row_seed in self.seeds]
        self._episodes = np.zeros(self.num_envs, np.int64)
        self._ages.restart()
        self._obs = np.stack([self._restart(row) for row in range(self.num_envs)])
        return self._obs

    def step(self, action: ArrayLike) -> Transition:
        check_started("step", self.seeds)
        action = check_actions(action, self.action, self.num_envs)
        for robot, chosen, played in zip(self.robots, action.tolist(), self._actions, strict=True):
            robot.push(chosen)
            played.append(chosen)
        seen = [robot.look() for robot in self.robots]
        scaled = np.array(seen, np.float32)
        rewards, ends = self._settle(action, scaled)
        next_obs, reward, terminated = _clip(scaled), np.array(rewards), np.array(ends)
        step, truncated = self._ages.advance()
        # A sum is finite only if its terms are.  The checks are slower, but say which is not.
        if not math.isfinite(sum(map(sum, seen), sum(rewards))):
            check_finite("next_obs", next_obs, step)
            check_finite("reward", reward, step)
        self._obs = next_obs
        ended = terminated | truncated
        if np.count_nonzero(ended):
            self._restart_rows(ended)
        early = self._ages.early
        return Transition(next_obs, reward, terminated, truncated, step, self._obs, early)

    def _settle(self, action: NDArray[Any], scaled: Floats) -> tuple[list[float], list[bool]]:
        """Return the rewards, and which rows end."""
        # The means are in float32, as in the original: |action · speed| of all rows, then action².
        speeds = scaled[:, self.robots[0].speeds]
        used = np.abs(np.concatenate((action * speeds, action * action)))
        used = (np.add.reduce(used, 1) / np.float32(self._num_joints)).tolist()
        n = self.num_envs
        rows = zip(self.robots, scaled.tolist(), used[:n], used[n:], strict=True)
        settled = [robot.settle(row, work, stall) for robot, row, work, stall in rows]
        return [reward for reward, _ in settled], [end for _, end in settled]

    def _restart_rows(self, ended: NDArray[np.bool_]) -> None:
        self._episodes = self._episodes + ended
        self._ages.rejuvenate(ended)
        self._obs = self._obs.copy()
        for row in np.flatnonzero(ended):
            self._obs[row] = self._restart(int(row))

    def _restart(self, row: int) -> Floats:
        """Begin the next episode of a row and observe.  Shapes: -> (size,)."""
        robot, generator, first = self.robots[row], self._generators[row], not self._episodes[row]
        # A first episode is replayed from its seed.
        self._at_reset[row] = 0 if first else pack_generators([generator])[0]
        self._actions[row] = []
        noise = generator.uniform(-_RESET_NOISE, _RESET_NOISE, self._num_joints)
        return _clip(np.array(robot.reset(noise.tolist(), first), np.float32))

    def snapshot(self) -> Snapshot:
        check_started("snapshot", self.seeds)
        longest = max(len(actions) for actions in self._actions)
        actions = np.zeros((self.num_envs, longest, self._num_joints), np.float32)
        for row, played in enumerate(self._actions):
            actions[row, : len(played)] = np.reshape(played, (-1, self._num_joints))
        return {
            "actions": actions,
            "at_reset": self._at_reset.copy(),
            "obs": self._obs.copy(),
            "seeds": np.array(self.seeds, np.uint64),
            "episodes": self._episodes.copy(),
            **self._ages.snapshot(),
        }

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> Floats:
        n = self.num_envs
        seeds = read(snapshot, "seeds", (n,))
        episodes = read(snapshot, "episodes", (n,))
        at_reset = read(snapshot, "at_reset", (n, WORDS))
        expected = read(snapshot, "obs", (n, *self.observation.shape))
        self._ages.restore(snapshot)
        actions = read(snapshot, "actions", (n, int(self.age.max()), self._num_joints))
        self.seeds = [int(seed) for seed in seeds]
        self._episodes = np.array(episodes, np.int64)
        self._generators = [
            unpack_generator(words) if episode else make_generator(seed)
            for words, episode, seed in zip(at_reset, episodes, self.seeds, strict=True)
        ]
        self._obs = np.empty((n, *self.observation.shape), np.float32)
        for row, age in enumerate(self.age):
            self._obs[row] = self._replay(row, actions[row, :age])
            if not np.array_equal(self._obs[row], expected[row]):
                raise ValueError(
                    f"snapshot: row {row} replayed {age} steps and did not arrive where it "
                    "was; are these the same versions and the same kind of processor?"
                )
        return self._obs

    def _replay(self, row: int, actions: NDArray[Any]) -> Floats:
        """Play an episode again from its reset and observe.  Shapes: (T, A) -> (size,)."""
        obs = self._restart(row)
        self._actions[row] = actions.tolist()
        for action in self._actions[row]:
            obs = _clip(np.array(self.robots[row].replay(action), np.float32))
        return obs

    def close(self) -> None:
        for robot in self.robots:
            robot.original.close()


def _clip(scaled: Floats) -> Floats:
    return np.minimum(np.maximum(scaled, _LOW), _HIGH)
