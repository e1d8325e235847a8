"""Training: runs that can be interrupted, resumed exactly, watched and evaluated.

    config.json, manifest.json      what decides the numbers, and where they come from
    metrics.jsonl, wall_clock.jsonl, tensorboard/
    checkpoints/                    the last two states, and the replay buffer they learn from
    policy.npz                      the newest policy, for `gammaprime.load_policy`
    breakdown/                      the arrays on which a run broke down, if it did
    done                            written last

A run resumes from its newest checkpoint, after its metrics were cut back to what they were at that
moment: killed at any point, it ends with the metrics and parameters of an undisturbed run.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gammaprime import envs
from gammaprime.agents import Agent, OffPolicy
from gammaprime.envs.contract import Box, NotFiniteError, VecEnv
from gammaprime.loops import evaluate as evaluation_loop
from gammaprime.loops.loop import Loop, OnPolicyLoop
from gammaprime.loops.off_policy_loop import OffPolicyLoop, continuous_actions
from gammaprime.loops.rollout import BreakdownError, Episode
from gammaprime.networks import LearnedActor, Policy
from gammaprime.runs import checkpoint, directory, lock, provenance, segments
from gammaprime.runs.config import (
    Evaluation,
    RunConfig,
    code_names,
    gamma_prime_of,
    to_table,
    whole_steps,
)
from gammaprime.runs.interrupts import Interrupted, Interrupts
from gammaprime.runs.metrics import (
    Board,
    Lines,
    Recent,
    Row,
    evaluation_row,
    read_head,
    training_row,
)
from gammaprime.runs.run import Run, read_config
from gammaprime.runs.startup import one_blas_thread, start_jax
from gammaprime.types import check_count
from gammaprime.typing import FloatArray

Task = str | Callable[[], Any] | VecEnv

EVALUATION_KEY = 4
"""Child of a run's seed for its evaluations; the loop spawns the children 0 to 3."""
AT_ONCE = 10
"""Environments of `evaluate`, at most."""
RETURN = "rollout/ep_rew_mean"


@dataclass(frozen=True)
class Start:
    """A run that is about to be trained or resumed, as callbacks see it."""

    path: Path | None
    """Its folder; None for a run that is kept in memory."""
    config: RunConfig
    """What decides its numbers, every default filled in."""
    steps: int
    """Environment steps so far: those of the checkpoint that it resumes from."""
    total_steps: int
    """Environment steps at the end: whole rollouts."""

    def __str__(self) -> str:
        config = self.config
        asked = f" ({config.steps:,} asked)" if config.steps != self.total_steps else ""
        rollout = config.agent.rollout_size
        again = f", from step {self.steps:,}" if self.steps else ""
        used = gamma_prime_of(config.agent)
        trained = f"γ = {config.agent.gamma:g}"
        trained += "" if used is None else f" and γ' = {used:g}"
        return (
            f"{self.total_steps:,} steps{asked}: {self.total_steps // rollout:,} rollouts of "
            f"{rollout:,}{again}; trained with {trained}, judged by the return, J_γ and J_γ' with "
            f"γ' = {config.evaluation.gamma_prime:g}"
        )


@dataclass(frozen=True)
class Update:
    """One update, as callbacks see it."""

    steps: int
    """Environment steps so far."""
    total_steps: int
    """Environment steps at the end."""
    row: Row
    """The line of metrics.jsonl."""
    clock: Row
    """The line of wall_clock.jsonl."""


@dataclass(frozen=True)
class Upkeep:
    """Settings of a run that do not change its numbers."""

    checkpoint_seconds: float
    """Seconds between checkpoints; 0 saves after every update."""
    tensorboard: bool
    """Write events for TensorBoard beside the metrics."""
    command: Sequence[str] | None = None
    """Command line for the manifest; that of this process by default."""
    threads: int = 1
    """Threads that step the environments."""

    def __post_init__(self) -> None:
        if not self.checkpoint_seconds >= 0.0:
            raise ValueError(f"checkpoint_seconds={self.checkpoint_seconds!r}: must be 0 or more")
        check_count("threads", self.threads)


