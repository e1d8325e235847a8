"""Pools that train nothing: runs end as they are told to."""

import hashlib

from gammaprime.runs.directory import METRICS, finish_training, to_json
from gammaprime.sweeps.local import DONE


class FakePool:
    """Runs that end as they are told to, after one round."""

    def __init__(self, size, endings=()):
        self.size = size
        self.endings = list(endings)
        self.started, self.running, self.most = [], [], 0
        self.stopped = self.killed = False

    def start(self, job):
        assert job not in self.running
        self.started.append(job)
        self.running.append(job)
        self.most = max(self.most, len(self.running))

    def ended(self):
        found = []
        for job in list(self.running):
            ending = self.endings.pop(0) if self.endings else DONE
            if callable(ending):
                ending = ending(job)
            if ending is None:
                continue
            if ending == DONE:
                finish(job)
            self.running.remove(job)
            found.append((job, ending, f"code {ending}"))
        return found

    def stop(self):
        self.stopped = True

    def kill(self):
        self.killed = True

    def close(self):
        pass


class Stopping(FakePool):
    """Meets a signal, and ends only then, with these codes."""

    def __init__(self, size, interrupts, codes):
        super().__init__(size)
        self.interrupts, self.codes = interrupts, codes

    def ended(self):
        self.interrupts.asked = 15
        if not self.stopped:
            return []
        jobs, self.running = self.running, []
        return [(job, code, f"code {code}") for job, code in zip(jobs, self.codes, strict=True)]


def finish(job):
    job.path.mkdir(parents=True, exist_ok=True)
    table = job.config.to_table()
    (job.path / "config.json").write_bytes(to_json(table))
    (job.path / METRICS).write_bytes(b"")
    finish_training(job.path, table, hashlib.sha256(b"").hexdigest(), 0.0)
