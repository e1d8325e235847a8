"""One page of everything that a folder of runs can show, in a single file that needs no other.

No date, no script, no request: the same runs give the same bytes, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gammaprime.figures import ablation, appendix, curves, options, summaries
from gammaprime.figures import table as tables
from gammaprime.figures.findings import Findings
from gammaprime.figures.inline import THEME, to_svg
from gammaprime.figures.markup import Html, fold, join, table, tag
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import Axes, Figure, count_steps, look, sheet, style

if TYPE_CHECKING:
    from gammaprime.sweeps.records import Record
    from gammaprime.sweeps.sweep import Sweep

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser itself refuses whatever would leave the page."""


class Picture(NamedTuple):
    """An experiment that is no sweep: drawn whole."""

    name: str
    title: str
    figures: Sequence[Figure]
    manifest: Mapping[str, Any]


class Part(NamedTuple):
    """A section of the page."""

    anchor: str
    name: str
    title: str
    state: str
    body: Html


def write(
    file: Path,
    sweeps: Sequence[tuple[Sweep, Sequence[Record]]],
    pictures: Sequence[Picture] = (),
    left_out: Sequence[str] = (),
) -> Path:
    """The report of these sweeps and pictures, which names those that could not be read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(sweeps, pictures, left_out), encoding="utf-8")
    return file


def page(
    sweeps: Sequence[tuple[Sweep, Sequence[Record]]],
    pictures: Sequence[Picture] = (),
    left_out: Sequence[str] = (),
) -> str:
    """The whole page."""
    parts = [_sweep_part(i, *pair) for i, pair in enumerate(sweeps)]
    parts += [_picture_part(i, picture) for i, picture in enumerate(pictures)]
    records = [record for _, own in sweeps for record in own]
    manifests = [record.manifest for record in records] + [p.manifest for p in pictures]
    css = resources.files("gammaprime.figures").joinpath("report.css").read_text(encoding="utf-8")
    head = [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("title", "gammaprime: what these runs show"),
        tag("style", Html(css)),
    ]
    main = [
        _top(records, parts),
        *(
            tag("p", f"Left out, for it can no longer be read: {name}.", class_="notice")
            for name in left_out
        ),
        *(_section(part) for part in parts),
        appendix.origin(manifests),
        appendix.guide(),
    ]
    body = tag("body", tag("main", *main, class_="page"))
    return f"<!doctype html>\n{tag('html', tag('head', *head), body, lang='en')}\n"


def _top(records: Sequence[Record], parts: Sequence[Part]) -> Html:
    runs = {record.path: record for record in records}.values()
    done = sum(record.done for record in runs)
    steps = count_steps(float(f"{sum(record.reached for record in runs):.2g}"))
    lead = f"{done} of {len(runs)} training runs are finished, {steps} environment steps in all."
    if not runs:
        lead = "No training runs, only what is computed."
    links = [
        tag(
            "li",
            tag(
                "a",
                tag("span", p.title, class_="name"),
                " ",
                tag("span", p.state, class_="state"),
                href=f"#{p.anchor}",
            ),
        )
        for p in parts
    ]
    nav = tag("nav", tag("ul", *links), aria_label="Experiments")
    return tag("header", tag("h1", "What these runs show"), tag("p", lead, class_="lead"), nav)


def _section(part: Part) -> Html:
    eyebrow = tag("p", part.name, class_="eyebrow")
    return tag("section", eyebrow, tag("h2", part.title), part.body, id=part.anchor)


def _sweep_part(i: int, sweep: Sweep, records: Sequence[Record]) -> Part:
    shown = options.read(sweep)
    findings = Findings(records, shown)
    notes = [tag("p", note, class_="notice") for note in summaries.notes(sweep, records)]
    body = [
        *notes,
        _claim(sweep, findings),
        _figure(f"f{i}", sweep, records, shown),
        tag("h3", "Final returns"),
        *_final_returns(records, shown),
        tag("p", tables.legend(shown), class_="small"),
        tag("h3", "Who beats whom") if findings.overall else Html(""),
        findings.tables(),
        fold("Every run", appendix.runs(records, shown)),
    ]
    done = sum(record.done for record in records)
    return Part(f"sweep-{i}", sweep.name, sweep.title, f"{done} of {len(records)} runs", join(body))


def _claim(sweep: Sweep, findings: Findings) -> Html:
    shows = tag("div", tag("h3", "These runs show"), findings.sentences())
    if not sweep.claim:
        return tag("div", shows, class_="claim")
    labels = f" ({', '.join(sweep.paper)})" if sweep.paper else ""
    quote = tag("blockquote", sweep.claim)
    return tag(
        "div", tag("div", tag("h3", f"The paper says{labels}"), quote), shows, class_="claim"
    )


def _figure(name: str, sweep: Sweep, records: Sequence[Record], shown: FigureOptions) -> Html:
    """A picture for each panel, so that they stand side by side or one below the other."""
    if shown.kind == "ablation":
        scores = ablation.scores(records, shown)
        panels = ablation.panels(scores, shown)
        tasks = scores[0].tasks if scores else ()
        keys = [(task, _task_look(i, task)) for i, task in enumerate(tasks)]
        text = ablation.describe(records, shown)
    else:
        lines = summaries.lines(records, shown)
        panels = [(task, _draws(sweep, task, lines)) for task in summaries.tasks_of(records)]
        keys = [(variant.name, look(i)) for i, variant in enumerate(sweep.variants)]
        text = curves.describe(sweep, records, shown)
    drawn = [
        tag(
            "div",
            tag("h4", title),
            tag("div", _panel(f"{name}-{i}", title, draw, [k for k, _ in keys]), class_="plot"),
            class_="panel",
        )
        for i, (title, draw) in enumerate(panels)
    ]
    amount = {1: "panels one", 2: "panels two", 4: "panels two"}.get(len(drawn), "panels")
    caption = tag("figcaption", text, class_="small")
    return tag("figure", _legend(keys), tag("div", *drawn, class_=amount), caption)


def _draws(sweep: Sweep, task: str, lines: Sequence[summaries.Line]) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        curves.draw_task(axes, sweep, task, lines)
        axes.set(xlabel="environment steps", ylabel="return")

    return draw


def _task_look(i: int, task: str) -> dict[str, str]:
    return look(i) | {"linestyle": ablation.dashes(task)}


def _panel(name: str, title: str, draw: Callable[[Axes], None], keys: Sequence[str]) -> Html:
    with style():
        figure, (axes,) = sheet(1, 1, 4.5, 1.9)
        draw(axes)
        return Html(to_svg(figure, name, f"{title}: lines for {', '.join(keys)}"))


def _legend(keys: Sequence[tuple[str, Mapping[str, str]]]) -> Html:
    dashes = {"-": "", "--": "6 3", "-.": "7 3 2 3"}
    items = [
        tag(
            "li",
            Html(
                '<svg viewBox="0 0 30 8" aria-hidden="true"><path d="M0 4H30" stroke-width="3" '
                f'style="stroke: var({THEME[line["color"]]})" '
                f'stroke-dasharray="{dashes[line["linestyle"]]}"/></svg>'
            ),
            name,
        )
        for name, line in keys
    ]
    return tag("ul", *items, class_="legend")


def _final_returns(records: Sequence[Record], shown: FigureOptions) -> list[Html]:
    found = tables.cells(records, shown)
    tasks = summaries.tasks_of(records)
    parts = []
    for group in shown.groups:
        rows = []
        for task in tasks:
            cells = [found.get((variant, task)) for variant in group]
            if any(cells):
                rows.append([tag("th", task, scope="row", class_="nowrap"), *map(_cell, cells)])
        parts.append(table(f"Final returns of {', '.join(group)}", ("task", *group), rows))
    return parts


def _cell(cell: tables.Cell | None) -> Html:
    if cell is None:
        return tag("td", "", class_="n")
    text, bracket, seeds = cell.text.partition(" (")
    few = tag("span", f"{bracket}{seeds}", class_="of") if bracket else Html("")
    return tag("td", text, few, class_="n best" if cell.best else "n")


def _picture_part(i: int, picture: Picture) -> Part:
    drawn = [
        tag(
            "div",
            Html(to_svg(figure, f"p{i}-{j}", picture.title)),
            class_="plot wide scroll",
            style=f"--width: {figure.get_figwidth():g}",
            tabindex="0",
        )
        for j, figure in enumerate(picture.figures)
    ]
    return Part(f"picture-{i}", picture.name, picture.title, "computed", tag("figure", *drawn))
