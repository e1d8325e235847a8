"""docs/errata.md is whole: ids are unique, named tests exist, and nothing cites a missing row."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from paper_tool import make_map

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([SPT]\d+) \|(.*)\|$", re.MULTILINE)
SHOWN_BY = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
TO_COME = {"later: agents"}


def rows(text):
    """(id, last cell) of every row of the page's tables."""
    return [(row[1], re.split(r"(?<!\\)\|", row[2])[-1].strip()) for row in ROW.finditer(text)]


def unshown(entries):
    """S rows that name neither a test nor a room to come."""
    return [
        key
        for key, shown in entries
        if key[0] == "S" and not SHOWN_BY.search(shown) and shown not in TO_COME
    ]


def names_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


PAGE = (ROOT / "docs/errata.md").read_text(encoding="utf-8")
ENTRIES = rows(PAGE)


@pytest.mark.parametrize(("letter", "count"), [("S", 22), ("P", 17), ("T", 14)])
def test_ids__are_numbered_without_gaps_or_repeats(letter, count):
    found = [key for key, _ in ENTRIES if key[0] == letter]
    assert found == [f"{letter}{n}" for n in range(1, count + 1)]


def test_errata_that_matter__are_shown_by_a_test_or_wait_for_their_room():
    assert unshown(ENTRIES) == []


def test_named_tests__exist_and_carry_the_mark_of_their_row():
    marks = {(site.path, site.name, site.key) for site in make_map.tests()}
    for key, shown in ENTRIES:
        for path, name in SHOWN_BY.findall(shown):
            assert (ROOT / path).exists(), f"{key}: no file {path}"
            assert name in names_in(path), f"{key}: no {name} in {path}"
            assert (path, name, key) in marks, f"{path}::{name} lacks pytest.mark.errata({key!r})"


def test_departures_and_marks__name_rows_that_exist():
    known = {key for key, _ in ENTRIES}
    cited = [*make_map.functions(), *make_map.tests()]
    assert [s for s in cited if make_map.ERRATUM.fullmatch(s.key) and s.key not in known] == []


def test_rows__are_read_as_written():
    page = "| S1 | a \\| b | `tests/a.py::test_a` |\ntext | S2 |\n| S3 | x | later: agents |\n"
    page += "| S4 | x | soon |\n| S4 | x | wording |\n"
    entries = rows(page)
    assert entries[0] == ("S1", "`tests/a.py::test_a`")
    assert Counter(key for key, _ in entries) == {"S1": 1, "S3": 1, "S4": 2}
    assert unshown(entries) == ["S4", "S4"]
