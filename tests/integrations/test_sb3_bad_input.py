"""Wrong input, broken training and saved models with `Taylor`."""

import copy
import warnings
import zipfile

import numpy as np
import pytest
import stable_baselines3 as sb3
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EveryNTimesteps

from gammaprime.agents import TaylorQ, TaylorWeight
from gammaprime.agents.weightings import AveragedWeight
from gammaprime.integrations import rollouts
from gammaprime.integrations.sb3 import Taylor
from integrations.trainers import ON_POLICY, make, parameters
from integrations.vec_envs import make_ends

SLOTS = TaylorQ(0.99, order=1), TaylorWeight(0.99, 3)
ROLLOUT = 48


@pytest.fixture(autouse=True)
def _short_rollouts():
    """They leave most of the expansion to the tail rule, which has a test of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="taylor/tail_share")
        yield


def test_tail_share__above_one_half_is_a_warning_once():
    model = make("A2C", make_ends(), n_steps=5, gamma=0.99)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(45, Taylor(TaylorQ(0.999)))
    assert [str(w.message)[:17] for w in caught] == ["taylor/tail_share"]


def test_report__counts_deaths_cuts_and_what_was_added():
    """γ = .5, γ' = .75, order 1: the first row sees −1 one step ahead, the others nothing."""
    slot = TaylorQ(0.75, order=1, center=False)
    advantage, value = np.array([[1.0], [-1.0], [1.0]]), np.zeros((3, 1))
    ends = np.array([[False], [True], [False]]), np.zeros((3, 1), dtype=bool)
    expanded = rollouts.expand_rollout(slot, advantage, value, value, ends, 0.5)
    np.testing.assert_allclose(expanded[:, 0], [1.0 - 0.25, -1.0, 1.0])
    report = rollouts.Report.of(slot, advantage, expanded, ends, 0.5)
    assert report.survival == pytest.approx(2 / 3)
    assert report.added == pytest.approx(np.std([-0.25, 0, 0]) / np.std([1.0, -1.0, 1.0]))
    # Of the last row's weights, halved at each step, all but the first lie past the cut.
    assert report.tail_share == pytest.approx(0.5 / 3)


def test_log__holds_four_numbers():
    class Look(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            names.update(self.logger.name_to_value)

    names = set()
    make("PPO", make_ends()).learn(ROLLOUT, [Taylor(*SLOTS), Look()])
    wanted = {"added", "tail_share", "survival", "mean_weight"}
    assert {name for name in names if name.startswith("taylor/")} == {f"taylor/{x}" for x in wanted}


def test_mappings__stand_for_slots():
    weights = {"gamma_prime": 0.99, "order": 3}
    taylor = Taylor({"gamma_prime": 0.99, "order": 2}, weights)
    assert taylor.slots.advantage == TaylorQ(0.99, order=2)
    assert taylor.slots.weighting == TaylorWeight(0.99, 3)
    assert Taylor({"kind": "taylor_q"}).slots.advantage == TaylorQ()
    assert not Taylor(TaylorQ(), {"kind": "uniform"}).slots.weighs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "at least one of them must be given"),
        ({"advantage": 0.99}, "advantage=0.99: must be TaylorQ or a mapping"),
        ({"advantage": TaylorWeight()}, "must be TaylorQ; weights go to weighting"),
        ({"advantage": {"gama_prime": 0.99}}, "gama_prime"),
        ({"advantage": {"kind": "td_delta"}}, "kind='td_delta' must be one of 'gae', 'taylor_q'"),
        ({"weighting": {"gamma_prime": 2.0}}, "gamma_prime=2.0"),
        ({"weighting": TaylorQ()}, "weighting=TaylorQ"),
        ({"weighting": AveragedWeight()}, "weighting=AveragedWeight"),
    ],
)
def test_slots__that_do_not_exist_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Taylor(**settings)


def assert_plain(model, kind=RolloutBuffer):
    assert type(model.rollout_buffer) is kind
    assert "taylor" not in vars(model.rollout_buffer)
    assert type(model) in {sb3.PPO, sb3.A2C}
    assert model.normalize_advantage is vars(model)["normalize_advantage"]


@pytest.mark.parametrize("slots", [(TaylorQ(0.5), None), (None, TaylorWeight(0.5))])
def test_gamma_prime_below_gamma__is_refused(slots):
    model = make("PPO", make_ends())
    with pytest.raises(ValueError, match="gamma_prime"):
        model.learn(ROLLOUT, Taylor(*slots))
    assert_plain(model)


def test_off_policy_trainers__are_refused():
    model = sb3.DQN("MlpPolicy", make_ends(1), buffer_size=99, device="cpu")
    with pytest.raises(ValueError, match="Taylor with DQN: must be an on-policy trainer"):
        model.learn(10, Taylor(*SLOTS))


