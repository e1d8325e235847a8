"""On a node without the results folder: no old lease blocks a run, and no cut loses its files."""

import json
import sys

import pytest

from gammaprime.runs import lease, store
from gammaprime.runs.files import to_json
from gammaprime.sweeps import node, pool
from gammaprime.sweeps.worker import DONE, Order

CONFIG = {"kind": "train", "settings": {"seed": 0}}
FILES = {
    "checkpoints/000000000096.json": b"{}\n",
    "checkpoints/000000000096.safetensors": b"state",
    "config.json": to_json(CONFIG),
    "done": b"{}\n",
    "manifest.json": b"{}\n",
    "metrics.jsonl": b"{}\n",
    "policy.npz": b"policy",
    "tensorboard/events": b"events",
}
TRAIN = """
import sys
from pathlib import Path
from gammaprime.runs import lease
from gammaprime.sweeps.worker import Order
order = Order.from_line(sys.stdin.buffer.readline())
held = lease.take(Path(order.path), order.stale)
held.beat({"steps": 7})
Path(order.path, "done").write_text("trained here")
sys.stdin.buffer.read(1)
"""


@pytest.mark.parametrize("written", range(len(FILES) + 1))
def test_files_that_come_home__are_a_run_wherever_that_is_cut(tmp_path, monkeypatch, written):
    whole, left = node.write_whole, [*range(written)]

    def write(path, content):
        if not left:
            raise OSError("no space left on device")
        left.pop()
        whole(path, content)

    monkeypatch.setattr(node, "write_whole", write)
    path = tmp_path / "run"
    if written < len(FILES):
        with pytest.raises(OSError, match="no space"):
            node.bring_home(path, FILES)
    else:
        node.bring_home(path, FILES)
        assert node.pack(path) == FILES
    assert store.is_done(path, CONFIG) == (written == len(FILES))
    states = {file.stem for file in path.glob("checkpoints/*.json")}
    assert states <= {file.stem for file in path.glob("checkpoints/*.safetensors")}
    assert not states or (path / "metrics.jsonl").is_file()


def test_lease_that_a_lost_task_left_on_a_node__blocks_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-c", TRAIN))
    monkeypatch.setattr(node, "POLL", 0.02)
    scratch = tmp_path / "sweep/run"
    scratch.mkdir(parents=True)
    # Of this machine before it was started anew: not known to be dead, and watched by nobody.
    before = {"machine": "this one, earlier", "pid": 1, "started": "1", "beat": 4}
    (scratch / ".lease-000003").write_text(json.dumps(before))
    home, told, workers = tmp_path / "home", [], []

    class Kept(pool.Worker):
        def __init__(self, order):
            super().__init__(order)
            workers.append(self)

    def tell(progress):
        told.append(progress)
        workers[0].process.stdin.close()

    monkeypatch.setattr(node, "Worker", Kept)
    report = node.look_after(Order("run", str(home), CONFIG), str(scratch), tell)
    assert report == (DONE, "ended with exit code 0", {"done": b"trained here"}, "")
    assert told == [{"steps": 7}]
    assert lease.read(scratch).number == 4
    assert not home.exists()


def test_run_on_a_node__stays_there_until_it_is_tidied(tmp_path):
    for name in ("first", "second"):
        node.bring_home(tmp_path / "sweep" / name, FILES)
    node.tidy(str(tmp_path / "sweep/first"))
    assert [folder.name for folder in (tmp_path / "sweep").iterdir()] == ["second"]
    node.tidy(str(tmp_path / "sweep/second"))
    assert not (tmp_path / "sweep").exists()
