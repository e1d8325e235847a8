"""The executable paper is whole: every label has what its status promises, and the map shows it."""

import ast
import re
from pathlib import Path

import pytest

from paper_tool import make_map

ROOT = Path(__file__).resolve().parents[2]
THEORY = ROOT / "docs/theory.md"
STATUSES = {"implement", "test", "cite", "later"}
KINDS = {
    "algo": "algorithm",
    "appendix": "appendix",
    "eq": "equation",
    "fig": "figure",
    "lemma": "lemma",
    "pro": "proposition",
    "prop": "proposition",
    "sec": "section",
    "table": "table",
}
BUILT = {"tabular", "estimators", "experiments", "agents", "envs", "losses", "figures"}
TO_COME = {"integrations"}
LABELS = make_map.load_labels()


def is_label(key):
    return ":" in key


def missing_functions(labels, functions):
    """Labels that promise a function in their room, and none there cites them."""
    cited = {(site.key, make_map.room_of(site.path)) for site in functions}
    return [
        label
        for label, row in labels.items()
        if row["status"] == "implement" and (label, row["room"]) not in cited
    ]


def missing_tests(labels, tests):
    """Labels that promise a test, and none states them."""
    stated = {site.key for site in tests}
    promised = [key for key, row in labels.items() if row["status"] in {"implement", "test"}]
    return [label for label in promised if label not in stated]


def test_labels__say_kind_title_status_and_room():
    for label, row in LABELS.items():
        prefix = label.split(":")[0]
        assert set(row) <= {"kind", "title", "status", "room"}, label
        assert prefix == "x" or KINDS[prefix] == row["kind"], label
        assert row["kind"] in KINDS.values(), label
        assert row["title"].strip() == row["title"] != "", label
        assert row["status"] in STATUSES, label


def test_labels__are_built_in_a_room_that_stands_or_later_in_one_that_will():
    rooms = {"implement": BUILT, "later": TO_COME}
    wrong = {
        label: row.get("room")
        for label, row in LABELS.items()
        if row.get("room") not in rooms.get(row["status"], {None})
    }
    assert wrong == {}


def test_citations__name_labels_that_exist():
    sites = [*make_map.functions(), *make_map.tests()]
    unknown = [site for site in sites if is_label(site.key) and site.key not in LABELS]
    assert unknown == []


def test_pages__name_labels_that_exist():
    for page in sorted((ROOT / "docs").glob("*.md")):
        named = re.findall(rf"`({make_map.LABEL.pattern})`", page.read_text(encoding="utf-8"))
        assert set(named) <= set(LABELS), page.name


def test_labels_to_implement__are_cited_by_a_function_of_their_room():
    assert missing_functions(LABELS, make_map.functions()) == []


def test_labels_to_implement_or_test__are_stated_by_a_test():
    assert missing_tests(LABELS, make_map.tests()) == []


def test_map__is_up_to_date():
    fresh = make_map.render(LABELS, make_map.functions(), make_map.tests())
    stale = not make_map.MAP.exists() or make_map.MAP.read_text(encoding="utf-8") != fresh
    assert not stale, f"docs/paper/map.md is stale: run `{make_map.COMMAND}`"


def public_names(room):
    tree = ast.parse((ROOT / f"src/gammaprime/{room}/__init__.py").read_text(encoding="utf-8"))
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    ]
    return set(ast.literal_eval(values[0]))


def test_theory_page__names_functions_that_are_public():
    named = re.findall(r"`(tabular|estimators)\.(\w+)`", THEORY.read_text(encoding="utf-8"))
    for room in ("tabular", "estimators"):
        assert {name for where, name in named if where == room} <= public_names(room)


DOCUMENTED = '''
"""Module.  Paper: sec:intro."""
class Box:
    """Holds things.

    Paper: eq:pg; with γ = 1, ∇ of eq:rl-obj,
        x:rho-at-one.  Departs: S6 (W of the next state: P11), T2.
    Shapes: eq:not-cited (X,) -> (X,).

    eq:prose is no citation either.
    """
    def method(self):
        """Paper: algo:k-adv."""
'''


def test_docstring_sites__read_the_lines_that_cite_and_no_others():
    sites = {(site.key, site.name) for site in make_map.docstring_sites(DOCUMENTED, "a.py")}
    in_box = {"eq:pg", "eq:rl-obj", "x:rho-at-one", "S6", "P11", "T2"}
    assert sites == {
        ("sec:intro", ""),
        *((key, "Box") for key in in_box),
        ("algo:k-adv", "Box.method"),
    }


MARKED = """
import pytest
pytestmark = [pytest.mark.slow, pytest.mark.paper("sec:intro")]
@pytest.mark.paper("eq:pg", "eq:rl-obj")
@pytest.mark.errata("S6")
def test_one(): ...
@pytest.mark.parametrize("k", [pytest.param(1, marks=pytest.mark.paper("prop:dual"))])
def test_two(k): ...
@pytest.mark.paper("eq:whole-class")
class TestBox:
    @pytest.mark.paper("eq:method")
    def test_three(self): ...
@other.paper("eq:no-mark")
def test_four(): ...
"""


def test_mark_sites__read_marks_on_tests_classes_parameters_and_modules():
    sites = {(site.key, site.name) for site in make_map.mark_sites(MARKED, "a.py")}
    assert sites == {
        ("sec:intro", ""),
        ("eq:pg", "test_one"),
        ("eq:rl-obj", "test_one"),
        ("S6", "test_one"),
        ("prop:dual", "test_two"),
        ("eq:whole-class", "TestBox"),
        ("eq:method", "TestBox.test_three"),
    }


def test_mark_sites__refuse_labels_that_are_not_written_out():
    with pytest.raises(ValueError, match="literal"):
        make_map.mark_sites("@pytest.mark.paper(LABEL)\ndef test_one(): ...", "a.py")


def test_gaps__are_found():
    labels = {
        "eq:done": {"status": "implement", "room": "tabular"},
        "eq:bare": {"status": "implement", "room": "tabular"},
        "eq:elsewhere": {"status": "implement", "room": "estimators"},
        "eq:tested": {"status": "test"},
        "eq:later": {"status": "later", "room": "agents"},
    }
    path = "src/gammaprime/tabular/values.py"
    functions = [make_map.Site(key, path, "f") for key in ("eq:done", "eq:elsewhere")]
    tests = [make_map.Site("eq:done", "tests/test_a.py", "test_a")]
    assert missing_functions(labels, functions) == ["eq:bare", "eq:elsewhere"]
    assert missing_tests(labels, tests) == ["eq:bare", "eq:elsewhere", "eq:tested"]