class Callback:
    """Watches a run; override what you need."""

    def on_start(self, start: Start) -> None:
        """Called once, before the first update; not for a run that is already done."""

    def on_update(self, update: Update) -> bool | None:
        """Called after each update; return False to stop the run, which can be resumed."""

    def on_evaluation(self, update: Update) -> None:
        """Called before ``on_update``, after an update that was followed by an evaluation."""


def train(
    agent: Agent,
    env_or_task: Task,
    steps: float,
    seed: int = 0,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    evaluation: Evaluation | None = None,
    time_limit: int | None = None,
    time_feature: bool = False,
    stagger: bool = True,
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = True,
    command: Sequence[str] | None = None,
    threads: int = 1,
    progress: bool | None = None,
) -> Run:
    """Train an agent, or go on where the run in ``out`` stopped.

    Ctrl-C and SIGTERM save the run and raise `Interrupted`.  BLAS has one thread meanwhile.  JAX is
    given one thread, unless the process has used it before: it then keeps its threads, and other
    bits may follow.

    Args:
        agent: The agent with its settings, such as ``PPO(advantage=TaylorQ(0.999))``.
        env_or_task: A task's id, a constructor of Gymnasium environments, or an environment,
            which is then not evaluated.
        steps: Environment steps, of all environments together; whole rollouts are trained, rounded
            down.
        seed: Seed of everything random.
        out: Folder of the run; None keeps everything in memory.
        callbacks: Objects that watch the run and may stop it.
        evaluation: When the policy is evaluated, and at which γ'.
        time_limit: Steps after which an episode is cut; the task's own limit by default.
        time_feature: Show the age to the agent, and make the time limit the end of the task.
        stagger: Cut first episodes early, so that several environments do not share one age.
        checkpoint_seconds: Seconds between checkpoints; 0 saves after every update.
        tensorboard: Write events for TensorBoard beside the metrics.
        command: Command line for the manifest; that of this process by default.
        threads: Threads that step the environments of a MuJoCo task, at most one for each; no
            number depends on it.
        progress: Show a line of progress; by default in a terminal and in a notebook.

    Returns:
        The run with its metrics and its policy.
    """
    upkeep = Upkeep(checkpoint_seconds, tensorboard, command, threads)
    options = (time_limit, time_feature, stagger, upkeep.threads)
    with closing(Environments(env_or_task, agent, *options)) as world:
        asked = (world.limit(evaluation or Evaluation()), time_limit, time_feature, stagger)
        config = RunConfig(agent, world.task, whole_steps(steps), seed, *asked)
        return _train(config.resolve(), world, out, _watched(callbacks, progress), upkeep)


def _watched(callbacks: Sequence[Callback], progress: bool | None) -> list[Callback]:
    """Return the callbacks, and the line of progress if it is asked for or somebody sees it."""
    from gammaprime.runs.progress import ProgressLine, is_watched

    shown = is_watched() if progress is None else progress
    return [*callbacks, ProgressLine()] if shown else list(callbacks)


def train_config(
    config: RunConfig,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = True,
    command: Sequence[str] | None = None,
    threads: int = 1,
) -> Run:
    """Train the run of a configuration, or go on with it; see `train` for the arguments."""
    if not isinstance(config.task, str):
        raise ValueError(f"{out}: was trained on an object; call train() with it again")
    upkeep = Upkeep(checkpoint_seconds, tensorboard, command, threads)
    options = (config.time_limit, config.time_feature, config.stagger, upkeep.threads)
    with closing(Environments(config.task, config.agent, *options)) as world:
        return _train(config.resolve(), world, out, callbacks, upkeep)


def _train(
    config: RunConfig,
    world: Environments,
    out: str | Path | None,
    callbacks: Sequence[Callback],
    upkeep: Upkeep,
) -> Run:
    world.check_evaluations(config.evaluation)
    start_jax()
    with one_blas_thread():
        if out is None:
            return Session(config, world, upkeep, None).run(callbacks)
        return _train_in(Path(out), config, world, callbacks, upkeep)


