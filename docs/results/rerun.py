"""Make published runs again from their configurations, and compare every episode.

    python docs/results/rerun.py results/published/runs/NAME ...

Exits with 1 if an episode differs, and says from which step on.  Expect the same episodes with the
versions and the processor in the run's manifest.json.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import gammaprime as gp
from gammaprime.runs.directory import read_lines
from gammaprime.runs.metrics import STEPS, parse_rows
from gammaprime.sweeps.publish import pack


def rerun(published: Path, folder: Path) -> int | None:
    """Train a published run once more in a folder; return the step of the first difference."""
    folder.mkdir(parents=True)
    shutil.copy(published / "config.json", folder)
    again = pack(gp.resume(folder, tensorboard=False).rows)
    return first_difference(read_lines(published), again)


def first_difference(stored: bytes, again: bytes) -> int | None:
    """Return the step of the first line of metrics that is not in both; None if all are."""
    old, new = (parse_rows(content, Path("metrics")) for content in (stored, again))
    for i in range(max(len(old), len(new))):
        if old[i : i + 1] != new[i : i + 1]:
            return int((old[i:] or new[i:])[0][STEPS])
    return None


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
