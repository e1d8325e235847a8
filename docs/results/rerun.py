"""Make published runs again from their configurations, and compare every episode.

    python docs/results/rerun.py results/published/runs/NAME ...

Exits with 1 if an episode differs, and says from which step on.  Expect the same episodes with the
versions and the processor in the run's manifest.json.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import Any

import gammaprime as gp
from gammaprime.runs.directory import read_lines
from gammaprime.runs.metrics import STEPS, parse_rows
from gammaprime.sweeps.publish import DIGITS, pack


def rerun(published: Path, folder: Path) -> int | None:
    """Train a published run once more in a folder; return the step of the first difference."""
    folder.mkdir(parents=True)
    shutil.copy(published / "config.json", folder)
    again = pack(gp.resume(folder, tensorboard=False).rows)
    return first_difference(read_lines(published), again)


def first_difference(stored: bytes, again: bytes) -> int | None:
    """Return the step of the first line of metrics that is not in both; None if all are."""
    old, new = (parse_rows(content, Path("metrics")) for content in (stored, again))
    for x, y in zip_longest(old, new):
        if not same(x, y):
            return int((y if x is None else x)[STEPS])
    return None


def same(x: Any, y: Any) -> bool:
    """Return whether two JSON values are the same, but for the last published digit of numbers.

    The first runs were rounded twice, which may move that digit by one.
    """
    if isinstance(x, float) and isinstance(y, float):
        return math.isclose(x, y, rel_tol=1.001 * 10 ** (1 - DIGITS))
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(same(x[key], y[key]) for key in x)
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(same, x, y))
    return bool(x == y)


def main() -> int:
    """Rerun every run that is named."""
    parser = argparse.ArgumentParser(description="Make published runs again and compare them.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    differ = 0
    for published in parser.parse_args().runs:
        with tempfile.TemporaryDirectory() as folder:
            step = rerun(published, Path(folder) / published.name)
        found = "the same episodes" if step is None else f"other episodes from step {step:,} on"
        print(f"{published.name}: {found}", flush=True)
        differ |= step is not None
    return differ


if __name__ == "__main__":
    sys.exit(main())
