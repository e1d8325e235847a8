"""JAX and optax, imported when they are first used.

Settings, run names and stored policies need neither, so importing an agent costs milliseconds:

    from gammaprime.lazy import jax, jit, jnp
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class LazyModule:
    """Stand-in for a module that is imported at the first use of one of its names.

    Not `importlib.util.LazyLoader`: that enters ``sys.modules`` at once, where other packages
    take it as a sign that JAX is in use.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        contents = vars(self._load())
        if name not in contents:
            raise AttributeError(f"{contents['__name__']} has no attribute {name!r}")
        vars(self)[name] = contents[name]
        return contents[name]


def _load_jax() -> Any:
    import jax
    import jax.flatten_util

    return jax


def _load_numpy() -> Any:
    import jax.numpy

    return jax.numpy


def _load_optax() -> Any:
    import optax

    return optax


jax: Any = LazyModule(_load_jax)
jnp: Any = LazyModule(_load_numpy)
optax: Any = LazyModule(_load_optax)


def jit(*, static_argnames: tuple[str, ...]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function with `jax.jit` at its first call."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.cache
        def compiled() -> Any:
            return jax.jit(function, static_argnames=static_argnames)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return compiled()(*args, **kwargs)

        return call

    return decorate
