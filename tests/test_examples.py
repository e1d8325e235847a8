"""The scripts in examples/ run from the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("torch")

FOLDER = Path(__file__).parents[1] / "examples"
FEWER = {"ppo_taylor.py": "--num-envs 2 --num-steps 64 --steps 1280 --weight-order 10 --order inf"}
"""Arguments that make a script short."""


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(path.name for path in FOLDER.glob("*.py")))
def test_script__runs_and_prints_numbers(script, tmp_path):
    words = [sys.executable, str(FOLDER / script), *FEWER.get(script, "").split()]
    # Networks are tiny: threads would only wait for each other.
    settings = {"env": {**os.environ, "OMP_NUM_THREADS": "1"}, "cwd": tmp_path, "timeout": 300}
    done = subprocess.run(words, capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, done.stderr
    assert any(letter.isdigit() for letter in done.stdout)
