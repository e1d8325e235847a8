"""Seeds and random generators of the rows, as plain integers and plain arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WORDS = 6
"""A PCG64 generator in 64-bit words: state (2), increment (2), has_uint32, uinteger."""
_LOW = (1 << 64) - 1


def spawn_seeds(seed: int, num_envs: int) -> list[int]:
    """One integer for each row, spawned: ``seed + i`` would share rows between runs."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0 or isinstance(seed, bool):
        raise ValueError(f"seed={seed!r}: must be an integer >= 0")
    children = np.random.SeedSequence(number).spawn(num_envs)
    return [int(child.generate_state(1)[0]) for child in children]


def later_seed(seed: int, episode: int) -> int:
    """The seed of a row that starts over in its k-th episode: new, yet reproducible."""
    return int(np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(1)[0])


def make_generator(seed: int) -> np.random.Generator:
    """The generator that ``gymnasium.Env.reset(seed=seed)`` makes."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def pack_generators(generators: Sequence[np.random.Generator]) -> NDArray[np.uint64]:
    """The states of PCG64 generators.  Shapes: N generators -> (N, WORDS)."""
    rows = []
    for generator in generators:
        state = generator.bit_generator.state
        if state["bit_generator"] != "PCG64":
            raise ValueError(f"generator {state['bit_generator']}: must be PCG64")
        words = [half for part in ("state", "inc") for half in _halves(state["state"][part])]
        rows.append([*words, state["has_uint32"], state["uinteger"]])
    return np.array(rows, np.uint64).reshape(len(rows), WORDS)


def unpack_generator(words: NDArray[np.generic]) -> np.random.Generator:
    """The generator of one packed row.  Shapes: (WORDS,) -> a generator."""
    state_low, state_high, inc_low, inc_high, has_uint32, uinteger = (int(w) for w in words)
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {
            "state": state_high << 64 | state_low,
            "inc": inc_high << 64 | inc_low,
        },
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    return generator


def _halves(number: int) -> tuple[int, int]:
    return number & _LOW, number >> 64
