"""A canary: fails where Stable-Baselines3, sb3-contrib or SBX have changed under the adapters."""

import inspect
import re
import subprocess
import sys

import pytest
import stable_baselines3 as sb3
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import EvalCallback

from integrations.test_sb3_off_policy import OFF_POLICY
from integrations.test_sb3_off_policy import find as find_off_policy
from integrations.test_sb3_off_policy import make as make_off_policy
from integrations.trainers import ON_POLICY, find, make
from integrations.vec_envs import make_ends


def parameters_of(function):
    return list(inspect.signature(function).parameters)


def in_order(text, *parts):
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


@pytest.mark.parametrize("name", ON_POLICY)
def test_on_policy_trainers__do_what_taylor_leans_on(name):
    kind = find(name)
    collect = inspect.getsource(kind.collect_rollouts)
    # A callback sees the reward, then γV(terminal) is added, then the buffer is told.
    seen, edited = "callback.on_step()", "rewards[idx] += self.gamma *"
    assert in_order(collect, "callback.on_rollout_start()", seen, edited, "rollout_buffer.add(")
    assert in_order(collect, "rollout_buffer.reset()", "callback.on_rollout_start()")
    assert in_order(collect, "compute_returns_and_advantage(", "callback.on_rollout_end()")
    # The flags of a step are kept by the model, as the same array, once the buffer is told.
    assert in_order(collect, seen, "rollout_buffer.add(", "self._last_episode_starts = dones\n")
    # The standardisation can be left out while a minibatch is worked on.
    assert in_order(
        inspect.getsource(kind.train), "rollout_buffer.get(", "self.normalize_advantage"
    )
    model = make(name, make_ends())
    buffer = type(model.rollout_buffer)
    assert issubclass(buffer, RolloutBuffer)
    assert parameters_of(buffer.compute_returns_and_advantage)[1:] == ["last_values", "dones"]
    assert parameters_of(buffer.get)[1:] == ["batch_size"]
    assert parameters_of(buffer._get_samples)[1] == "batch_inds"
    assert {"_last_episode_starts", "normalize_advantage"} <= set(vars(model))
    assert {"episode_starts", "rewards", "values", "advantages"} <= set(vars(model.rollout_buffer))


@pytest.mark.parametrize("name", OFF_POLICY)
def test_off_policy_trainers__do_what_density_ratios_lean_on(name):
    source = inspect.getsource(find_off_policy(name).train)
    (computed,) = re.findall(r"^ *actor_loss = (.+)$", source, re.MULTILINE)
    assert computed.endswith(".mean()")
    model = make_off_policy(name)
    layers = set(dict(model.actor.named_children()))
    assert {"mu", "features_extractor"} <= layers
    assert ("log_std" in layers) == (name in {"SAC", "TQC"})
    assert {"pos", "full", "observations"} <= set(vars(model.replay_buffer))
    assert parameters_of(ReplayBuffer._normalize_obs) == ["obs", "env"]


def test_evaluation__tells_of_every_step():
    wanted = ["self", "locals_", "globals_"]
    assert parameters_of(EvalCallback._log_success_callback) == wanted
    source = inspect.getsource(sb3.common.evaluation.evaluate_policy)
    assert in_order(source, "reward = rewards[i]", "done = dones[i]", "callback(locals(), globals(")
    assert "is_monitor_wrapped" in source


@pytest.mark.parametrize(
    ("place", "name"),
    [("buffers.BaseBuffer", "_normalize_obs"), ("policies.BaseModel", "extract_features")],
)
def test_names_of_density_ratios__that_are_gone_are_an_error_when_the_adapter_is_imported(
    place, name
):
    module, kind = place.split(".")
    source = f"from stable_baselines3.common.{module} import {kind}; del {kind}.{name}; "
    run = [sys.executable, "-c", source + "import gammaprime.integrations.sb3"]
    last = subprocess.run(run, capture_output=True, text=True).stderr.strip().splitlines()[-1:]
    assert last
    assert f"has no {name}: this version of the trainer has changed" in last[0]
