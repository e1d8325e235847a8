"""Pictures inside a page: SVG that takes its colours and letters from the page around it."""

from __future__ import annotations

import html
import io
import re

import matplotlib as mpl
from matplotlib.text import Text

from gammaprime.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RC,
    SKY,
    YELLOW,
    Figure,
)

# Colour of a picture -> the name under which the page has one for light and one for dark.
THEME = {
    BLACK: "--ink",
    "#333333": "--soft",
    RC["grid.color"]: "--rule",
    "#ffffff": "--paper",
    BLUE: "--blue",
    ORANGE: "--orange",
    GREEN: "--green",
    PURPLE: "--purple",
    SKY: "--sky",
    YELLOW: "--yellow",
}


def to_svg(figure: Figure, name: str, alt: str) -> str:
    """The picture as an element of a page.

    name: begins every id, so that two pictures of a page do not share one.
    alt: what is told to those who do not see it.
    """
    buffer = io.StringIO()
    # Formulas are laid out letter by letter: only drawn do they keep their shape.
    formulas = any("$" in text.get_text() for text in figure.findobj(Text))
    with mpl.rc_context(RC | {"svg.fonttype": "path" if formulas else "none"}):
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
    return re.sub(r"\s*\n\s*", "\n", text).strip()
