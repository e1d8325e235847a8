"""What the README shows works as it stands there."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"example-{i}" for i in range(len(BLOCKS))])
def test_examples__run_as_printed(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


def test_exact_example__ends_at_the_value_that_is_judged(capsys):
    (block,) = (block for block in BLOCKS if "tabular" in block)
    exec(compile(block, "README.md", "exec"), {})
    away = [float(line.split()[2]) for line in capsys.readouterr().out.splitlines()]
    assert away == sorted(away, reverse=True)
    assert away[0] > 80
    assert away[-1] == 0.0


def test_links__lead_somewhere():
    targets = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert targets
    for target in targets:
        assert (Path(__file__).parents[1] / target).exists(), target
