"""The state of a loop as named arrays and back, and the guard against numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from gammaprime.loops.rollout import BreakdownError

Arrays = dict[str, np.ndarray]
Tree = TypeVar("Tree")


def name_leaves(tree: Any) -> Arrays:
    """Every leaf of a state, under the path that leads to it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def put_leaves(tree: Tree, arrays: Mapping[str, np.ndarray]) -> Tree:
    """The tree with these leaves, if names, shapes and types are its own."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise ValueError(f"checkpoint and agent differ in {odd[0]!r}")
    put = []
    for name, (_, leaf) in zip(names, leaves, strict=True):
        old, new = np.asarray(leaf), arrays[name]
        if old.shape != new.shape or old.dtype != new.dtype:
            raise ValueError(
                f"checkpoint holds {name} as {new.dtype}{new.shape}: must be {old.dtype}{old.shape}"
            )
        put.append(type(leaf)(new) if isinstance(leaf, int) else new)
    return jax.tree_util.tree_unflatten(structure, put)


def join_parts(parts: Mapping[str, Mapping[str, np.ndarray]]) -> Arrays:
    """One flat dict of the arrays of several parts: part/name."""
    return {f"{part}/{name}": x for part, arrays in parts.items() for name, x in arrays.items()}


def take_part(snapshot: Mapping[str, np.ndarray], part: str) -> Arrays:
    """The arrays of one part of what `join_parts` gave."""
    prefix = f"{part}/"
    return {k.removeprefix(prefix): x for k, x in snapshot.items() if k.startswith(prefix)}


def check_update(metrics: Mapping[str, float], state: Any, learned_from: Arrays) -> None:
    """Stop at the first metric or parameter that is no number."""
    odd = [name for name, value in metrics.items() if not math.isfinite(value)]
    # Named only when there is something to say: names take longer than the check itself.
    if not (odd or all(np.isfinite(x).all() for x in jax.tree.leaves(state))):
        leaves = name_leaves(state)
        odd = [f"state{name}" for name, x in leaves.items() if not np.isfinite(x).all()]
    if odd:
        raise BreakdownError(f"{odd[0]} is not finite after the update", learned_from)
