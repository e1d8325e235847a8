"""The report in a real browser, at the width of a desk and of a phone, in light and dark."""

import pytest

from figures import browser, fake_runs
from figures.test_report import contrast, level, share
from gammaprime import cli
from gammaprime.sweeps import report as notes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="no chromium: apt-get install chromium"),
]
PLACES = {"desk": (1280, 900), "phone": (390, 844)}
BOXES = """[...document.querySelectorAll('{what}')].map(e => e.getBoundingClientRect())
    .map(b => [b.left, b.right, b.width, b.height])"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A report of a sweep, an ablation and a computed experiment, written by the command."""
    root = tmp_path_factory.mktemp("runs")
    for text, name in ((fake_runs.CURVES, "made_up"), (fake_runs.ABLATION, "along_eta")):
        spec = root / f"{name}.toml"
        spec.write_text(text, encoding="utf-8")
        sweep = fake_runs.load(text, name)
        fake_runs.write(sweep, root, level, share)
        notes.write_note(sweep, root)
    assert cli.main(["run", "weights", "--out", str(root)]) == 0
    out = tmp_path_factory.mktemp("page") / "report.html"
    assert cli.main(["report", str(root), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser.Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(params=[(place, dark) for place in PLACES for dark in (False, True)], ids=str)
def opened(request, chromium, file):
    place, dark = request.param
    chromium.open(file, *PLACES[place], dark=dark)
    return chromium


def test_report__sends_no_request_and_the_browser_has_no_complaint(opened, file):
    assert opened.requests() == [file.resolve().as_uri()]
    assert opened.complaints() == []


def test_report__figures_and_tables_are_there_and_fit(opened):
    width = opened.ask("innerWidth")
    plots = opened.ask(BOXES.format(what=".panel .plot > svg"))
    assert len(plots) == 2 + 4
    assert all(left >= 0 and right <= width for left, right, _, _ in plots)
    assert all(wide > 250 and high > 150 for _, _, wide, high in plots)
    tables = opened.ask(BOXES.format(what=".scroll:not(details *)"))
    assert len(tables) >= 2 + 2 + 2
    assert all(left >= 0 and right <= width and high > 30 for left, right, _, high in tables)


def test_report__the_page_does_not_scroll_sideways(opened):
    assert opened.ask("document.documentElement.scrollWidth") == opened.ask("innerWidth")


def test_report__letters_in_figures_are_large_enough_and_lines_are_drawn(opened):
    sizes = opened.ask(
        "[...document.querySelectorAll('.panel text')].map(e => e.getBoundingClientRect().height)"
    )
    assert len(sizes) > 50
    assert sorted(sizes)[len(sizes) // 20] > 9
    lengths = opened.ask(
        "[...document.querySelectorAll('.panel path[clip-path]')]"
        ".filter(e => getComputedStyle(e).stroke != 'none').map(e => e.getTotalLength())"
    )
    assert max(lengths) > 200


def rgb(colour):
    return [int(part) for part in colour[4:-1].split(",")]


def test_report__text_and_lines_stand_out_from_the_paper(opened):
    paper = opened.ask("getComputedStyle(document.body).backgroundColor")
    for what, least in (("body", 7), (".small", 4.5), (".panel text", 7), ("nav a", 4.5)):
        name = "fill" if "text" in what else "color"
        colour = opened.ask(f"getComputedStyle(document.querySelector('{what}')).{name}")
        assert contrast(rgb(colour), rgb(paper)) > least, what
    strokes = opened.ask(
        "[...document.querySelectorAll('.legend path')].map(e => getComputedStyle(e).stroke)"
    )
    assert len(strokes) == 3 + 3  # variants of the one, tasks of the other
    assert len(set(strokes[:3])) == len(set(strokes[3:])) == 3
    assert all(contrast(rgb(stroke), rgb(paper)) > 3 for stroke in strokes)


def test_report__opens_its_details_and_follows_its_links(opened):
    opened.ask("document.querySelectorAll('details').forEach(e => { e.open = true })")
    assert opened.ask("document.documentElement.scrollWidth") == opened.ask("innerWidth")
    rows = opened.ask("document.querySelectorAll('details tbody tr').length")
    assert rows >= 30 + 27
    opened.ask("document.querySelectorAll('nav a')[1].click()")
    top = opened.ask("document.querySelector('#sweep-1').getBoundingClientRect().top")
    assert abs(top) < 5


def test_report__can_be_looked_at(opened, tmp_path):
    picture = opened.picture(tmp_path / "page.png")
    assert picture.stat().st_size > 50_000
