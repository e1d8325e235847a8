"""Tests of adapters are collected where their trainers are installed."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("stable_baselines3") else ["test_sb3_*.py", "test_arrays.py"]


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Networks are tiny: threads would only wait for each other."""
    import torch

    torch.set_num_threads(1)
