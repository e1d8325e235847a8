"""Training: runs that can be interrupted, resumed exactly, watched and evaluated.

    config.json, manifest.json      what decides the numbers, and where they come from
    metrics.jsonl, wall_clock.jsonl, tensorboard/
    checkpoints/                    the last two states, and the replay buffer they learn from
    policy.npz                      the newest policy, for `gammaprime.load_policy`
    policy_best.npz                 the policy that was evaluated best
    breakdown/                      the arrays on which a run broke down, if it did
    done                            written last

`runs.session` trains, `runs.environments` holds what is trained in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gammaprime import envs
from gammaprime.agents import Agent, OffPolicy
from gammaprime.envs.contract import Box, VecEnv
from gammaprime.loops import evaluate as evaluation_loop
from gammaprime.networks import Policy
from gammaprime.runs import checkpoint, directory, lock, origins, provenance, segments
from gammaprime.runs.config import Evaluation, RunConfig, check_env_kwargs
from gammaprime.runs.environments import Environments, Task, task_name
from gammaprime.runs.interrupts import Interrupts
from gammaprime.runs.origins import Source
from gammaprime.runs.run import Run, read_config
from gammaprime.runs.session import Callback, Session, Upkeep
from gammaprime.runs.startup import one_blas_thread, start_jax
from gammaprime.types import check_count, check_steps
from gammaprime.typing import FloatArray

AT_ONCE = 10
"""Environments of `evaluate`, at most."""


def train(
    agent: Agent,
    env_or_task: Task,
    steps: float,
    seed: int = 0,
    out: str | Path | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    evaluation: Evaluation | None = None,
    time_limit: int | None = None,
    time_feature: bool = False,
    stagger: bool = True,
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = True,
    command: Sequence[str] | None = None,
    threads: int = 1,
    progress: bool | None = None,
    init: Run | str | Path | None = None,
    keep_replay: bool = False,
    keep_critic: bool = False,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Run:
    """Train an agent, or go on where the run in ``out`` stopped.

    Ctrl-C and SIGTERM save the run and raise `Interrupted`.  BLAS has one thread meanwhile.  JAX is
    given one thread, unless the process has used it before: it then keeps its threads, and other
    bits may follow.

    Args:
        agent: The agent with its settings, such as ``PPO(advantage=TaylorQ(0.999))``.
        env_or_task: A task's id, a constructor of Gymnasium environments, or an environment
            (then without evaluations).
        steps: Environment steps, of all environments together; whole rollouts are trained, rounded
            down.
        seed: Seed of everything random.
        out: Folder of the run; None keeps everything in memory.
        callbacks: A callback, or a list of callbacks.
        evaluation: When the policy is evaluated, and at which γ'.
        time_limit: Steps after which an episode is cut; the task's own limit by default.
        time_feature: Append the time to observations; the time limit then terminates.
        stagger: Cut first episodes early, so that several environments do not share one age.
        checkpoint_seconds: Seconds between checkpoints; 0 saves after every update.
        tensorboard: Write events for TensorBoard beside the metrics.
        command: Command line for the manifest; that of this process by default.
        threads: Threads that step the environments of a MuJoCo task, at most one for each; no
            number depends on it.
        progress: Show a line of progress; by default in a terminal and in a notebook.
        init: A run or its folder, whose parameters to begin with: networks, and the scales of
            observations and rewards; optimisers, replay and the count of steps begin anew.
        keep_replay: Keep the replay buffer of a finished run, without which `resume` cannot
            lengthen an off-policy run.
        keep_critic: Store the critic in policy.npz too, as ``policy.critic``.
        env_kwargs: Keyword arguments of the environment that an id stands for, of the types of
            JSON; MuJoCo tasks with them go through Gymnasium.

    Returns:
        The run with its metrics and its policy.
    """
    upkeep = Upkeep(checkpoint_seconds, tensorboard, command, threads, keep_replay, keep_critic)
    if not isinstance(evaluation, Evaluation | None):
        raise ValueError(f"evaluation={evaluation!r}: must be like Evaluation(every=10_000)")
    if time_limit is not None:
        time_limit = check_count("time_limit", time_limit)
    source = None if init is None else origins.take_parameters(init)
    changes = dict(env_kwargs or {})
    check_env_kwargs(changes)
    options = (time_limit, time_feature, stagger, upkeep.threads, changes)
    with closing(Environments(env_or_task, agent, *options)) as world:
        asked = (world.limit(evaluation or Evaluation()), time_limit, time_feature, stagger)
        origin = None if source is None else source.origin
        config = RunConfig(agent, world.task, check_steps(steps), seed, *asked, origin, changes)
        return _train(config.resolve(), world, out, _watched(callbacks, progress), upkeep, source)


def _watched(callbacks: Callback | Sequence[Callback], progress: bool | None) -> list[Callback]:
    """Return the callbacks, and the line of progress if it is asked for or somebody sees it."""
    from gammaprime.runs.progress import ProgressLine, is_watched

    listed = [callbacks] if isinstance(callbacks, Callback) else callbacks
    if not isinstance(listed, Sequence) or not all(isinstance(x, Callback) for x in listed):
        raise ValueError(f"callbacks={callbacks!r}: must be objects like MyCallback()")
    shown = is_watched() if progress is None else progress
    return [*listed, ProgressLine()] if shown else list(listed)


def train_config(
    config: RunConfig,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = True,
    command: Sequence[str] | None = None,
    threads: int = 1,
    keep_replay: bool = False,
    keep_critic: bool = False,
    source: Source | None = None,
) -> Run:
    """Train the run of a configuration, or go on with it; see `train` for the arguments."""
    if not isinstance(config.task, str):
        raise ValueError(f"{out}: was trained on an object; call train() with it again")
    upkeep = Upkeep(checkpoint_seconds, tensorboard, command, threads, keep_replay, keep_critic)
    options = (config.time_limit, config.time_feature, config.stagger, upkeep.threads)
    with closing(Environments(config.task, config.agent, *options, config.env_kwargs)) as world:
        return _train(config.resolve(), world, out, callbacks, upkeep, source)


def _train(
    config: RunConfig,
    world: Environments,
    out: str | Path | None,
    callbacks: Sequence[Callback],
    upkeep: Upkeep,
    source: Source | None,
) -> Run:
    world.check_evaluations(config.evaluation)
    if upkeep.keep_replay:
        _check_replay(config.agent, out)
    # From the start of JAX on, which swallows a KeyboardInterrupt that is raised inside of it.
    with Interrupts(active=out is not None) as interrupts, one_blas_thread():
        start_jax()
        if out is None:
            return Session(config, world, upkeep, None, source).run(callbacks, interrupts)
        return _train_in(Path(out), config, world, callbacks, upkeep, source, interrupts)


def _check_replay(agent: Agent, out: str | Path | None) -> None:
    """Refuse to keep a replay where there is none, or no folder to keep it in."""
    if not isinstance(agent, OffPolicy):
        raise ValueError(
            f"keep_replay=True: must be False with {type(agent).__name__}, which has no replay and "
            "can be lengthened without"
        )
    if out is None:
        raise ValueError("keep_replay=True: must be False for a run that is kept in memory")


def _train_in(
    path: Path,
    config: RunConfig,
    world: Environments,
    callbacks: Sequence[Callback],
    upkeep: Upkeep,
    source: Source | None,
    interrupts: Interrupts,
) -> Run:
    table = config.to_table()
    if directory.is_done(path, table):
        _remove_unused_replay(path / directory.CHECKPOINTS)
        return Run.load(path)
    world.check()
    with lock.hold(path) as held:
        if directory.is_done(path, table):  # by another process, a moment ago
            return Run.load(path)
        resumes = {"resume": "exact" if world.env.exact_resume else "statistical"}
        manifest = provenance.manifest(config.seed, upkeep.command) | resumes
        if source is not None:
            manifest["origin"] = {"run": str(source.path), **vars(source.origin)}
        directory.begin_or_resume(path, table, manifest)
        if source is not None:
            source.copy_to(path, table)
        return Session(config, world, upkeep, held, source).run(callbacks, interrupts)


def _remove_unused_replay(folder: Path) -> None:
    """Remove a replay that was left by a kill after the last line; one that was kept is in use."""
    if (folder / segments.REPLAY).is_dir():
        with suppress(directory.DamagedError):
            saved = checkpoint.load(folder)
            if saved is not None and not saved.segments:
                segments.drop(folder)


def resume(
    run: Run | str | Path,
    callbacks: Callback | Sequence[Callback] = (),
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = True,
    command: Sequence[str] | None = None,
    threads: int = 1,
    progress: bool | None = None,
    steps: float | None = None,
    out: str | Path | None = None,
    keep_replay: bool = False,
    keep_critic: bool = False,
) -> Run:
    """Go on with the run in a folder, as its config.json describes it.

    Args:
        run: A run or its folder.
        callbacks: As for `train`.
        checkpoint_seconds: Seconds between checkpoints.
        tensorboard: Write events for TensorBoard.
        command: Command line for the manifest.
        threads: Threads that step the environments.
        progress: Show a line of progress.
        steps: Total steps, to lengthen the run: a copy of it goes on in a new folder until then.
            An annealed learning rate is at once that of a run of the new length.
        out: New folder of a run that is lengthened; beside the old one by default.
        keep_replay: Keep the replay buffer when it is done, so that it can be lengthened.
        keep_critic: Store the critic in policy.npz too.

    Returns:
        The run with its metrics and its policy.
    """
    path = run.path if isinstance(run, Run) else Path(run)
    if path is None:
        raise ValueError("run: was kept in memory, and has no folder to resume from")
    watching = _watched(callbacks, progress)
    upkeep = (checkpoint_seconds, tensorboard, command, threads, keep_replay, keep_critic)
    config = read_config(path)
    if steps is None or check_steps(steps) == config.steps:
        if out is not None:
            raise ValueError(
                f"out={str(out)!r}: is for a run that is lengthened; needs other steps"
            )
        return train_config(config, path, watching, *upkeep)
    if not isinstance(config.task, str):
        raise ValueError(
            f"{path}: was trained on an object, and cannot be lengthened; a new run can begin with "
            "its parameters: train(..., init=)"
        )
    source = origins.take_state(path)
    longer = replace(config, steps=check_steps(steps), origin=source.origin)
    if longer.total_steps <= source.saved.step:
        raise ValueError(
            f"steps={longer.steps}: must be at least one rollout of {longer.agent.rollout_size} "
            f"above the {source.saved.step} steps that the run has trained"
        )
    return train_config(longer, out or path.parent / longer.folder, watching, *upkeep, source)


class Scores(NamedTuple):
    """Episodes of an evaluation, each scored by three returns."""

    task: str
    gamma: float
    gamma_prime: float
    length: FloatArray
    """(E,) steps of each episode."""
    undiscounted: FloatArray
    """(E,) returns."""
    at_gamma: FloatArray
    """(E,) returns discounted by γ."""
    at_gamma_prime: FloatArray
    """(E,) returns discounted by γ'."""

    def __str__(self) -> str:
        names = ("length", "return", f"J_γ, γ = {self.gamma:g}", f"J_γ', γ' = {self.gamma_prime:g}")
        columns = zip(names, self[3:], strict=True)
        rows = [f"  {name:<18} {x.mean():10.2f} ± {x.std():.2f}" for name, x in columns]
        count = f"{len(self.length)} episodes, the most likely actions"
        head = f"{self.task}, {count}; mean ± one standard deviation"
        return "\n".join([head, *rows])


