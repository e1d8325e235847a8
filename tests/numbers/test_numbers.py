"""Trainings end with the numbers they always ended with: published runs stay valid.

On the processor and versions they were written down with, bit for bit.  Elsewhere sums may be
rounded otherwise, so there the second update's numbers are compared, which have not drifted far.
Except on PyBullet, whose contacts turn a rounding into another path within one rollout.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("cases.py")
EXPECTED = json.loads(PROGRAM.with_name("expected.json").read_text())


# One test for all cases: each process that trains them takes more than a minute.
def test_every_training_ends_as_it_always_did():
    output = subprocess.run([sys.executable, PROGRAM], check=True, capture_output=True, text=True)
    found = json.loads(output.stdout)
    second = {name: run["second_update"] for name, run in found["runs"].items()}
    assert set(second) == set(EXPECTED["runs"])
    for name, numbers in second.items():
        if "bullet" in name:
            continue
        expected = EXPECTED["runs"][name]["second_update"]
        assert numbers == pytest.approx(expected, rel=1e-2, abs=1e-3), name
    if found["machine"] == EXPECTED["machine"]:
        hashes = {name: run["sha256"] for name, run in found["runs"].items()}
        assert hashes == {name: run["sha256"] for name, run in EXPECTED["runs"].items()}
