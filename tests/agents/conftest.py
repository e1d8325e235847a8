"""What the tests of agents share."""

import jax
import pytest


@pytest.fixture(scope="module")
def quick_compile():
    """Compile for a short life: most of these tests run a program a few times only."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
