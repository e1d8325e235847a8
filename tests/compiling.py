"""How tests compile that run a program a few times only."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_compile():
    """For every test of a module that imports it: compile for a short life."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
