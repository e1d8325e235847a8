"""Python examples of the pages in docs/trainers."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/trainers"


def blocks(page):
    """Python blocks of a page, as printed."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert found
    return found


def run(page, **names):
    """Run the blocks of a page one after the other; return what they define."""
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    return names
