"""The page "Which estimator when": its code runs, its pictures are there, its numbers are right."""

import re
from pathlib import Path

import numpy as np
import pytest

from gammaprime import estimators

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "which-estimator.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_examples__run_in_the_order_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in BLOCKS:
        exec(compile(block, "which-estimator.md", "exec"), names)
    assert names["judged"].shape == names["weight"].shape == (500, 16)
    assert (tmp_path / "results/figures/my_orders.png").is_file()
    assert names["step"].max() > 100
    assert np.all(names["step"][1:][names["terminated"][:-1]] == 0)
    starts = names["terms"][0][names["step"] == 0]
    assert names["curve"].estimate[0] == pytest.approx(starts.mean())
    assert len(starts) > 16


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", PAGE))
def test_links__lead_somewhere(link):
    assert (DOCS / link).is_file()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`estimators\.(\w+)", PAGE))))
def test_functions__exist(name):
    assert name in estimators.__all__


def test_horizons__are_those_of_the_page():
    stated = re.search(
        r"(\d+)\s+steps at order 0, (\d+) at order 1, (\d+) at order 10, (\d+)", PAGE
    )
    orders = (0, 1, 10, np.inf)
    horizons = [round(estimators.effective_horizon(0.99, 0.999, order)) for order in orders]
    assert [int(number) for number in stated.groups()] == horizons
