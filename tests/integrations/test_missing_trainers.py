"""Importing an adapter needs its trainer, and says how to install it where it is missing."""

import subprocess
import sys

import pytest

ADAPTERS = {
    "sb3": "stable_baselines3",
    "contrib": "sb3_contrib",
    "torchrl": "torchrl",
    "tianshou": "tianshou",
    "rllib": "ray.rllib",
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_missing_trainer__answers_with_the_line_that_installs_it(name):
    if name == "contrib":
        pytest.importorskip("stable_baselines3")
    source = f"import sys; sys.modules[{ADAPTERS[name]!r}] = None; "
    source += f"import gammaprime.integrations.{name}"
    run = [sys.executable, "-W", "ignore", "-c", source]
    last = subprocess.run(run, capture_output=True, text=True).stderr.strip().splitlines()[-1]
    assert last.startswith(("ImportError", "ModuleNotFoundError"))
    assert last.endswith(f"pip install 'gammaprime[{name}]'")
