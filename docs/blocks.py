"""Pages of the documentation with generated blocks.

A page is prose around blocks between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path


def render(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with its blocks replaced; each must be there once."""
    for name, text in blocks.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{name}: must have one begin and one end in the page")
        pattern = re.compile(f"{begin}\n.*?{end}", re.DOTALL)
        page = pattern.sub(lambda _, new=f"{begin}\n{text}\n{end}": new, page)
    return page


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(
    command: str,
    make_blocks: Callable[[], Mapping[Path, Mapping[str, str]]],
    draw: Callable[[], object] = lambda: None,
) -> int:
    """Write the blocks of each page and draw; or, with --check, exit with 1 if some are stale."""
    parser = argparse.ArgumentParser(description="Write the generated blocks of pages.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    check = parser.parse_args().check
    stale = 0
    for page, made in make_blocks().items():
        before = page.read_text(encoding="utf-8")
        after = render(before, made)
        if not check:
            page.write_text(after, encoding="utf-8")
        elif after != before:
            print(f"{page.name} is stale: run `{command}`", file=sys.stderr)
            stale = 1
    if not check:
        draw()
    return stale