def evaluate(
    run: Run | str | Path,
    episodes: int = 10,
    seed: int = 0,
    task: str | Callable[[], Any] | None = None,
    best: bool = False,
    time_limit: int | None = None,
) -> Scores:
    """Evaluate the newest policy of a run; NumPy and a simulator are enough.

    Args:
        run: A run or its folder.
        episodes: Number of episodes.
        seed: Seed of the environments.
        task: Another task with the same observations and actions, such as another version, or the
            constructor of an environment of your own; by default the task of the run.
        best: Evaluate the policy that was evaluated best during training, on new episodes.
        time_limit: Steps after which an episode is cut; by default those of the run.

    Returns:
        Length, return, J_γ and J_γ' of every episode; its text is a table of means.
    """
    found = run if isinstance(run, Run) else Run.load(run)
    config = found.config
    judged: Any = task or config.task
    if isinstance(judged, dict):
        where = found.path or "run"
        raise ValueError(
            f"{where}: was trained on an object, {judged['object']}; give its constructor as task="
        )
    if episodes < 1:
        raise ValueError(f"episodes={episodes!r}: must be at least 1")
    gamma, gamma_prime = config.agent.gamma, config.resolve().evaluation.gamma_prime
    assert gamma_prime is not None
    rows = max(n for n in range(1, min(AT_ONCE, episodes) + 1) if episodes % n == 0)
    env = envs.make(
        judged,
        rows,
        time_limit=config.time_limit if time_limit is None else time_limit,
        time_feature=config.time_feature,
        env_kwargs=config.env_kwargs if isinstance(judged, str) else None,
    )
    try:
        policy = found.best_policy if best else found.policy
        _check_fit(policy, env, task_name(judged))
        with one_blas_thread():
            played = evaluation_loop.evaluate(policy.actor, env, episodes, seed, gamma, gamma_prime)
    finally:
        env.close()
    return Scores(task_name(judged), gamma, gamma_prime, *np.array(played, np.float64)[:, 1:].T)


def _check_fit(policy: Policy, env: VecEnv, task: str) -> None:
    """Refuse a task whose observations or actions are not those that the policy was trained on."""
    inputs = (len(policy.actor.network[0].weight),)
    if env.observation.shape != inputs:
        raise ValueError(
            f"task={task!r}: has observations of shape {env.observation.shape}, the policy was "
            f"trained on {inputs}"
        )
    if isinstance(env.action, Box) and policy.low is not None:
        fits = env.action.shape == policy.low.shape
    else:
        fits = not isinstance(env.action, Box) and policy.low is None
    if not fits:
        raise ValueError(f"task={task!r}: has other actions than the policy was trained on")
