"""The training commands: what they print, refuse, leave behind, and that they read well."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("tyro")

from gammaprime import cli, envs
from gammaprime.agents import (
    PPO,
    PRESETS,
    SAC,
    TD3,
    DensityRatio,
    LearnedEntropy,
    TaylorQ,
    TaylorWeight,
)
from gammaprime.cli import options, video
from gammaprime.loops.loop import OnPolicyLoop
from gammaprime.loops.rollout import BreakdownError
from gammaprime.networks import Actor, Layer, Policy
from gammaprime.runs import startup, training
from gammaprime.runs.config import RunConfig
from gammaprime.runs.session import Start

SMALL = "--num-envs 2 --num-steps 16 --hidden 4 --epochs 1 --minibatches 1"
SHORT = f"train ppo --task Hopper-v4 --steps 96 {SMALL} --time-limit 20 --evaluation.episodes 2"


@pytest.fixture(autouse=True)
def house(tmp_path, monkeypatch):
    """An empty folder to work in, this process's threads and cache left as they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "use_one_thread", lambda: None)
    monkeypatch.setattr(startup, "cache_compilations", lambda folder: True)
    return tmp_path


def run(text):
    return cli.main(text.split())


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "stored"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(startup, "use_one_thread", lambda: None)
        patch.setattr(startup, "cache_compilations", lambda folder: True)
        assert run(f"{SHORT} --out {out} --no-tensorboard") == 0
    return out


def test_train__names_its_folder_by_what_it_is(house, capsys):
    assert run(f"{SHORT} advantage:taylor-q --advantage.order 2 --advantage.lookahead 3") == 0
    out, err = capsys.readouterr()
    (folder,) = (house / "results/runs").iterdir()
    assert re.fullmatch(r"ppo-Hopper-v4-s0-[0-9a-f]{12}", folder.name)
    relative = folder.relative_to(house)
    assert out.splitlines() == [
        str(relative),
        f"done, 96 steps; next: gammaprime evaluate {relative}",
    ]
    agent = json.loads((folder / "config.json").read_text())["settings"]["agent"]
    assert agent["advantage"] == {
        "kind": "taylor_q",
        "gamma_prime": 0.999,
        "order": 2,
        "eta": 1.0,
        "lookahead": 3,
        "tail": "survival",
        "center": True,
    }
    lines = err.splitlines()
    assert "evaluation of the policy: return" in lines[-2]
    assert re.match(r"100 %  step 96  return .* steps/s  done", lines[-1])


def test_slot_of_the_paper__is_spelled_by_its_settings():
    """The words are those of docs/training.md."""
    page = Path(__file__).parents[2] / "docs" / "training.md"
    words = re.search(r"`(advantage:taylor-q --advantage.eta[^`]*)`", page.read_text())[1]
    agent, _ = options.parse(f"ppo --task Hopper-v4 {words}".split())
    assert agent.advantage == TaylorQ.paper()


