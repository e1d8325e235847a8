"""HTML by small functions: text is escaped, unless it is already HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is HTML already."""


def tag(name: str, *children: str, **attributes: str) -> Html:
    """An element.  In the names of attributes an underscore is a dash, and a last one nothing."""
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    told = "".join(f' {names[k]}="{html.escape(v)}"' for k, v in attributes.items())
    return Html(f"<{name}{told}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """Elements and text, one after the other."""
    return Html("".join(c if isinstance(c, Html) else html.escape(c) for c in children))


def table(label: str, head: Sequence[str], rows: Iterable[Sequence[Html]], first: int = 1) -> Html:
    """A table that scrolls inside itself where the page is narrow.

    label: for those who do not see it.  rows: of cells, each a <td> or <th>.
    first: so many columns on the left are of text, the others of numbers.
    """
    titles = [
        tag("th", title, scope="col", class_="" if i < first else "n")
        for i, title in enumerate(head)
    ]
    body = [tag("tr", *row) for row in rows]
    inside = tag("table", tag("thead", tag("tr", *titles)), tag("tbody", *body))
    return tag("div", inside, class_="scroll", role="region", aria_label=label, tabindex="0")


def fold(title: str, *children: str) -> Html:
    """What is there for those who ask."""
    return tag("details", tag("summary", title), *children)
