"""Examples of the pages in docs/trainers."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/trainers"


def blocks(page, language="python"):
    """Blocks of a page in one language, as printed."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert found
    return found


def run(page, **names):
    """Run the blocks of a page one after the other; return what they define."""
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    return names
