"""Training runs that can be interrupted, resumed exactly, watched and loaded.

    config.json, manifest.json      what decides the numbers, and where they come from
    metrics.jsonl, wall_clock.jsonl, tensorboard/
    checkpoints/                    the last two states, and the replay they learn from
    policy.npz                      the newest policy, for `gammaprime.networks.Policy.load`
    breakdown/                      what a run broke on, if it did
    done                            written last

A run goes on from its newest checkpoint, after its metrics were cut back to what they were at
that moment: killed at whatever point, it ends with the metrics and parameters of a run that was
never disturbed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gammaprime.agents.off_policy import OffPolicy
from gammaprime.envs.contract import Box
from gammaprime.loops.loop import Loop, OnPolicyLoop
from gammaprime.loops.off_policy_loop import OffPolicyLoop
from gammaprime.loops.rollout import BreakdownError, Episode
from gammaprime.networks import Policy
from gammaprime.runs import checkpoint, folders, machine, segments
from gammaprime.runs.interrupts import Interrupted, Interrupts
from gammaprime.runs.last_words import LastWords
from gammaprime.runs.metrics import (
    METRICS,
    Board,
    Lines,
    Recent,
    Row,
    evaluation_row,
    read_rows,
    training_row,
)
from gammaprime.runs.options import Agent, Protocol, Upkeep, agent_from, from_table
from gammaprime.runs.setup import Setup, Task
from gammaprime.runs.threads import start_jax


@dataclass(frozen=True)
class Update:
    """What a callback is told after each update."""

    steps: int
    total_steps: int
    row: Row
    """The line of metrics.jsonl."""
    clock: Row
    """The line of wall_clock.jsonl."""


class Callback:
    """Watches a run; override what you need."""

    def before_writing(self) -> None:
        """After each update, before anything of it is written."""

    def on_update(self, update: Update) -> bool | None:
        """After each update; return False to stop the run, which can be resumed."""

    def on_evaluation(self, update: Update) -> None:
        """After an update that was followed by an evaluation, before ``on_update``."""


@dataclass(frozen=True)
class TrainingRun:
    """A run as `train` leaves it."""

    path: Path | None
    steps: int
    done: bool
    """False where a callback stopped it."""
    policy: Policy
    rows: list[Row]
    """The lines of metrics.jsonl."""


def train(
    agent: Agent,
    env_or_task: Task,
    steps: float,
    seed: int = 0,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    protocol: Protocol | None = None,
    upkeep: Upkeep | None = None,
) -> TrainingRun:
    """Train an agent for so many environment steps, or go on where the run in ``out`` stopped.

    env_or_task: a task's name, a constructor of Gymnasium environments, or an environment, which
    is then not evaluated.  out: the folder of the run; None keeps everything in memory.
    Ctrl-C and SIGTERM save and raise `Interrupted`.  JAX is given one thread, unless the process
    has used it before: then it keeps those it has, and other bits may follow.
    """
    start_jax()
    setup = Setup(agent, env_or_task, steps, seed, protocol or Protocol())
    upkeep = upkeep or Upkeep()
    try:
        if out is None:
            return Session(setup, None, upkeep).run(callbacks)
        path = Path(out)
        resumed = {"resume": "exact" if setup.env.exact_resume else "statistical"}
        with folders.claim(path, setup.config, machine.manifest(setup.config) | resumed):
            if (path / "done").is_file():
                segments.drop(path / folders.CHECKPOINTS)
                return finished(path)
            return Session(setup, path, upkeep).run(callbacks)
    finally:
        setup.close()


def resume(
    path: Path, callbacks: Sequence[Callback] = (), upkeep: Upkeep | None = None
) -> TrainingRun:
    """Go on with the run in a folder, as its config.json describes it."""
    settings = folders.read_settings(path)
    if not isinstance(settings["task"], str):
        raise ValueError(f"{path}: was trained on an object; call train() with it again")
    return train(
        agent_from(settings["agent"]),
        settings["task"],
        settings["steps"],
        settings["seed"],
        path,
        callbacks,
        from_table(Protocol, settings["protocol"]),
        upkeep,
    )


def finished(path: Path) -> TrainingRun:
    """A run that is done, as it was stored."""
    rows = read_rows(path / METRICS)
    if not rows:
        raise ValueError(f"{path / METRICS}: is empty, though this run is done")
    return TrainingRun(path, rows[-1]["time/total_timesteps"], True, Policy.load(path), rows)


def make_loop(setup: Setup) -> Loop:
    """The loop that this kind of agent learns in."""
    numbers = (setup.env, setup.steps, setup.seed, setup.gamma_prime)
    if isinstance(setup.agent, OffPolicy):
        return OffPolicyLoop(setup.agent, *numbers)
    return OnPolicyLoop(setup.agent, *numbers)


class Session:
    """One process's share of a run: from its newest checkpoint to its end, or to a signal."""

    def __init__(self, setup: Setup, path: Path | None, upkeep: Upkeep) -> None:
        self.setup, self.path, self.upkeep = setup, path, upkeep
        self._words = None if path is None else LastWords(setup, path)
        self.loop = make_loop(setup)
        self.segments: tuple[segments.Segment, ...] = ()
        self.recent = Recent()
        self.lines = self._restore() if path is not None else Lines(None)
        self._board: Board | None = None
        self._saved_at, self._saved_step = time.monotonic(), self.loop.steps

    def _restore(self) -> Lines:
        """The loop, and the metrics, as they were at the newest checkpoint."""
        folder = self.path / folders.CHECKPOINTS
        saved = checkpoint.load(folder)
        if saved is None:
            return Lines(self.path)
        try:
            self.loop.restore(saved.arrays)
            self.recent.restore(saved.arrays)
            if isinstance(self.loop, OffPolicyLoop) and not self.loop.done:
                segments.restore(folder, saved.segments, self.loop.replay)
                self.segments = saved.segments
        except ValueError as error:
            raise ValueError(
                f"{folder}: {error}; if another version of gammaprime wrote it (manifest.json says "
                "which), go on with that one, or begin anew in another folder"
            ) from error
        lines = Lines.reopen(self.path, saved.metrics_bytes)
        checkpoint.set_aside(folder, saved.step)
        return lines

    def run(self, callbacks: Sequence[Callback]) -> TrainingRun:
        """Train until all steps are done or a callback or a signal stops it."""
        stopped = False
        with Interrupts(active=self.path is not None) as interrupts:
            try:
                while not (self.loop.done or stopped):
                    update = self._advance(callbacks)
                    stopped = not _tell(callbacks, update)
                    self._save(now=stopped or self.loop.done or interrupts.asked is not None)
                    if interrupts.asked is not None and not self.loop.done:
                        raise Interrupted(interrupts.asked, self._words.stopped(self.loop.steps))
            except OSError as error:
                if self._words is None:
                    raise
                raise self._words.failed(error, self._saved_step) from error
            finally:
                self._close()
            return self._end()

    def _advance(self, callbacks: Sequence[Callback]) -> Update:
        started = time.monotonic()
        loop, before = self.loop, self.loop.steps
        try:
            progress = loop.advance()
        except BreakdownError as broken:
            raise self._keep(broken, before) from broken
        row = training_row(progress, self.recent.add(progress.episodes))
        if self.setup.is_due(before, loop.steps, loop.done):
            row |= evaluation_row(self._evaluate(before))
        for callback in callbacks:
            callback.before_writing()
        clock = self.lines.append(row, time.monotonic() - started)
        if self.path is not None and self.upkeep.tensorboard:
            self._board = self._board or Board(self.path, before)
            self._board.write(row | clock, loop.steps)
        return Update(loop.steps, loop.total_steps, row, clock)

    def _evaluate(self, before: int) -> list[Episode]:
        loop = self.loop
        try:
            return self.setup.evaluate(loop.actor(), loop.steps)
        except ValueError as error:
            policy = {f"policy/{name}": x for name, x in self._policy().to_arrays().items()}
            raise self._keep(BreakdownError(f"evaluation: {error}", policy), before) from error

    def _save(self, now: bool) -> None:
        """A checkpoint and the policy, when it is time."""
        waited = time.monotonic() - self._saved_at
        if self.path is None or not (now or waited >= self.upkeep.checkpoint_seconds):
            return
        self.lines.sync()
        arrays = self.loop.snapshot() | self.recent.snapshot()
        self._store_replay()
        taken = checkpoint.Checkpoint(self.loop.steps, self.lines.num_bytes, arrays, self.segments)
        checkpoint.save(self.path / folders.CHECKPOINTS, taken)
        folders.write_policy(self.path, self._policy())
        self._saved_at, self._saved_step = time.monotonic(), self.loop.steps

    def _store_replay(self) -> None:
        """What the replay has that is not on the disk yet; a run that is done needs none of it."""
        if isinstance(self.loop, OffPolicyLoop):
            folder = self.path / folders.CHECKPOINTS
            done, replay = self.loop.done, self.loop.replay
            self.segments = () if done else segments.extend(folder, self.segments, replay)

    def _policy(self) -> Policy:
        space = self.loop.env.action
        if isinstance(space, Box):
            return Policy(self.loop.actor(), space.low, space.high)
        return Policy(self.loop.actor(), None, None, space.start)

    def _end(self) -> TrainingRun:
        if self.path is not None and self.loop.done:
            # Killed between the last checkpoint and here, a run comes back to this line.
            folders.write_policy(self.path, self._policy())
            folders.finish(self.path, self.lines.seconds)
            segments.drop(self.path / folders.CHECKPOINTS)
        return TrainingRun(
            self.path, self.loop.steps, self.loop.done, self._policy(), self.lines.rows
        )

    def _close(self) -> None:
        self.lines.close()
        if self._board is not None:
            self._board.close()

    def _keep(self, broken: BreakdownError, steps: int) -> BreakdownError:
        if self._words is None:
            return broken
        return self._words.broken(broken, steps, self._saved_step)


def _tell(callbacks: Sequence[Callback], update: Update) -> bool:
    """Whether every callback, all of which are asked, wants the run to go on."""
    if "eval/episodes" in update.row:
        for callback in callbacks:
            callback.on_evaluation(update)
    answers = [callback.on_update(update) for callback in callbacks]
    return all(answer is not False for answer in answers)
