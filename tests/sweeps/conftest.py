"""What the tests share that start processes."""

import os

import pytest


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A compilation cache of their own for these processes, so that only the first compiles."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="session")
def calm_sweep(environment, tmp_path_factory):
    """The fingerprints of the small sweep that nothing has disturbed."""
    from sweeps import sweep_runs

    folder = tmp_path_factory.mktemp("calm")
    file = sweep_runs.write(folder)
    sweep_runs.finish(file, folder / "runs", environment)
    return sweep_runs.fingerprints(file, folder / "runs")
