"""What docs/trainers shows works as it stands there, with fewer steps."""

import re
import warnings

import gymnasium
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor

import gammaprime
from gammaprime.integrations.sb3 import Taylor
from integrations import pages

NEEDED = {"stable-baselines3": "stable_baselines3", "sb3-contrib": "sb3_contrib", "sbx": "sbx"}


@pytest.mark.parametrize("page", NEEDED)
def test_examples__run_as_printed(page):
    pytest.importorskip(NEEDED[page])
    names = {
        "model": PPO("MlpPolicy", "CartPole-v1", n_steps=64),
        "eval_env": Monitor(gymnasium.make("CartPole-v1")),
        "Taylor": Taylor,
        "TaylorQ": gammaprime.TaylorQ,
    }
    for block in pages.blocks(page):
        fewer = re.sub(r"learn\([\d_]+", "learn(128", block).replace("5_000", "50")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="taylor/tail_share")
            exec(compile(fewer, page, "exec"), dict(names))


def test_links__lead_somewhere():
    for page in pages.FOLDER.glob("*.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (pages.FOLDER / target).exists(), (page.name, target)
