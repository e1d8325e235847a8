"""Fixed seeds for every test: property tests are derandomised, generators are made here.

And programs that are run a few times only may be compiled quickly.
"""

import os

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def rng():
    return np.random.default_rng(20210718)


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A compilation cache of their own for processes of tests, so that only the first compiles."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="module")
def quick_compile():
    """Compile for a short life: most tests run a program a few times only."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
