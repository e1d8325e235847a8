"""RL Zoo's YAML names the callbacks; needs rl_zoo3, which `make test-integrations` installs."""

from importlib.util import find_spec

import pytest

from gammaprime.agents import TaylorQ, TaylorWeight

pytestmark = pytest.mark.skipif(find_spec("rl_zoo3") is None, reason="rl_zoo3 is not installed")

PPO = """
CartPole-v1:
  n_timesteps: 256
  policy: MlpPolicy
  n_steps: 128
  batch_size: 64
  callback:
    - gammaprime.integrations.sb3.Taylor:
        advantage: {gamma_prime: 0.999, order: .inf, eta: 0.5, lookahead: null}
        weighting: {gamma_prime: 0.999, order: 10}
"""
SAC = """
Pendulum-v1:
  n_timesteps: 250
  policy: MlpPolicy
  buffer_size: 1000
  callback:
    - gammaprime.integrations.sb3.DensityRatio: {recent_size: 100}
"""


def read(text, tmp_path):
    file = tmp_path / "settings.yml"
    file.write_text(text)
    return file


def test_yaml__names_slots_by_their_settings(tmp_path):
    import yaml
    from rl_zoo3.utils import get_callback_list

    (settings,) = yaml.safe_load(PPO).values()
    (taylor,) = get_callback_list(settings)
    assert taylor.slots.advantage == TaylorQ(0.999, order=float("inf"), eta=0.5)
    assert taylor.slots.weighting == TaylorWeight(0.999, 10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("algo", "text"), [("ppo", PPO), ("sac", SAC)], ids=["Taylor", "DensityRatio"]
)
def test_zoo__trains_with_them(algo, text, tmp_path, monkeypatch, capsys):
    from rl_zoo3.train import train

    (task,) = (line[:-1] for line in text.splitlines() if line.endswith("-v1:"))
    arguments = f"train --algo {algo} --env {task} --conf-file {read(text, tmp_path)} -f {tmp_path}"
    monkeypatch.setattr(
        "sys.argv", f"{arguments} --seed 0 --eval-freq -1 --num-threads 1 --log-interval 1".split()
    )
    train()
    told = capsys.readouterr().out
    assert ("taylor/" if algo == "ppo" else "density_ratio/") in told
    assert list(tmp_path.glob(f"{algo}/{task}_1/{task}.zip"))
