"""One page of everything that a folder of runs can show, in a single file that needs no other.

It has no date, no script and no request: the same runs give the same bytes on any machine.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from gammaprime.figures import ablations, comparisons, curves, finals, style, summaries, tables
from gammaprime.figures.options import FigureOptions
from gammaprime.figures.style import Axes, Figure
from gammaprime.runs.results import Result

try:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the report needs jinja2: pip install 'gammaprime[report]'", name=error.name
    ) from None

TEMPLATE = "report.html.jinja"
THEME = {
    style.BLACK: "--ink",
    "#333333": "--soft",
    style.RC["grid.color"]: "--rule",
    "#ffffff": "--paper",
    style.BLUE: "--blue",
    style.ORANGE: "--orange",
    style.GREEN: "--green",
    style.PURPLE: "--purple",
    style.SKY: "--sky",
    style.YELLOW: "--yellow",
}
"""Colour of a picture -> the variable that holds it in the light and the dark page."""
STROKES = {"-": "", "--": "6 3", "-.": "7 3 2 3"}


class Picture(NamedTuple):
    """Figures of an experiment that is computed, or of runs that belong to no sweep."""

    name: str
    title: str
    figures: Sequence[Figure]
    manifest: Mapping[str, Any]
    state: str = "computed"


class Key(NamedTuple):
    """Line of a legend."""

    name: str
    colour: str
    dashes: str


def write(
    file: Path,
    sweeps: Sequence[tuple[FigureOptions, Sequence[Result]]],
    pictures: Sequence[Picture] = (),
    left_out: Sequence[str] = (),
) -> Path:
    """Write the report of these sweeps and pictures.

    left_out: names of the sweeps that could not be read.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    # Names of folders and processors may hold what is no character.
    file.write_text(page(sweeps, pictures, left_out), encoding="utf-8", errors="replace")
    return file


def page(
    sweeps: Sequence[tuple[FigureOptions, Sequence[Result]]],
    pictures: Sequence[Picture] = (),
    left_out: Sequence[str] = (),
) -> str:
    """Return the page; see `write`."""
    results = [result for _, own in sweeps for result in own]
    runs = list({result.path: result for result in results}.values())
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(
        runs=len(runs),
        done=sum(run.done for run in runs),
        steps=style.count_steps(float(f"{sum(run.reached for run in runs):.2g}")),
        sweeps=[_sweep(f"f{i}", *pair) for i, pair in enumerate(sweeps)],
        pictures=[_picture(f"p{i}", picture) for i, picture in enumerate(pictures)],
        left_out=left_out,
        origin=_origin([*(r.manifest for r in results), *(p.manifest for p in pictures)]),
        guide=comparisons.GUIDE,
        verdicts=comparisons.VERDICTS,
        nothing=comparisons.NOTHING,
    )


def _source(name: str) -> str:
    return resources.files("gammaprime.figures").joinpath(name).read_text(encoding="utf-8")


def _sweep(anchor: str, options: FigureOptions, results: Sequence[Result]) -> dict[str, Any]:
    """Values of the template for the section of a sweep."""
    found = comparisons.compare(results, options)
    parts, keys, caption = _figure(options, results)
    names = ", ".join(key.name for key in keys)
    alt = f"lines for {names}" if names else f"rows for {', '.join(options.variants)}"
    drawn = [
        (title, _panel(f"{anchor}-{i}", f"{title}: {alt}", draw))
        for i, (title, draw) in enumerate(parts)
    ]
    return {
        "options": options,
        "state": f"{sum(result.done for result in results)} of {len(results)} runs",
        "notes": summaries.notes(options, results),
        "sentences": comparisons.sentences(found),
        "legend": keys,
        "panels": drawn,
        "caption": caption,
        "returns": tables.return_tables(tables.final_returns(results, options), options),
        "returns_legend": tables.legend(options),
        "overall": comparisons.overall_table(found),
        "by_task": comparisons.task_table(found) if len(summaries.tasks_of(results)) > 1 else None,
        "runs": tables.run_table(results, options),
    }


def _figure(
    options: FigureOptions, results: Sequence[Result]
) -> tuple[list[tuple[str, Callable[[Axes], None]]], list[Key], str]:
    """Panels with their titles, the legend and the caption of a figure."""
    if options.kind == "ablation":
        points = ablations.points(results, options)
        keys = _keys(style.looks(ablations.tasks_of(points), style.TASKS))
        caption = ablations.describe(options, results, points)
        return ablations.panels(points, options), keys, caption
    if options.kind == "finals":
        return finals.panels(options, results), [], finals.describe(options, results)
    lines = curves.lines(results, options)

    def panel(task: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            curves.draw_task(axes, task, lines)
            axes.set(xlabel="environment steps", ylabel="return")

        return draw

    panels = [(task, panel(task)) for task in summaries.tasks_of(results)]
    return panels, _keys(style.looks(options.variants)), curves.describe(options, results)


def _keys(chosen: Mapping[str, style.Look]) -> list[Key]:
    items = chosen.items()
    return [Key(name, THEME[look.color], STROKES[look.linestyle]) for name, look in items]


def _panel(name: str, alt: str, draw: Callable[[Axes], None]) -> Markup:
    with style.context():
        figure, (axes,) = style.panels(1, 4.5, 3.2)
        draw(axes)
        return to_svg(figure, name, alt)


def _picture(anchor: str, picture: Picture) -> dict[str, Any]:
    drawn = [
        (f"{figure.get_figwidth():g}", to_svg(figure, f"{anchor}-{i}", picture.title))
        for i, figure in enumerate(picture.figures)
    ]
    about = {"name": picture.name, "title": picture.title, "state": picture.state}
    return {**about, "drawn": drawn}


def to_svg(figure: Figure, name: str, alt: str) -> Markup:
    """Return a picture as an SVG element that takes colours and fonts from the page.

    name: prefix of every id, so that two pictures of a page share none.
    alt: text for those who do not see it.
    """
    buffer = io.StringIO()
    # Formulas are laid out letter by letter and keep their shape only as outlines.
    formulas = any("$" in text.get_text() for text in figure.findobj(style.Text))
    with style.context({"svg.fonttype": "path" if formulas else "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    about = f'role="img" aria-label="{html.escape(alt)}"'
    opening = re.compile(r'<svg[^>]*(viewBox="[^"]*")[^>]*>')
    text = opening.sub(lambda found: f"<svg {found[1]} {about}>", text, count=1)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--sans)", text)
    for colour, variable in THEME.items():
        text = re.sub(rf"{colour}\b", f"var({variable})", text, flags=re.IGNORECASE)
    return Markup(re.sub(r"\s*\n\s*", "\n", text).strip())


def _origin(manifests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Versions and machines behind the numbers, each value once; other types are ignored."""
    found: dict[str, dict[str, None]] = {}
    for manifest in manifests:
        computed = {name: manifest.get(name) for name in ("python", "numpy", "scipy")}
        facts = {"processor": manifest.get("cpu"), "cores": manifest.get("cores")}
        facts |= {"system": manifest.get("platform"), "gammaprime": manifest.get("gammaprime")}
        versions = manifest.get("versions", computed)
        for name, value in (facts | (versions if isinstance(versions, dict) else {})).items():
            if isinstance(value, str | int):
                found.setdefault(name, {})[str(value)] = None
    return {name: " · ".join(values) for name, values in found.items()}