def test_train_again__is_done_at_once(stored, capsys):
    before = (stored / "metrics.jsonl").read_bytes()
    assert run(f"{SHORT} --out {stored} --no-tensorboard") == 0
    assert "done, 96 steps" in capsys.readouterr().out
    assert (stored / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train pppo --task Hopper-v4", "unknown agent 'pppo': did you mean 'ppo'?"),
        ("train ppo --task Hoper-v4", "did you mean Hopper-v4"),
        ("train ppo --task Hopper-v4 --steps 100", "steps=100: must be at least one rollout"),
        ("train ppo --task Hopper-v4 --minibatches 7", "minibatches=7: must divide"),
        ("train ppo --task Hopper-v4 --gamma 2", "gamma=2.0: must lie in"),
        ("train ppo --task FrozenLake-v1", "observation space Discrete(16) is not supported"),
        ("train td3 --task CartPole-v1", "action space Discrete(2) is not supported"),
        ("train td3 --task Hopper-v4 --steps 49", "steps=49: must be at least one rollout"),
        ("train ddpq --task Hopper-v4", "unknown agent 'ddpq': did you mean 'ddpg'?"),
        ("resume nowhere", "nowhere: is not a run directory"),
        ("evaluate nowhere", "nowhere: is not a run directory"),
        ("enjoy nowhere --video a.gif", "nowhere: is not a run directory"),
        ("enjoy nowhere --video a.avi", "a.avi: must end in .mp4, .gif, .webp, .png"),
        ("enjoy nowhere --video a.gif --seconds nan", "seconds=nan: must be finite and above 0"),
        ("enjoy nowhere --video a.gif --seconds 0", "seconds=0.0: must be finite and above 0"),
        ("enjoy nowhere --video a.gif --seed -4", "seed=-4: must be an integer >= 0"),
    ],
)
def test_what_cannot_be_done__is_one_line_on_stderr(house, capsys, text, message):
    assert run(text) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gammaprime: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (house / "results").exists()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("train ppo --task Hopper-v4 --gama 0.9", "--gamma"),
        ("train ppo --task Hopper-v4 advantage:taylor-q --advantage.ordr 2", "--advantage.order"),
        ("train ppo --task Hopper-v4 --steps 1.5", "not a whole number"),
        ("train ppo", "--task"),
    ],
)
def test_unknown_option__is_told_with_the_nearest(house, capsys, text, hint):
    with pytest.raises(SystemExit) as stop:
        run(text)
    assert stop.value.code == 2
    assert hint in capsys.readouterr().err
    assert not (house / "results").exists()


def test_resume_with_steps__lengthens_a_copy(stored, capsys):
    before = (stored / "config.json").read_bytes()
    assert run(f"resume {stored} --steps 1.6e2 --no-tensorboard") == 0
    out = capsys.readouterr().out
    (longer,) = (stored.parent).glob("ppo-Hopper-v4-s0-*")
    assert out.splitlines()[-1] == f"done, 160 steps; next: gammaprime evaluate {longer}"
    assert json.loads((longer / "config.json").read_text())["settings"]["origin"]["steps"] == 96
    assert (stored / "config.json").read_bytes() == before


def test_train_with_init__names_its_folder_by_where_it_began(stored, house, capsys):
    for words in (SHORT, f"{SHORT} --init {stored}", f"{SHORT} --init {stored} --seed 1"):
        assert run(f"{words} --no-tensorboard") == 0
    assert "with the parameters of a run of 96 steps" in capsys.readouterr().err
    assert len(list((house / "results/runs").iterdir())) == 3


def test_out_of_another_configuration__is_refused(stored, capsys):
    assert run(f"{SHORT} --out {stored} --seed 1") == 2
    err = capsys.readouterr().err
    assert "belongs to another configuration: seed is 0 there, 1 here" in err
    assert run(f"{SHORT} --out {stored} advantage:taylor-q") == 2
    assert "agent.advantage.center is None there, True here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("trpo_baselines", PRESETS["trpo_baselines"]),
        ("trpo-baselines", PRESETS["trpo_baselines"]),
        ("ddpg", PRESETS["ddpg"]),
        ("ddpg-spinning-up", PRESETS["ddpg_spinning_up"]),
        ("td3", TD3()),
        ("sac", SAC()),
    ],
)
def test_agent__is_named_on_the_command_line_and_every_setting_can_be_changed(name, agent):
    asked = [name, "--task", "Hopper-v4"]
    assert options.parse(asked)[0] == agent
    changed, _ = options.parse([*asked, "--gamma", "0.9", "--steps", "1e5"])
    assert changed == replace(agent, gamma=0.9)


SLOTS = "entropy:learned-entropy weighting:density-ratio --weighting.inverse-temperature 0.2"


@pytest.mark.parametrize(
    "words",
    [
        f"--task Hopper-v4 --gamma 0.9 {SLOTS}",
        f"{SLOTS} --task Hopper-v4 --gamma 0.9",
        f"--gamma 0.9 {SLOTS.replace(' weighting:', ' --task Hopper-v4 weighting:')}",
    ],
)
def test_slots__may_stand_anywhere(words):
    agent, asked = options.parse(["sac", *words.split()])
    weighting = DensityRatio(inverse_temperature=0.2)
    assert agent == SAC(gamma=0.9, entropy=LearnedEntropy(), weighting=weighting)
    assert asked.task == "Hopper-v4"


