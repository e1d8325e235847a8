"""The part of a run that one process trains: from its newest checkpoint to its end.

A run resumes from its newest checkpoint, after its metrics were cut back to what they were at that
moment: killed at any point, it ends with the metrics and parameters of an undisturbed run.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gammaprime.agents import OffPolicy
from gammaprime.envs.contract import Box, NotFiniteError, VecEnv
from gammaprime.loops.loop import Loop, OnPolicyLoop
from gammaprime.loops.off_policy_loop import OffPolicyLoop
from gammaprime.loops.rollout import BreakdownError, Episode
from gammaprime.networks import Policy
from gammaprime.runs import checkpoint, directory, lock, segments
from gammaprime.runs.best import SCORE, Best
from gammaprime.runs.config import RunConfig, gamma_primes
from gammaprime.runs.environments import Environments
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
from gammaprime.runs.origins import Source
from gammaprime.runs.run import Run
from gammaprime.types import check_count

RETURN = "rollout/ep_rew_mean"


@dataclass(frozen=True)
class Start:
    """A run that is about to be trained or resumed, as callbacks see it."""

    path: Path | None
    """Its folder; None for a run that is kept in memory."""
    config: RunConfig
    """Configuration, with every default filled in."""
    steps: int
    """Environment steps so far: those of the checkpoint that it resumes from."""
    total_steps: int
    """Environment steps at the end: whole rollouts."""

    def __str__(self) -> str:
        config = self.config
        asked = f" ({config.steps:,} asked)" if config.steps != self.total_steps else ""
        rollout = config.agent.rollout_size
        again = f", from step {self.steps:,}" if self.steps else ""
        if config.origin is not None and config.origin.taken == "parameters":
            again += f", with the parameters of a run of {config.origin.steps:,} steps"
        trained = f"γ = {config.agent.gamma:g}"
        used = gamma_primes(config.agent)
        if len(set(used.values())) > 1:
            trained += f" and γ' = {' and '.join(f'{x:g} ({name})' for name, x in used.items())}"
        elif used:
            trained += f" and γ' = {next(iter(used.values())):g}"
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
    keep_replay: bool = False
    """Keep the replay buffer when the run is done, so that it can be lengthened."""
    keep_critic: bool = False
    """Store the critic in the files of policies."""

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
        self,
        config: RunConfig,
        world: Environments,
        upkeep: Upkeep,
        held: lock.Lock | None,
        source: Source | None = None,
    ) -> None:
        self.config, self.world, self.upkeep = config, world, upkeep
        self._lock, self.path = held, None if held is None else held.path
        world.check()
        self.loop = make_loop(config, world.env)
        self.segments: tuple[segments.Segment, ...] = ()
        self.parity = segments.Parity()
        self._listed: tuple[segments.Segment, ...] = ()
        """Segments that the newest checkpoint needs."""
        self.recent = Recent()
        self.best = Best()
        self.lines = self._restore(source)
        self._board: Board | None = None
        self._began: tuple[float, int] | None = None
        self._saved_at, self._saved_step = time.monotonic(), self.loop.steps
        if config.origin is not None and self.loop.steps == 0:
            self._save(now=True)

    def _restore(self, source: Source | None) -> Lines:
        """Restore the loop and the metrics from the newest checkpoint, if there is one."""
        path = self.path
        saved = None
        if path is not None:
            folder = path / directory.CHECKPOINTS
            saved = checkpoint.load(folder, self._check)
        if path is None or saved is None:
            self._start_with(source)
            return Lines(path)
        try:
            self.loop.restore(saved.arrays)
            self.recent.restore(saved.arrays)
            self._listed = saved.segments
            if self.loop.replay is not None and not self.loop.done:
                self.parity = segments.restore(folder, saved.segments, self.loop.replay)
                self.segments = saved.segments
        except ValueError as error:
            raise ValueError(
                f"{folder}: {error}; if another version of gammaprime wrote it (manifest.json says "
                "which), resume with that version, or start over in another folder"
            ) from error
        lines = Lines.reopen(path, saved.metrics_bytes)
        self.best.restore(saved.arrays, lines.rows)
        checkpoint.set_aside(folder, saved.step)
        return lines

    def _start_with(self, source: Source | None) -> None:
        """Begin with the parameters of another run, if the configuration says so."""
        if self.config.origin is None:
            return
        if source is None or source.parameters is None:
            raise ValueError(
                f"{self.path}: was stopped before it had the {self.config.origin.taken} of the run "
                "that it begins from; repeat the command that began it, which is in manifest.json"
            )
        try:
            self.loop.start_with(source.parameters)
        except ValueError as error:
            raise ValueError(f"init={str(source.path)!r}: {error}") from None

    def _check(self, saved: checkpoint.Checkpoint) -> None:
        """Refuse a checkpoint of another configuration, or of metrics that were changed."""
        assert self.path is not None
        if saved.config_sha256 not in (None, directory.config_hash(self.config.to_table())):
            raise ValueError(
                f"{self.path / 'config.json'}: was changed since the checkpoint at step "
                f"{saved.step}; take the change back, or start over in another folder"
            )
        read_head(self.path / directory.METRICS, saved.metrics_bytes, saved.metrics_sha256)

    def run(self, callbacks: Sequence[Callback], interrupts: Interrupts) -> Run:
        """Train until all steps are done, or until a callback or a signal stops the run."""
        stopped = False
        start = Start(self.path, self.config, self.loop.steps, self.loop.total_steps)
        for callback in callbacks:
            callback.on_start(start)
        try:
            while not self.loop.done:
                if interrupts.asked is not None:
                    if self.loop.steps > self._saved_step:
                        self._save(now=True)
                    raise Interrupted(interrupts.asked, self._saved_message())
                if stopped:
                    break
                update = self._advance()
                stopped = not _tell(callbacks, update)
                self._save(now=stopped or self.loop.done)
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
                self.best.offer(self._policy(), loop.steps, row[SCORE])
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
            arrays = loop.snapshot() | self.recent.snapshot() | self.best.snapshot()
            stored = self._store_replay(folder)
            hashes = (directory.config_hash(self.config.to_table()), self.lines.sha256)
            state = (loop.steps, self.lines.num_bytes, arrays, *stored, *hashes)
            checkpoint.save(folder, checkpoint.Checkpoint(*state))
            self._listed = stored[0]
            directory.write_policy(self.path, self._policy())
            self.best.write(self.path)
        self._saved_at, self._saved_step = time.monotonic(), loop.steps

    def _store_replay(
        self, folder: Path
    ) -> tuple[tuple[segments.Segment, ...], segments.ParityFile | None]:
        """Store what is new in the replay buffer; a run that is done seldom needs it any more."""
        replay = self.loop.replay
        unwanted = self.loop.done and not self.upkeep.keep_replay
        if replay is None or replay.count == 0 or unwanted:
            return (), None
        self.segments, self.parity = segments.extend(folder, self.segments, self.parity, replay)
        return self.segments, self.parity.write(folder)

    def _policy(self) -> Policy:
        loop, space = self.loop, self.loop.env.action
        critic = loop.critic() if self.upkeep.keep_critic else None
        if isinstance(space, Box):
            return Policy(loop.actor(), space.low, space.high, critic=critic)
        return Policy(loop.actor(), None, None, space.start, critic)

    def _end(self) -> Run:
        policy = self._policy()
        if self.path is not None and self.loop.done:
            with self._writing():
                # A run that was killed between its last checkpoint and here resumes at this line.
                directory.write_policy(self.path, policy)
                self.best.write(self.path)
                table = self.config.to_table()
                directory.finish_training(self.path, table, self.lines.sha256, self.lines.seconds)
                if not self._listed:
                    segments.drop(self.path / directory.CHECKPOINTS)
        best = self.best.policy
        return Run(self.path, self.config, self.lines.rows, self.loop.done, policy, best)

    def _close(self) -> None:
        self.lines.close()
        if self._board is not None:
            self._board.close()

    def _saved_message(self) -> str:
        exact, step = self.world.env.exact_resume, self.loop.steps
        where = f"and saved at step {step} of {self.config.steps}" if step else "before it began"
        return (
            f"stopped {where}; go on with: {self._command()}"
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
            words = ["gammaprime", "resume", str(self.path), *self.config.flags]
            words += ["--keep-replay"] if self.upkeep.keep_replay else []
            words += ["--keep-critic"] if self.upkeep.keep_critic else []
            return shlex.join(words)
        return f"train() with the same arguments, out={str(self.path)!r} among them"


def _tell(callbacks: Sequence[Callback], update: Update) -> bool:
    """Call every callback, and return whether all want the run to go on."""
    if "eval/episodes" in update.row:
        for callback in callbacks:
            callback.on_evaluation(update)
    answers = [callback.on_update(update) for callback in callbacks]
    return all(answer is not False for answer in answers)
