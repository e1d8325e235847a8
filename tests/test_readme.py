"""What the README shows works as it stands there."""

import re
import tomllib
from pathlib import Path

import pytest

import gammaprime

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPEC = ROOT / "src/gammaprime/experiments/weights.toml"
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
        assert (ROOT / target).exists(), target


def test_install__is_from_a_clone_as_long_as_nothing_is_published():
    lines = re.findall(r"^pip install (\S+)", README, flags=re.MULTILINE)
    assert lines
    assert all(line.strip("'").partition("[")[0] == "." for line in lines)


def test_picture__has_the_discounts_of_the_text():
    """The picture is the experiment `weights`."""
    (alt,) = re.findall(r"!\[([^]]*)\]\(docs/pictures/weights_by_order.png\)", README)
    settings = tomllib.loads(SPEC.read_text(encoding="utf-8"))["settings"]
    assert f"γ = {settings['gamma']} to γ' = {settings['gamma_prime']}" in alt


def test_estimated_advantage__is_the_plain_one_where_nothing_is_expanded():
    """A Q-function less the value would keep the part of V that no action changes."""
    (block,) = (block for block in BLOCKS if "estimators" in block)
    names: dict = {}
    exec(compile(block.replace("order=1)\n", "order=0)\n"), "README.md", "exec"), names)
    assert (names["expanded"] == names["advantage"]).all()


def test_weights__multiply_the_advantages():
    (block,) = (block for block in BLOCKS if "estimators" in block)
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert (names["expanded"] * names["weights"]).shape == (names["T"], names["N"])


def test_agent_of_the_shell__is_that_of_python():
    from gammaprime.cli.options import parse

    (line,) = re.findall(r"^gammaprime train (ppo .*)$", README, flags=re.MULTILINE)
    (block,) = (block for block in BLOCKS if "gp.train(" in block)
    (made,) = re.findall(r"^agent = (.*)$", block, flags=re.MULTILINE)
    assert parse(line.split())[0] == eval(made, {"gp": gammaprime})
