"""Importing an adapter needs its trainer, says how to install a missing one, and needs no JAX."""

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


PACKAGES = {"sb3": "stable_baselines3", "contrib": "sb3_contrib", "torchrl": "torchrl"}
PACKAGES |= {"tianshou": "tianshou", "rllib": "ray"}


@pytest.mark.parametrize("name", PACKAGES)
def test_version_outside_the_tested_range__is_a_warning_when_the_adapter_is_imported(name):
    pytest.importorskip(ADAPTERS[name], exc_type=ImportError)
    source = f"""
import importlib.metadata, warnings
version = importlib.metadata.version
importlib.metadata.version = lambda name: "99.0" if name == {PACKAGES[name]!r} else version(name)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import gammaprime.integrations.{name}
print(*(w.message for w in caught), sep="\\n")
"""
    told = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True).stdout
    start = f"{PACKAGES[name]} 99.0: gammaprime.integrations is tested with "
    assert any(line.startswith(start) for line in told.splitlines()), told


WITHOUT_JAX = {"sb3": "stable_baselines3", "contrib": "sb3_contrib", "torchrl": "torchrl"}
WITHOUT_JAX |= {"arrays": "numpy", "export": "torch"}


@pytest.mark.parametrize("name", WITHOUT_JAX)
def test_import__needs_no_jax(name):
    pytest.importorskip(WITHOUT_JAX[name])
    source = f"import gammaprime.integrations.{name}, sys; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", source], check=True)
