"""Threads that share the rows of an environment.

Each thread takes the next row that nobody has taken.  A thread that wakes late therefore finds
less to do, and nobody waits for it: the caller goes on when the last row is done.  A row is stepped
by one thread alone, so its numbers do not depend on how many there are.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from threading import Thread

from gammaprime.types import check_count

Work = Callable[[Iterable[int]], None]
"""Does something for each of the rows that it is given."""
Rows = deque[int]
Finished = SimpleQueue[BaseException | None]
Rounds = SimpleQueue[tuple[Work, Rows, Finished] | None]


class Threads:
    """The calling thread and ``threads`` − 1 others, which sleep between two rounds.

    They gain where the work releases Python's lock, as ``mj_step`` does.
    """

    def __init__(self, threads: int, num_envs: int) -> None:
        self.num_envs = num_envs
        self._num_helpers = check_threads(threads, num_envs) - 1
        self._rounds: Rounds = SimpleQueue()
        for _ in range(self._num_helpers):
            Thread(target=_help, args=(self._rounds,), daemon=True).start()
        self._finalizer = weakref.finalize(self, _dismiss, self._rounds, self._num_helpers)

    def run(self, work: Work) -> None:
        """Call ``work`` with the rows; return when all are done, or raise what one has raised."""
        if not self._num_helpers:
            work(range(self.num_envs))
            return
        rows: Rows = deque(range(self.num_envs))
        finished: Finished = SimpleQueue()
        for _ in range(self._num_helpers):
            self._rounds.put((work, rows, finished))
        _take_part(work, rows, finished)
        errors = [finished.get() for _ in range(self.num_envs)]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """End the threads."""
        self._finalizer()


def check_threads(threads: int, num_envs: int) -> int:
    """Return the number of threads, if each can have a row."""
    if check_count("threads", threads) > num_envs:
        raise ValueError(
            f"threads={threads!r}: must be at most num_envs={num_envs}; "
            f"a thread steps whole rows, so {threads - num_envs} would idle"
        )
    return int(threads)


def _help(rounds: Rounds) -> None:
    while (job := rounds.get()) is not None:
        _take_part(*job)
        del job  # it holds the environment, which could not be freed before the next round


def _take_part(work: Work, rows: Rows, finished: Finished) -> None:
    """Work on rows until none is left; whoever fails gives up the rest, so that the round ends."""
    try:
        work(_take(rows, finished))
    except BaseException as error:
        finished.put(error)
        for _ in _take(rows, finished):
            pass


def _take(rows: Rows, finished: Finished) -> Iterator[int]:
    """Yield rows that nobody has taken, and report each when the next is asked for."""
    while True:
        try:
            row = rows.popleft()
        except IndexError:
            return
        yield row
        finished.put(None)


def _dismiss(rounds: Rounds, num_helpers: int) -> None:
    for _ in range(num_helpers):
        rounds.put(None)
