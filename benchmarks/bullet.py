"""PyBullet's tasks stepped in place: against Gymnasium's own, bare physics, and in training.

The same 1,000 actions for all, drawn at random, from the same reset; a row that falls is reset,
and all are reset where it is.  All must end with the same joints, bit for bit.  What lies between
bare physics and ours is shown in two stages: PyBullet's other calls, and the observation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Contender, Contest, Limit, Run
from benchmarks.on_policy import make_agent, make_loop

if TYPE_CHECKING:
    import numpy as np

    from gammaprime.envs import VecEnv
    from gammaprime.envs.bullet import Robot

TASKS = ("HalfCheetahBulletEnv-v0", "AntBulletEnv-v0", "Walker2DBulletEnv-v0")
NUM_STEPS = 1000
SEED = 0
SPEED_UP = 2.4
PHYSICS_SHARE = 0.6
TRAINED = "HalfCheetahBulletEnv-v0"
TRAINING_SPEED_UP = 2.0


def draw_actions(size: int, num_steps: int) -> np.ndarray:
    """Shapes: -> (num_steps, 1, size)."""
    import numpy as np

    shape = (num_steps, 1, size)
    return np.random.default_rng(SEED).uniform(-1.0, 1.0, shape).astype(np.float32)


def ours(task: str, num_steps: int = NUM_STEPS) -> Run:
    import pybullet  # noqa: F401  (missing, it is named with its pip line)

    from gammaprime import envs

    env = envs.make(task)
    actions = draw_actions(env.action.shape[0], num_steps)
    robot = env.robots[0]

    def run() -> np.ndarray:
        env.reset(SEED)
        for action in actions:
            env.step(action)
        return joint_states(robot.client, robot.body, robot.joints)

    return run


def gymnasiums(task: str, num_steps: int = NUM_STEPS) -> Run:
    """Without Gymnasium's checker, which would only slow it."""
    import gymnasium
    import pybullet_envs_gymnasium  # noqa: F401  (registers the tasks)

    from gammaprime.envs.generators import spawn_seeds

    env = gymnasium.make(task, disable_env_checker=True)
    (seed,) = spawn_seeds(SEED, 1)
    actions = draw_actions(env.action_space.shape[0], num_steps)[:, 0]
    robot = env.unwrapped.robot

    def run() -> np.ndarray:
        env.reset(seed=seed)
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        joints = [joint.jointIndex for joint in robot.ordered_joints]
        return joint_states(env.unwrapped.physicsClientId, robot.objects[0], joints)

    return run


def physics(
    task: str, num_steps: int = NUM_STEPS, then: Callable[[Robot], object] = lambda robot: None
) -> Run:
    """stepSimulation with the same torques and resets, and what is done after each step."""
    import pybullet

    robot, played = record(task, num_steps)
    original = robot.original.robot
    strengths = [original.power * joint.power_coef for joint in original.ordered_joints]
    calls = [
        (is_push, [s * x for s, x in zip(strengths, numbers, strict=True)] if is_push else numbers)
        for is_push, numbers in played
    ]
    body, joints, client, start = robot.body, robot.joints, robot.client, robot.original.stateId

    def run() -> np.ndarray:
        for is_push, numbers in calls:
            if is_push:
                pybullet.setJointMotorControlArray(
                    body, joints, pybullet.TORQUE_CONTROL, forces=numbers, physicsClientId=client
                )
                pybullet.stepSimulation(client)
                then(robot)
            else:
                pybullet.restoreState(start, physicsClientId=client)
                for joint, angle in zip(joints, numbers, strict=True):
                    pybullet.resetJointState(body, joint, angle, 0.0, physicsClientId=client)
        return joint_states(robot.client, body, joints)  # holds the robot, and so its simulator

    return run


def call(robot: Robot) -> None:
    """Make the calls of an observation, and forget the answers."""
    import pybullet

    body, client = robot.body, robot.client
    links = pybullet.getLinkStates(body, robot._links, 0, 0, client)
    pybullet.getJointStates(body, robot.joints, client)
    pybullet.getContactPoints(body, robot._floor, -2, -2, client)
    if robot._torso < 0:
        _, turn = pybullet.getBasePositionAndOrientation(body, client)
        pybullet.getBaseVelocity(body, client)
    else:
        turn = links[robot._torso_place][1]
        pybullet.getLinkState(body, robot._torso, 1, 0, client)
    pybullet.getEulerFromQuaternion(turn)


def observe(robot: Robot) -> None:
    robot.look()


def record(task: str, num_steps: int) -> tuple[Robot, list[tuple[bool, list[float]]]]:
    """A robot, and in order its actions (True) and the angles of its resets (False)."""
    from gammaprime import envs

    env = envs.make(task)
    robot = env.robots[0]
    push, reset = robot.push, robot.reset
    played: list[tuple[bool, list[float]]] = []

    def note_push(action: list[float]) -> None:
        played.append((True, action))
        push(action)

    def note_reset(angles: list[float], first: bool) -> Any:
        played.append((False, angles))
        return reset(angles, first)

    robot.push, robot.reset = note_push, note_reset
    env.reset(SEED)
    for action in draw_actions(env.action.shape[0], num_steps):
        env.step(action)
    return robot, played


def joint_states(client: int, body: int, joints: list[int]) -> np.ndarray:
    """Angles and speeds.  Shapes: -> (J, 2)."""
    import numpy as np
    import pybullet

    return np.array([state[:2] for state in pybullet.getJointStates(body, joints, client)])


def train(seen_as: Callable[[VecEnv], VecEnv] | None) -> Run:
    """One iteration after another; no going back, for which Gymnasium has no way."""
    import pybullet  # noqa: F401

    loop = make_loop(make_agent(1), TRAINED, 0, seen_as)

    def run() -> np.ndarray:
        loop.advance()
        return loop.obs

    return run


def through_gymnasium(env: VecEnv) -> VecEnv:
    from gammaprime.envs.gym import GymEnv, registered

    env.close()
    return GymEnv([registered(TRAINED, None)] * env.num_envs, stagger=True)


def _step_contest(task: str) -> Contest:
    return Contest(
        f"bullet-{task}",
        f"steps at {SPEED_UP} times the speed of gymnasium.make, {PHYSICS_SHARE} of bare physics",
        (
            Contender("ours", partial(ours, task)),
            Contender("gymnasium", partial(gymnasiums, task)),
            Contender("stepSimulation", partial(physics, task)),
            Contender("and PyBullet's other calls", partial(physics, task, then=call)),
            Contender("and the observation", partial(physics, task, then=observe)),
        ),
        (
            Limit("ours", "gymnasium", 1 / SPEED_UP, agree=0.0),
            Limit("ours", "stepSimulation", 1 / PHYSICS_SHARE, agree=0.0),
        ),
    )


CONTESTS = (
    *(_step_contest(task) for task in TASKS),
    Contest(
        f"bullet-training-{TRAINED}",
        f"PPO at 1 x 2048 trains {TRAINING_SPEED_UP:.0f} times as fast as through Gymnasium",
        (
            Contender("in place", partial(train, None)),
            Contender("through Gymnasium", partial(train, through_gymnasium)),
        ),
        (Limit("in place", "through Gymnasium", 1 / TRAINING_SPEED_UP, agree=0.0),),
    ),
)