def _train_in(
    path: Path,
    config: RunConfig,
    world: Environments,
    callbacks: Sequence[Callback],
    upkeep: Upkeep,
) -> Run:
    table = config.to_table()
    if directory.is_done(path, table):
        segments.drop(path / directory.CHECKPOINTS)
        return Run.load(path)
    world.check()
    with lock.hold(path) as held:
        if directory.is_done(path, table):  # by another process, a moment ago
            return Run.load(path)
        resumes = {"resume": "exact" if world.env.exact_resume else "statistical"}
        manifest = provenance.manifest(config.seed, upkeep.command) | resumes
        directory.begin_or_resume(path, table, manifest)
        return Session(config, world, upkeep, held).run(callbacks)


def resume(
    run: Run | str | Path,
    callbacks: Sequence[Callback] = (),
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = True,
    command: Sequence[str] | None = None,
    threads: int = 1,
    progress: bool | None = None,
) -> Run:
    """Go on with the run in a folder, as its config.json describes it; see `train`."""
    path = run.path if isinstance(run, Run) else Path(run)
    if path is None:
        raise ValueError("run: was kept in memory, and has no folder to resume from")
    upkeep = (checkpoint_seconds, tensorboard, command, threads)
    return train_config(read_config(path), path, _watched(callbacks, progress), *upkeep)


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
        head = f"{self.task}, {len(self.length)} episodes, the most likely actions"
        return "\n".join([head, *rows])


