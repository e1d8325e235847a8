"""Runs one contest in this process: ``python -m benchmarks.worker NAME REPEATS FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks import harness
from benchmarks.registry import CONTESTS


def main(name: str, repeats: str, file: str) -> None:
    result = harness.run(CONTESTS[name], int(repeats))
    Path(file).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
