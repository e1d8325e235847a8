"""RL Zoo's YAML names the callbacks; needs rl_zoo3, which `make test-integrations` installs."""

import math
from importlib.util import find_spec
from pathlib import Path

import pytest

from gammaprime.agents import TaylorQ, TaylorWeight
from integrations import pages

pytestmark = pytest.mark.skipif(find_spec("rl_zoo3") is None, reason="rl_zoo3 is not installed")

PPO, SAC = pages.blocks("rl-zoo", "yaml")
FEWER = {PPO: "n_timesteps:256 n_steps:128 batch_size:64", SAC: "n_timesteps:250 buffer_size:20000"}


def test_yaml__names_slots_by_their_settings():
    import yaml
    from rl_zoo3.utils import get_callback_list

    (settings,) = yaml.safe_load(PPO).values()
    (taylor,) = get_callback_list(settings)
    assert taylor.slots.advantage == TaylorQ(0.999, order=1)
    assert taylor.slots.weighting == TaylorWeight(0.999, math.inf)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("algo", "text"), [("ppo", PPO), ("sac", SAC)], ids=["Taylor", "DensityRatio"]
)
def test_zoo__trains_with_the_page(algo, text, tmp_path, monkeypatch, capsys):
    """The printed files and command, with fewer steps."""
    from rl_zoo3.train import train

    monkeypatch.chdir(tmp_path)
    Path("settings.yml").write_text(text)
    task = text.partition(":")[0]
    _, command = pages.blocks("rl-zoo", "sh")
    words = command.replace("ppo", algo).replace("CartPole-v1", task).split()
    assert words[:3] == ["python", "-m", "rl_zoo3.train"]
    more = f"-f {tmp_path} --seed 0 --eval-freq -1 --num-threads 1 --log-interval 1 -params"
    monkeypatch.setattr("sys.argv", [*words[2:], *more.split(), *FEWER[text].split()])
    train()
    told = capsys.readouterr().out
    assert ("taylor/" if algo == "ppo" else "density_ratio/") in told
    assert list(tmp_path.glob(f"{algo}/{task}_1/{task}.zip"))