UNEXPLAINED = re.compile(r"(--[a-z.-]+)(?:, --[a-z.-]+)?(?: [{}A-Za-z|\[\]. ]*[A-Z\]])? \(default")


@pytest.mark.parametrize("words", ["ppo", "sac", "trpo-baselines", "ppo advantage:taylor-q"])
def test_help__explains_every_option_and_cites_nothing(words, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        run(f"train {words} --help")
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--evaluation.every" in text
    assert "--gamma" in text
    for citation in ("Paper:", "Departs:", "Shapes:"):
        assert citation not in text
    assert UNEXPLAINED.findall("--gamma FLOAT (default: 0.9) --lam FLOAT Known. (default: 1)") == [
        "--gamma"
    ]
    assert UNEXPLAINED.findall(text) == []


def test_train__says_at_its_start_what_is_trained_and_with_which_discounts(house, capsys):
    text = SHORT.replace("--steps 96", "--steps 100")
    slots = "advantage:taylor-q --advantage.gamma-prime 0.995"
    assert run(f"{text} --gamma 0.9 {slots} --no-tensorboard") == 0
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == (
        "96 steps (100 asked): 3 rollouts of 32; trained with γ = 0.9 and γ' = 0.995, judged by "
        "the return, J_γ and J_γ' with γ' = 0.995"
    )
    (folder,) = (house / "results/runs").iterdir()
    protocol = json.loads((folder / "config.json").read_text())["settings"]["protocol"]
    assert protocol["eval_gamma_prime"] == 0.995


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (
            PPO(advantage=TaylorQ(0.999), weighting=TaylorWeight(0.995)),
            "γ = 0.99 and γ' = 0.999 (advantage) and 0.995 (weighting), judged",
        ),
        (PPO(advantage=TaylorQ(0.999), weighting=TaylorWeight(0.999)), "and γ' = 0.999, judged"),
        (TD3(weighting=DensityRatio(gamma_prime=0.995)), "γ = 0.99 and γ' = 0.995, judged"),
        (PPO(), "trained with γ = 0.99, judged"),
    ],
)
def test_start__names_every_discount_that_is_trained_with(agent, told):
    config = RunConfig(agent, "Hopper-v4", 4096).resolve()
    assert told in str(Start(None, config, 0, 4096))


def test_enjoy__on_a_task_that_is_not_known_here_names_the_task(stored, house, capsys):
    table = json.loads((stored / "config.json").read_text())
    table["settings"]["task"] = "Hoper-v4"
    (house / "run").mkdir()
    (house / "run/config.json").write_text(json.dumps(table))
    assert run("enjoy run --video a.gif") == 2
    err = capsys.readouterr().err
    assert err.startswith("gammaprime: task='Hoper-v4': no such task; did you mean Hopper-v4")
    assert "egl" not in err, "nothing was drawn, so no driver is to blame"


def test_evaluate__on_another_version_of_the_task(stored, capsys):
    assert run(f"evaluate {stored} --episodes 2 --task Hopper-v5") == 0
    assert "Hopper-v5, 2 episodes" in capsys.readouterr().out
    assert run(f"evaluate {stored} --episodes 2 --task Walker2d-v4") == 2
    assert "has observations of shape (17,), the policy was trained on (11,)" in (
        capsys.readouterr().err
    )


def test_off_policy_run__is_trained_judged_and_found_done(house, capsys):
    small = "--num-steps 8 --hidden 4 --batch-size 4 --random-steps 16 --learning-starts 24"
    text = f"train ddpg --task Hopper-v4 --steps 64 {small} --time-limit 20 --out run"
    assert run(f"{text} --no-tensorboard") == 0
    assert run("evaluate run --episodes 2") == 0
    assert run("resume run") == 0
    out = capsys.readouterr().out
    assert "done, 64 steps; next: gammaprime evaluate run" in out
    assert "Hopper-v4, 2 episodes, the most likely actions" in out


def test_resume__goes_on_where_a_run_was_stopped(stored, house, capsys):
    class Stop(training.Callback):
        def on_update(self, update):
            return False

    folder = house / "run"
    training.train_config(training.Run.load(stored).config, folder, [Stop()])
    assert not (folder / "done").exists()
    assert run(f"resume {folder}") == 0
    assert (folder / "metrics.jsonl").read_bytes() == (stored / "metrics.jsonl").read_bytes()


