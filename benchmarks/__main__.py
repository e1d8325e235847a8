"""``python -m benchmarks [WORD ...]``: run the contests whose name holds one of the words."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.harness import MINIMUM_REPEATS, MISSED, ONE_THREAD, REPEATS
from benchmarks.registry import CONTESTS


def main(arguments: list[str] | None = None) -> int:
    """Run, print and store; 1 if a contest crashed or, when strict, a limit was missed."""
    options = _parse(arguments)
    if find_spec("threadpoolctl") is None:
        sys.exit("threads are counted with threadpoolctl: pip install threadpoolctl")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.names:
        result = run_apart(name, options.repeats, options.out / f"{name}.json")
        print(f"{name}: crashed\n" if result is None else table(result), flush=True)
        if result is None or (options.strict and missed(result)):
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def run_apart(name: str, repeats: int, file: Path) -> dict[str, Any] | None:
    """The result of a contest in a process of its own, also left in the file; None: crashed."""
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.worker", name, str(repeats), str(file)]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, check=False)
    return json.loads(file.read_text()) if done.returncode == 0 else None


def missed(result: dict[str, Any]) -> bool:
    return any(outcome["verdict"] == MISSED for outcome in result["outcomes"])


def table(result: dict[str, Any]) -> str:
    """The result for people: who took how long, then each limit and whether it is met."""
    load = f"load {result['load_before'][0]:.1f} -> {result['load_after'][0]:.1f}"
    share = f"{result['processor_share']:.0%} of the core"
    lines = [
        f"{result['contest']}: {result['claim']}",
        f"  {result['repeats']} repetitions, {load}, {share}",
    ]
    for name, contender in result["contenders"].items():
        time = contender.get("skipped") or f"{contender['median_seconds'] * 1e3:10.3f} ms"
        lines.append(f"  {name:34}{time}")
    lines += [
        f"  {outcome['quantity']:34}{_figures(outcome)}{outcome['verdict']}"
        for outcome in result["outcomes"]
    ]
    return "\n".join(lines) + "\n"


def _figures(outcome: dict[str, Any]) -> str:
    limit = f"limit {outcome['limit']:<10.4g}"
    if "median" not in outcome:
        return limit
    interval = f"[{outcome['low']:.3g}, {outcome['high']:.3g}]"
    return f"{outcome['median']:10.3g}  {interval:22}{limit}"


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names of contests; none means all")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="rounds of each contest")
    parser.add_argument("--out", type=Path, default=Path("results/runs/bench"), help="folder")
    parser.add_argument("--strict", action="store_true", help="a missed limit is a failure")
    options = parser.parse_args(arguments)
    if options.repeats < MINIMUM_REPEATS:
        parser.error(f"--repeats {options.repeats}: must be at least {MINIMUM_REPEATS}")
    for word in options.words:
        if not any(word in name for name in CONTESTS):
            parser.error(f"no contest is called {word!r}; there are {', '.join(CONTESTS)}")
    words = options.words or [""]
    options.names = [name for name in CONTESTS if any(word in name for word in words)]
    return options


if __name__ == "__main__":
    sys.exit(main())