def test_two_at_once_and_event_callbacks__are_refused():
    model = make("PPO", make_ends())
    with pytest.raises(ValueError, match="must hold one Taylor"):
        model.learn(ROLLOUT, [Taylor(*SLOTS), Taylor(*SLOTS)])
    for callback in (Taylor(*SLOTS), CallbackList([Taylor(*SLOTS)])):
        with pytest.raises(ValueError, match="Taylor inside EveryNTimesteps: must see every step"):
            model.learn(ROLLOUT, EveryNTimesteps(7, callback))
    model.learn(ROLLOUT, Taylor(*SLOTS))
    assert_plain(model)


class ChangeRewards(BaseCallback):
    def _on_step(self):
        self.locals["rewards"] += 1.0
        return True


def test_rewards_changed_afterwards__are_refused():
    make("PPO", make_ends()).learn(ROLLOUT, [ChangeRewards(), Taylor(*SLOTS)])
    with pytest.raises(ValueError, match="put Taylor behind the callback"):
        make("PPO", make_ends()).learn(ROLLOUT, [Taylor(*SLOTS), ChangeRewards()])


class BrokenError(Exception):
    """A training that breaks off."""


class BreakOff(BaseCallback):
    """Break off in the middle of a rollout, or of an update."""

    def __init__(self, where):
        super().__init__()
        self.where = where

    def _on_step(self):
        if self.where == "rollout" and self.n_calls == 20:
            raise BrokenError
        return True

    def _on_rollout_end(self):
        if self.where == "update":
            self.model.policy.evaluate_actions = self.fail

    def fail(self, *args):
        del self.model.policy.evaluate_actions
        raise BrokenError


@pytest.mark.parametrize("where", ["rollout", "update"])
def test_training_broken_off__saves_plain_and_goes_on_plain_without_the_callback(where, tmp_path):
    model = make("PPO", make_ends())
    # The exception, and with it the frames of the trainer, is kept alive, as in a notebook.
    with pytest.raises(BrokenError) as kept:
        model.learn(4 * ROLLOUT, [Taylor(*SLOTS), BreakOff(where)])
    model.save(tmp_path / "model")
    loaded = sb3.PPO.load(tmp_path / "model", env=make_ends())
    assert loaded.normalize_advantage
    assert_plain(loaded)
    twin = make("PPO", make_ends())
    twin.set_parameters(copy.deepcopy(model.get_parameters()))
    results = []
    for one in (model, twin):
        one.set_env(make_ends())
        one.set_random_seed(3)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Taylor is no longer among the callbacks")
            one.learn(2 * ROLLOUT)
        results.append(parameters(one))
    assert np.array_equal(*results)
    assert_plain(model)
    del kept


def test_training_that_goes_on_without_the_callback__says_so():
    model = make("PPO", make_ends())
    with pytest.raises(BrokenError):
        model.learn(4 * ROLLOUT, [Taylor(*SLOTS), BreakOff("rollout")])
    with pytest.warns(UserWarning, match="Taylor is no longer among the callbacks"):
        model.learn(ROLLOUT)


@pytest.mark.parametrize("name", ON_POLICY)
def test_saved_models__hold_nothing_of_ours(name, tmp_path):
    class Save(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            self.model.save(tmp_path / "during")

    model = make(name, make_ends())
    kind, buffer, standardise = type(model), type(model.rollout_buffer), model.normalize_advantage
    model.learn(ROLLOUT, [Taylor(*SLOTS), Save()])
    model.save(tmp_path / "after")
    for when in ("during", "after"):
        with zipfile.ZipFile(tmp_path / f"{when}.zip") as archive:
            for entry in archive.namelist():
                held = archive.read(entry).lower()
                assert b"gammaprime" not in held
                assert b"taylor" not in held
        loaded = kind.load(tmp_path / when, env=make_ends())
        assert (type(loaded), type(loaded.rollout_buffer)) == (kind, buffer)
        assert loaded.normalize_advantage is standardise


def test_users_own_buffer__keeps_its_class():
    class Mine(RolloutBuffer):
        pass

    model = make("PPO", make_ends(), rollout_buffer_class=Mine)
    model.learn(ROLLOUT, Taylor(*SLOTS))
    assert_plain(model, Mine)


def test_version__outside_the_tested_range_is_a_warning():
    import stable_baselines3

    version = stable_baselines3.__version__
    rollouts.check_version("stable_baselines3", "2.6.0", version)
    message = f"stable_baselines3 {version}: gammaprime.integrations is tested with 1.0.0 to 1.8.0"
    with pytest.warns(UserWarning, match=message):
        rollouts.check_version("stable_baselines3", "1.0.0", "1.8.0")


def test_version_of_sbx__is_checked_when_its_model_trains(monkeypatch):
    model = make("SBX", make_ends())
    monkeypatch.setattr(rollouts.importlib.metadata, "version", lambda name: "99.0")
    with pytest.warns(UserWarning, match=r"sbx-rl 99\.0: gammaprime\.integrations is tested with"):
        model.learn(ROLLOUT, Taylor(*SLOTS))


def test_names__that_are_gone_are_an_error_that_tells_which():
    rollouts.check_names(RolloutBuffer, "get")
    with pytest.raises(ImportError, match=r"RolloutBuffer has no fetch: this version"):
        rollouts.check_names(RolloutBuffer, "get", "fetch")
