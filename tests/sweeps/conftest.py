"""What the tests share that start processes."""

import pytest


@pytest.fixture(scope="session")
def calm_sweep(environment, tmp_path_factory):
    """The fingerprints of the small sweep that nothing has disturbed."""
    from sweeps import sweep_runs

    folder = tmp_path_factory.mktemp("calm")
    file = sweep_runs.write(folder)
    sweep_runs.finish(file, folder / "runs", environment)
    return sweep_runs.fingerprints(file, folder / "runs")
