"""Trainings end with the numbers they always ended with: published runs stay valid.

On the processor and versions they were written down with, bit for bit.  Elsewhere sums may be
rounded otherwise, so there the second update's numbers are compared, which have not drifted far.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("cases.py")
EXPECTED = json.loads(PROGRAM.with_name("expected.json").read_text())


@pytest.fixture(scope="module")
def found():
    output = subprocess.run([sys.executable, PROGRAM], check=True, capture_output=True, text=True)
    return json.loads(output.stdout)


@pytest.mark.parametrize("name", sorted(EXPECTED["runs"]))
def test_a_training_ends_as_it_always_did(found, name):
    expected, now = EXPECTED["runs"][name], found["runs"][name]
    assert now["second_update"] == pytest.approx(expected["second_update"], rel=1e-2, abs=1e-3)
    if found["machine"] == EXPECTED["machine"]:
        assert now["sha256"] == expected["sha256"]


def test_every_case_is_written_down(found):
    assert set(found["runs"]) == set(EXPECTED["runs"])
