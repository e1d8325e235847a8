"""Tests of adapters are collected where their trainers are installed."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [
    tests
    for package, tests in (
        ("stable_baselines3", "test_sb3_*.py"),
        ("torch", "test_arrays.py"),
        ("torchrl", "test_torchrl*.py"),
        ("tianshou", "test_tianshou*.py"),
        ("pyarrow", "test_rllib*.py"),  # Ray alone does without it
    )
    if find_spec(package) is None
]


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Networks are tiny: threads would only wait for each other."""
    import torch

    torch.set_num_threads(1)