def evaluate(
    run: Run | str | Path,
    episodes: int = 10,
    seed: int = 0,
    task: str | Callable[[], Any] | None = None,
) -> Scores:
    """Evaluate the newest policy of a run; NumPy and a simulator are enough.

    Args:
        run: A run or its folder.
        episodes: Number of episodes.
        seed: Seed of the environments.
        task: Another task with the same observations and actions, such as another version, or the
            constructor of an environment of your own; by default the task of the run.

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
    env = envs.make(judged, rows, time_limit=config.time_limit, time_feature=config.time_feature)
    try:
        _check_fit(found.policy, env, _task_name(judged))
        with one_blas_thread():
            played = evaluation_loop.evaluate(
                found.policy.actor, env, episodes, seed, gamma, gamma_prime
            )
    finally:
        env.close()
    return Scores(_task_name(judged), gamma, gamma_prime, *np.array(played, np.float64)[:, 1:].T)


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


class Environments:
    """The environments of a run, each made once, when it is first needed.

    An environment that was already made is trained on as it is, and not evaluated: there is no
    second one to evaluate on.
    """

    def __init__(
        self,
        task: Task,
        agent: Agent,
        time_limit: int | None,
        time_feature: bool,
        stagger: bool,
        threads: int = 1,
    ) -> None:
        self._source, self._agent, self._threads = task, agent, threads
        self._limit, self._feature, self._stagger = time_limit, time_feature, stagger
        self._is_given = not (isinstance(task, str) or callable(task))
        self._env: VecEnv | None = None
        self._judge: VecEnv | None = None

    @property
    def env(self) -> VecEnv:
        """The environment that is trained on."""
        if self._env is None:
            settings = (self._agent.num_envs, self._stagger, self._threads)
            self._env = self._given() if self._is_given else self._make(*settings)
        return self._env

    @property
    def task(self) -> str | dict[str, Any]:
        """The id of the task; of an object, all that is known of it."""
        if isinstance(self._source, str):
            return self._source
        space = self.env.action
        return {
            "object": _qualified_name(self._source),
            "observation": list(self.env.observation.shape),
            "action": list(space.shape) if isinstance(space, Box) else space.n,
            "time_limit": self.env.time_limit,
        }

    def limit(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluations that are possible: none on an environment that was made."""
        if not self._is_given:
            return evaluation
        if self._limit is not None or self._feature or evaluation.every or self._threads != 1:
            raise ValueError(
                "time_limit, time_feature, evaluation.every and threads need a task or a "
                "constructor, not an environment that was already made"
            )
        return replace(evaluation, every=0)

    def check(self) -> None:
        """Refuse an environment that the agent cannot learn in."""
        envs_wanted = self._agent.num_envs
        if self.env.num_envs != envs_wanted:
            raise ValueError(
                f"env has {self.env.num_envs} rows: must be num_envs={envs_wanted} of the agent"
            )
        if isinstance(self._agent, OffPolicy):
            continuous_actions(self.env)

    def check_evaluations(self, evaluation: Evaluation) -> None:
        """Refuse evaluations of episodes that may never end."""
        if evaluation.every and self.env.time_limit is None:
            raise ValueError(
                f"time_limit=None: {_task_name(self._source)} has no time limit, so an evaluation "
                "might never end; set time_limit (--time-limit), for instance 1000, or "
                "evaluation.every to 0 for none"
            )

    def evaluate(self, actor: LearnedActor, config: RunConfig, step: int) -> list[Episode]:
        """Return whole episodes, seeded by the run's seed and the step.

        Nothing of it outlives the evaluation, so nothing of it needs to be saved.
        """
        asked = config.evaluation
        assert asked.episodes is not None
        assert asked.gamma_prime is not None
        if self._judge is None:
            threads = min(self._threads, asked.episodes)
            self._judge = self._make(asked.episodes, stagger=False, threads=threads)
        sequence = np.random.SeedSequence(config.seed, spawn_key=(EVALUATION_KEY, step))
        seed = int(sequence.generate_state(1)[0])
        discounts = (config.agent.gamma, asked.gamma_prime)
        return evaluation_loop.evaluate(actor, self._judge, asked.episodes, seed, *discounts)

    def close(self) -> None:
        """Close what was made here; an environment that was given stays open."""
        for env in (self._env, self._judge):
            if env is not None and not self._is_given:
                env.close()

    def _make(self, num_envs: int, stagger: bool, threads: int) -> VecEnv:
        return envs.make(
            self._source,
            num_envs,
            time_limit=self._limit,
            stagger=stagger,
            time_feature=self._feature,
            threads=threads,
        )

    def _given(self) -> VecEnv:
        """Return the environment that was handed over, under the contract."""
        from gammaprime.envs.gym import is_environment

        if is_environment(self._source):
            return envs.make(self._source)
        if not isinstance(self._source, VecEnv):
            raise ValueError(
                f"env_or_task={self._source!r}: must be the name of a task, a Gymnasium "
                "environment, a constructor of one, or what gammaprime.make returns"
            )
        return self._source


def _task_name(task: Any) -> str:
    return task if isinstance(task, str) else _qualified_name(task)


def _qualified_name(task: Any) -> str:
    """Return the name of a function or class, or that of an object's class."""
    described = task if isinstance(task, type) or callable(task) else type(task)
    return str(described.__qualname__)


def make_loop(config: RunConfig, env: VecEnv) -> Loop:
    """Return the loop that an agent of this kind learns in."""
    gamma_prime = config.evaluation.gamma_prime
    assert gamma_prime is not None
    if isinstance(config.agent, OffPolicy):
        return OffPolicyLoop(config.agent, env, config.steps, config.seed, gamma_prime)
    return OnPolicyLoop(config.agent, env, config.steps, config.seed, gamma_prime)