def test_breakdown__has_an_exit_code_of_its_own(house, capsys, monkeypatch):
    def broken(self):
        raise BreakdownError("train/loss is not finite after the update", {"x": np.zeros(1)})

    monkeypatch.setattr(OnPolicyLoop, "advance", broken)
    assert run(f"{SHORT} --out run") == 3
    err = capsys.readouterr().err
    assert "train/loss is not finite" in err
    assert "gammaprime resume run" in err
    assert (house / "run/breakdown/about.json").is_file()


def test_evaluate__tells_three_returns(stored, capsys):
    assert run(f"evaluate {stored} --episodes 4") == 0
    lines = capsys.readouterr().out.splitlines()
    about = "Hopper-v4, 4 episodes, the most likely actions; mean ± one standard deviation"
    assert lines[0] == about
    assert [line.split()[0] for line in lines[1:]] == ["length", "return", "J_γ,", "J_γ',"]
    assert "γ' = 0.95" in lines[-1]
    assert run(f"evaluate {stored} --episodes 4 --best") == 0
    assert capsys.readouterr().out.splitlines()[0] == lines[0]


def test_enjoy__leaves_a_video(stored, house, capsys):
    pytest.importorskip("PIL")
    works = video.probe_rendering()
    if not works.endswith(" works"):
        pytest.skip(f"nothing can be drawn on this machine: {works}")
    assert run(f"enjoy {stored} --video film/run.gif --seconds 0.2") == 0
    assert capsys.readouterr().out == "film/run.gif\n"
    assert (house / "film/run.gif").read_bytes()[:4] == b"GIF8"
    assert [file.name for file in (house / "film").iterdir()] == ["run.gif"]
    pytest.importorskip("imageio_ffmpeg")
    assert run(f"enjoy {stored} --video film/run.mp4 --seconds 0.2 --best") == 0
    assert (house / "film/run.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize("start", [0, 1, 5])
def test_enjoy__plays_what_the_policy_chooses_where_choices_begin_elsewhere(start):
    """The environment counts from 0 and the task from ``start``; only one of them may add it."""
    played = []

    class Task(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2, start=start)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            played.append(int(action))
            return np.zeros(1, np.float32), 0.0, False, False, {}

    layer = Layer(np.zeros((1, 2), np.float32), np.array([0.0, 1.0], np.float32))
    policy = Policy(Actor((layer,), None, None, "tanh"), None, None, start)
    stage = SimpleNamespace(env=envs.make(Task, time_limit=3), look=lambda: None)
    list(video._play(stage, policy, 0, 2, 1))
    assert played == [start + 1] * 2


def test_mp4__holds_every_frame_at_its_speed(house):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    frames = [np.full((30, 51, 3), level, np.uint8) for level in (0, 60, 120, 180, 240)]
    video.write_mp4("run.mp4", frames, seconds=0.1)
    read = [ffmpeg.get_ffmpeg_exe(), "-i", "run.mp4", "-f", "rawvideo", "-pix_fmt", "gray", "-"]
    shown = subprocess.run(read, check=True, capture_output=True)
    pixels = np.frombuffer(shown.stdout, np.uint8).reshape(5, 30, 52)  # its sides are even
    np.testing.assert_allclose(pixels[:, :, :51].mean(axis=(1, 2)), range(0, 241, 60), atol=4)
    assert b"10 fps" in shown.stderr


def test_mp4_without_ffmpeg__names_the_extra_before_anything_is_drawn(stored, capsys, monkeypatch):
    find = video.importlib.util.find_spec
    missing = lambda name: None if name == "imageio_ffmpeg" else find(name)  # noqa: E731
    monkeypatch.setattr(video.importlib.util, "find_spec", missing)
    assert run(f"enjoy {stored} --video run.mp4") == 2
    assert "pip install 'gammaprime[video]'" in capsys.readouterr().err


def test_enjoy__says_why_nothing_could_be_drawn_and_leaves_nothing(
    stored, house, capsys, monkeypatch
):
    pytest.importorskip("PIL")
    monkeypatch.setattr(video, "attempt", lambda words, platform, timeout: f"{platform}: no driver")
    assert run(f"enjoy {stored} --video film/run.gif") == 2
    assert capsys.readouterr().err == (
        "gammaprime: film/run.gif: nothing could draw it here: egl: no driver; osmesa: no driver\n"
    )
    assert list((house / "film").iterdir()) == []


def test_enjoy__names_the_package_that_draws_a_task(stored, capsys, monkeypatch):
    pytest.importorskip("PIL")
    fail = """
try:
    import not_here_at_all
except ImportError as error:
    raise ValueError("Missing: it is not installed, run `pip install it`") from error
"""
    attempt = video.attempt
    monkeypatch.setattr(video, "attempt", lambda words, *rest: attempt(["-c", fail], *rest))
    assert run(f"enjoy {stored} --video run.gif") == 2
    told = capsys.readouterr().err
    assert told == "gammaprime: run.gif: it is not installed, run `pip install it`\n"


def test_rendering_that_hangs__is_ended():
    failure = video.attempt(["-c", "import time; time.sleep(60)"], "egl", timeout=0.3)
    assert failure == "egl: no answer within 0 s"


def test_process_that_draws__imports_nothing_from_the_current_folder(house):
    (house / "json.py").write_text("import sys; sys.exit('a file of the folder')")
    assert video.attempt(["-c", "import json"], "egl", timeout=60.0) == ""


def test_doctor__tells_what_is_here_and_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(video, "probe_rendering", lambda: "egl works")
    monkeypatch.setattr("gammaprime.cli.doctor._installed", lambda name: name != "ray")
    monkeypatch.setattr("gammaprime.runs.provenance.num_cores", lambda: 2)
    assert run("doctor") == 0
    out = capsys.readouterr().out
    assert re.search(r"train --threads 2 .*: Ant-v4 \d+\.\d, HalfCheetah-v4 \d+\.\d x", out)
    assert "missing ray: pip install 'gammaprime[ray]'" in out
    assert re.search(r"\[train\] +complete", out)
    assert "compiled programs" in out
    assert "libmujoco" in out


@pytest.mark.parametrize("name", ["jax", "tyro", "safetensors", "rich"])
def test_missing_extra__is_answered_with_the_line_that_installs_it(name):
    code = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name: None if name == {name!r} else find(name)\n"
        "from gammaprime.cli import main\n"
        "sys.exit(main(['train', 'ppo', '--task', 'Hopper-v4']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'gammaprime[train]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_of_train__needs_the_standard_library_alone():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['numpy', 'scipy', 'jax', 'tyro', 'rich']))\n"
        "from gammaprime.cli import main\n"
        "sys.exit(main(['train', '--help']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gammaprime train AGENT --task TASK" in done.stdout
    assert "ppo, trpo, pg, td3, ddpg or sac; also trpo-baselines, ddpg-spinning-up" in done.stdout


THREADS = """
import os, sys
from gammaprime.cli import main
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "jax"):
            print(name, os.environ.get("NPROC"), os.environ.get("OMP_NUM_THREADS"))
sys.meta_path.insert(0, Watch())
main(sys.argv[1:])
"""


def test_threads__are_one_before_numpy_and_jax_are_imported(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, "train", "ppo", "--task", "Nothing-v0"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert {"numpy 1 1", "jax 1 1"} <= set(done.stdout.splitlines())


def test_compilation_cache__drops_what_was_cut_short(tmp_path):
    code = (
        "import sys, jax\n"
        "from pathlib import Path\n"
        "from gammaprime.runs import startup\n"
        "startup.cache_compilations(Path(sys.argv[1]))\n"
        "jax.jit(lambda x: x * 3 + 1)(2.0)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    subprocess.run(command, check=True)
    entries = list(tmp_path.glob("*-cache"))
    assert entries
    whole = {entry: entry.stat().st_size for entry in entries}
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-5])
        os.utime(entry, (0, 0))  # a new one may still be written by another process
    subprocess.run(command, check=True)
    assert {entry: entry.stat().st_size for entry in entries} == whole
