"""Pools that train nothing: attempts end as they are told to."""

from pathlib import Path

from gammaprime.runs.files import to_json
from gammaprime.sweeps.pool import Outcome
from gammaprime.sweeps.worker import DONE


class FakePool:
    """Attempts that end as they are told to, after one round."""

    def __init__(self, size, endings=()):
        self.size = size
        self.endings = list(endings)
        self.started, self.running, self.most = [], {}, 0
        self.stopped = self.killed = False

    def start(self, order):
        assert order.name not in self.running
        self.started.append(order)
        self.running[order.name] = order
        self.most = max(self.most, len(self.running))

    def ended(self):
        outcomes = []
        for order in list(self.running.values()):
            ending = self.endings.pop(0) if self.endings else DONE
            if callable(ending):
                ending = ending(order)
            if ending is None:
                continue
            if ending == DONE:
                finish(order)
            del self.running[order.name]
            outcomes.append(Outcome(order.name, ending, f"code {ending}"))
        return outcomes

    def progress(self):
        return {name: {"steps": 10, "total": 100, "fps": 5.0} for name in self.running}

    def stop(self):
        self.stopped = True

    def kill(self):
        self.killed = True


class Stopping(FakePool):
    """Meets a signal, and ends only then, with these codes."""

    def __init__(self, size, interrupts, codes):
        super().__init__(size)
        self.interrupts, self.codes = interrupts, codes

    def ended(self):
        self.interrupts.asked = 15
        if not self.stopped:
            return []
        names = list(self.running)
        self.running.clear()
        return [Outcome(n, c, f"code {c}") for n, c in zip(names, self.codes, strict=True)]


def finish(order):
    path = Path(order.path)
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_bytes(to_json(order.config))
    (path / "done").write_text("{}")