class Session:
    """The part of a run that one process trains: from the newest checkpoint to the end."""

    def __init__(
        self, config: RunConfig, world: Environments, upkeep: Upkeep, held: lock.Lock | None
    ) -> None:
        self.config, self.world, self.upkeep = config, world, upkeep
        self._lock, self.path = held, None if held is None else held.path
        world.check()
        self.loop = make_loop(config, world.env)
        self.segments: tuple[segments.Segment, ...] = ()
        self.parity = segments.Parity()
        self.recent = Recent()
        self.lines = Lines(None) if self.path is None else self._restore(self.path)
        self._board: Board | None = None
        self._began: tuple[float, int] | None = None
        self._saved_at, self._saved_step = time.monotonic(), self.loop.steps

    def _restore(self, path: Path) -> Lines:
        """Restore the loop and the metrics from the newest checkpoint, if there is one."""
        folder = path / directory.CHECKPOINTS
        saved = checkpoint.load(folder, self._check)
        if saved is None:
            return Lines(path)
        try:
            self.loop.restore(saved.arrays)
            self.recent.restore(saved.arrays)
            if self.loop.replay is not None and not self.loop.done:
                self.parity = segments.restore(folder, saved.segments, self.loop.replay)
                self.segments = saved.segments
        except ValueError as error:
            raise ValueError(
                f"{folder}: {error}; if another version of gammaprime wrote it (manifest.json says "
                "which), resume with that version, or start over in another folder"
            ) from error
        lines = Lines.reopen(path, saved.metrics_bytes)
        checkpoint.set_aside(folder, saved.step)
        return lines

    def _check(self, saved: checkpoint.Checkpoint) -> None:
        """Refuse a checkpoint of another configuration, or of metrics that were changed."""
        assert self.path is not None
        if saved.config_sha256 not in (None, directory.config_hash(self.config.to_table())):
            raise ValueError(
                f"{self.path / 'config.json'}: was changed since the checkpoint at step "
                f"{saved.step}; take the change back, or start over in another folder"
            )
        read_head(self.path / directory.METRICS, saved.metrics_bytes, saved.metrics_sha256)

    def run(self, callbacks: Sequence[Callback]) -> Run:
        """Train until all steps are done, or until a callback or a signal stops the run."""
        stopped = False
        start = Start(self.path, self.config, self.loop.steps, self.loop.total_steps)
        for callback in callbacks:
            callback.on_start(start)
        with Interrupts(active=self.path is not None) as interrupts:
            try:
                while not (self.loop.done or stopped):
                    update = self._advance()
                    stopped = not _tell(callbacks, update)
                    self._save(now=stopped or self.loop.done or interrupts.asked is not None)
                    if interrupts.asked is not None and not self.loop.done:
                        raise Interrupted(interrupts.asked, self._saved_message())
            finally:
                self._close()
            return self._end()

    def _advance(self) -> Update:
        started = time.monotonic()
        loop, before = self.loop, self.loop.steps
        try:
            progress = loop.advance()
            row = training_row(progress, self.recent.add(progress.episodes))
            if self.config.evaluation.is_due(before, loop.steps, loop.done):
                row |= evaluation_row(self._evaluate())
        except BreakdownError as broken:
            raise self._keep(broken, before) from broken
        with self._writing():
            clock = self.lines.append(row, time.monotonic() - started)
            if self.path is not None and self.upkeep.tensorboard:
                self._board = self._board or Board(self.path, before)
                self._board.write(row | clock, loop.steps)
        self._report(row)
        return Update(loop.steps, loop.total_steps, row, clock)

    def _evaluate(self) -> list[Episode]:
        loop = self.loop
        try:
            return self.world.evaluate(loop.actor(), self.config, loop.steps)
        except (NotFiniteError, BreakdownError) as error:
            policy = {f"policy/{name}": x for name, x in self._policy().to_arrays().items()}
            raise BreakdownError(f"evaluation: {error}", policy) from error

    def _report(self, row: Row) -> None:
        """Tell other processes how far the run is, with the next heartbeat."""
        if self._lock is None:
            return
        now, steps = time.monotonic(), self.loop.steps
        # The first update compiles, and says nothing of the speed.
        self._began = self._began or (now, steps)
        then, from_step = self._began
        told: dict[str, Any] = {"steps": steps, "total": self.loop.total_steps}
        if now > then:
            told["fps"] = (steps - from_step) / (now - then)
        if RETURN in row:
            told["return"] = row[RETURN]
        self._lock.progress = told

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write to the folder, if the run is still this process's own."""
        if self._lock is not None:
            self._lock.check()
        try:
            yield
        except OSError as error:
            if self.path is None:
                raise
            step = self._saved_step
            if not (self.path / "config.json").is_file():
                raise FileNotFoundError(
                    f"{self.path}: was removed while it was trained; nothing of it is saved"
                ) from error
            saved = f"the checkpoint at step {step}" if step else "the folder"
            again = f"when this is repaired: {self._command()}"
            raise OSError(f"{error}; {saved} is whole; {again}") from error

    def _save(self, now: bool) -> None:
        """Save a checkpoint and the policy, when it is time."""
        waited = time.monotonic() - self._saved_at
        if self.path is None or not (now or waited >= self.upkeep.checkpoint_seconds):
            return
        folder, loop = self.path / directory.CHECKPOINTS, self.loop
        with self._writing():
            self.lines.sync()
            arrays = loop.snapshot() | self.recent.snapshot()
            stored = self._store_replay(folder)
            hashes = (directory.config_hash(self.config.to_table()), self.lines.sha256)
            state = (loop.steps, self.lines.num_bytes, arrays, *stored, *hashes)
            checkpoint.save(folder, checkpoint.Checkpoint(*state))
            directory.write_policy(self.path, self._policy())
        self._saved_at, self._saved_step = time.monotonic(), loop.steps

    def _store_replay(
        self, folder: Path
    ) -> tuple[tuple[segments.Segment, ...], segments.ParityFile | None]:
        """Store what is new in the replay buffer; a run that is done does not need it any more."""
        replay = self.loop.replay
        if replay is None or self.loop.done:
            return (), None
        self.segments, self.parity = segments.extend(folder, self.segments, self.parity, replay)
        return self.segments, self.parity.write(folder)

    def _policy(self) -> Policy:
        space = self.loop.env.action
        if isinstance(space, Box):
            return Policy(self.loop.actor(), space.low, space.high)
        return Policy(self.loop.actor(), None, None, space.start)

    def _end(self) -> Run:
        policy = self._policy()
        if self.path is not None and self.loop.done:
            with self._writing():
                # A run that was killed between its last checkpoint and here resumes at this line.
                directory.write_policy(self.path, policy)
                table = self.config.to_table()
                directory.finish_training(self.path, table, self.lines.sha256, self.lines.seconds)
                segments.drop(self.path / directory.CHECKPOINTS)
        return Run(self.path, self.config, self.lines.rows, self.loop.done, policy)

    def _close(self) -> None:
        self.lines.close()
        if self._board is not None:
            self._board.close()

    def _saved_message(self) -> str:
        exact = self.world.env.exact_resume
        return (
            f"stopped and saved at step {self.loop.steps} of {self.config.steps}; "
            f"go on with: {self._command()}"
            f"{'' if exact else ' (in new episodes: those of this task cannot be saved)'}"
        )

    def _keep(self, broken: BreakdownError, steps: int) -> BreakdownError:
        """Store the arrays of a breakdown, and return it with where they are."""
        if self.path is None:
            return broken
        about = {"message": str(broken), "step": steps, "config": self.config.to_table()}
        with self._writing():
            folder = directory.write_breakdown(self.path, about, broken.arrays)
        saved = f"step {self._saved_step}" if self._saved_step else "the start"
        number = steps // self.config.agent.rollout_size + 1
        message = (
            f"{broken} (update {number}, after {steps} steps); its arrays are in {folder}; "
            f"from {saved} it happens again with: {self._command()}"
        )
        return BreakdownError(message, broken.arrays)

    def _command(self) -> str:
        task = self.config.task
        if isinstance(task, str):
            code = code_names(to_table(self.config.agent), tasks=[task])
            words = ["gammaprime", "resume", str(self.path), *(["--allow-imports"] if code else [])]
            return shlex.join(words)
        return f"train() with the same arguments, out={str(self.path)!r} among them"


def _tell(callbacks: Sequence[Callback], update: Update) -> bool:
    """Call every callback, and return whether all want the run to go on."""
    if "eval/episodes" in update.row:
        for callback in callbacks:
            callback.on_evaluation(update)
    answers = [callback.on_update(update) for callback in callbacks]
    return all(answer is not False for answer in answers)
