"""`TaylorPPOLearner` in RLlib: learners and environment runners in this process, without Ray."""

import copy
import inspect
import itertools
import math

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.ppo_learner import PPOLearner
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.tune.registry import register_env

from gammaprime.agents import TaylorQ, TaylorWeight
from gammaprime.integrations.rllib import TaylorAdvantages, TaylorPPOLearner
from integrations import pages, written_out
from integrations.settings import EXPANSIONS, GAMMA, LAM, NUM_ENVS, NUM_STEPS, ONES, PLAIN
from integrations.tasks import Choice, Ends, check_waiting

pytestmark = pytest.mark.filterwarnings("ignore")

MODULE = "default_policy"


def make_config(task=Ends, num_envs=NUM_ENVS, size=8, slots=None, **training):
    """PPO's configuration, with our learner if there are slots."""
    numbers = itertools.count()
    make = (lambda _: Ends(seed=next(numbers))) if task is Ends else (lambda _: task())
    register_env("task", make)
    usual = {"gamma": GAMMA, "lambda_": LAM, "lr": 0.01, "use_kl_loss": False}
    config = (
        PPOConfig()
        .environment("task")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs)
        .training(**(usual | training))
        .rl_module(model_config={"fcnet_hiddens": [size], "vf_share_layers": False})
        .debugging(seed=0)
    )
    if slots is not None:
        config = config.learners(learner_class=TaylorPPOLearner, learner_config_dict=slots)
    return config


class Trainer:
    """A learner and an environment runner that take turns, as PPO's training step does."""

    def __init__(self, config):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        self.runner = SingleAgentEnvRunner(config=config)
        spaces = {
            MODULE: (self.runner.env.single_observation_space, self.runner.env.single_action_space)
        }
        self.learner = config.build_learner(spaces=spaces)
        if not self.learner._is_built:
            self.learner.build()
        torch.manual_seed(1)

    def sample(self, num_steps):
        weights = self.learner.module[MODULE].get_state()
        self.runner.module.set_state(weights)
        return self.runner.sample(num_timesteps=num_steps, explore=True)

    def train(self, rollouts=3, num_steps=NUM_ENVS * NUM_STEPS, **settings):
        for _ in range(rollouts):
            episodes = self.sample(num_steps)
            usual = {"minibatch_size": 16, "num_epochs": 2}
            self.results = self.learner.update(episodes=episodes, **(usual | settings))
        return self.parameters()

    def parameters(self):
        module = self.learner.module[MODULE]
        return torch.cat([x.detach().flatten() for x in module.parameters()])

    def connect(self, episodes):
        """Return the batch that the pipeline makes of episodes, which are left alone."""
        return self.learner._learner_connector(
            rl_module=self.learner.module,
            batch={},
            episodes=copy.deepcopy(episodes),
            shared_data={},
            metrics=self.learner.metrics,
        )[MODULE]


def test_nothing_asked__nothing_changed():
    plain = Trainer(make_config()).train()
    for slot in PLAIN:
        slots = {"advantage": slot, "weighting": ONES}
        assert torch.equal(Trainer(make_config(slots=slots)).train(), plain)
    changed = Trainer(make_config(slots={"advantage": TaylorQ(0.99)})).train()
    assert not torch.equal(changed, plain)


@pytest.mark.parametrize("slot", EXPANSIONS, ids=str)
def test_advantages__are_sums_over_episodes(slot):
    trainer, kinds = Trainer(make_config(slots={"advantage": slot})), set()
    plain = GeneralAdvantageEstimation(gamma=GAMMA, lambda_=LAM)
    for _ in range(3):
        episodes = trainer.sample(NUM_ENVS * NUM_STEPS)
        batch = trainer.connect(episodes)
        with torch.no_grad():
            values = trainer.learner.module[MODULE].compute_values(batch).tolist()
        real = batch[Columns.LOSS_MASK].tolist()
        table, first = [], 0
        for episode in episodes:
            rows = range(first, first + len(episode))
            ends = [
                [False] * (len(episode) - 1) + [flag]
                for flag in (bool(episode.is_terminated), not episode.is_terminated)
            ]
            kinds.add((bool(episode.is_terminated), bool(episode.is_truncated)))
            rewards = [float(x) for x in episode.get_rewards()]
            following = [values[t + 1] for t in rows]
            table.append((rewards, [values[t] for t in rows], following, *ends))
            first += len(episode) + 1
        raw = iter(np.concatenate(written_out.expanded(slot, table, GAMMA, LAM)))
        # The row behind every chunk has an advantage too, which counts in the standardisation.
        targets = batch[Postprocessing.VALUE_TARGETS]
        filler = (targets - torch.tensor(values)).tolist()
        expected = np.array([next(raw) if r else filler[t] for t, r in enumerate(real)])
        expected = (expected - expected.mean()) / expected.std()
        found = batch[Postprocessing.ADVANTAGES].numpy()[real]
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected[real], rtol=1e-5, atol=1e-5 * scale)
        usual = dict(batch)
        plain(
            rl_module=trainer.learner.module, episodes=Lengthened(episodes), batch={MODULE: usual}
        )
        assert torch.equal(usual[Postprocessing.VALUE_TARGETS], targets)
        trainer.learner.update(episodes=episodes)
    assert kinds == {(False, False), (True, False), (False, True), (True, True)}


class Lengthened(list):
    """Episodes with the length that they have in the pipeline."""

    def __init__(self, episodes):
        from ray.rllib.utils.postprocessing.episodes import add_one_ts_to_episodes_and_truncate

        super().__init__(copy.deepcopy(episodes))
        add_one_ts_to_episodes_and_truncate(self)


def test_ages__are_the_environments_own_across_rollouts():
    """w_0(t) = γ^t tells the age."""
    trainer = Trainer(make_config(slots={"weighting": TaylorWeight(0.99, 0)}))
    plain = Trainer(make_config())
    tasks = [env.unwrapped for env in trainer.runner.env.unwrapped.envs]
    counts = []
    for _ in range(3):
        episodes = trainer.sample(NUM_ENVS * NUM_STEPS)
        weighted = trainer.connect(episodes)
        plain.learner.module[MODULE].set_state(trainer.learner.module[MODULE].get_state())
        real = weighted[Columns.LOSS_MASK]
        share = weighted[Postprocessing.ADVANTAGES] / plain.connect(episodes)["advantages"]
        counts.extend(torch.log(share[real]).div(math.log(GAMMA)).round().int().tolist())
        trainer.learner.update(episodes=episodes)
    ages = [age for task in tasks for *_, age in task.history]
    assert max(ages) > 3
    assert sorted(counts) == sorted(ages)


@pytest.mark.parametrize("expand", [False, True])
def test_one_step__is_that_of_the_weighted_loss_by_autograd(expand):
    slots = {"weighting": TaylorWeight(0.97, 2)}
    slots |= {"advantage": TaylorQ(0.97)} if expand else {}
    trainer = Trainer(make_config(slots=slots, clip_param=0.02, vf_clip_param=1e9, grad_clip=None))
    learner = trainer.learner
    episodes = trainer.sample(NUM_ENVS * NUM_STEPS)
    batch = trainer.connect(episodes)
    unweighted = Trainer(make_config(slots=dict(slots, weighting=ONES)))
    unweighted.learner.module[MODULE].set_state(learner.module[MODULE].get_state())
    advantage = unweighted.connect(episodes)[Postprocessing.ADVANTAGES]
    ages = np.concatenate([e.t_started + np.append(np.arange(len(e)), 0) for e in episodes])
    weight = torch.tensor([written_out.update_weight(int(t), GAMMA, 0.97, 2) for t in ages]).float()
    twin = copy.deepcopy(learner.module[MODULE])
    mask = batch[Columns.LOSS_MASK]
    out = twin.forward_train(batch)
    dist = twin.get_train_action_dist_cls().from_logits(out[Columns.ACTION_DIST_INPUTS])
    ratio = (dist.logp(batch[Columns.ACTIONS]) - batch[Columns.ACTION_LOGP]).exp()
    near = ratio.clamp(0.98, 1.02)
    gain = (weight * torch.min(ratio * advantage, near * advantage))[mask].mean()
    error = (twin.compute_values(batch) - batch[Postprocessing.VALUE_TARGETS])[mask].pow(2).mean()
    (error - gain).backward()
    loss = learner.compute_losses(
        fwd_out=learner.module.forward_train({MODULE: batch}), batch={MODULE: batch}
    )[MODULE]
    grads = torch.autograd.grad(loss, list(learner.module[MODULE].parameters()), allow_unused=True)
    for mine, theirs in zip(twin.parameters(), grads, strict=True):
        if mine.grad is not None:
            torch.testing.assert_close(theirs, mine.grad, rtol=1e-4, atol=1e-6)


def test_learning__order_3_waits_where_the_plain_trainer_takes_what_it_gets():
    settings = {"gamma": 0.5, "lambda_": 1.0, "clip_param": 0.9, "lr": 0.01}

    def train(slot):
        slots = None if slot is None else {"advantage": slot}
        trainer = Trainer(make_config(Choice, 1, 64, slots, **settings))
        trainer.train(12, 384, minibatch_size=None, num_epochs=20)
        first = {Columns.OBS: torch.eye(12)[:1]}
        logits = trainer.learner.module[MODULE].forward_inference(first)[Columns.ACTION_DIST_INPUTS]
        return logits.softmax(-1)[0, 1].item()

    check_waiting(train)


def test_numbers__are_logged_beside_the_losses():
    slots = {"advantage": {"gamma_prime": 0.97}, "weighting": {"gamma_prime": 0.97}}
    trainer = Trainer(make_config(slots=slots))
    trainer.train(1)
    for name in ("added", "tail_share", "survival", "mean_weight"):
        assert math.isfinite(float(trainer.results[MODULE][f"taylor/{name}"]))


def test_tail__that_decides_more_than_half_is_told():
    slots = {"advantage": TaylorQ(0.999, order=math.inf)}
    with pytest.warns(UserWarning, match=r"tail_share=.*train_batch_size_per_learner"):
        Trainer(make_config(slots=slots)).train(1, 9)


def test_state_of_the_module__is_that_of_ppo():
    """A checkpoint of the module holds nothing of ours."""
    ours = Trainer(make_config(slots={"advantage": TaylorQ()})).learner.module[MODULE].get_state()
    assert set(ours) == set(Trainer(make_config()).learner.module[MODULE].get_state())


def recurrent(config):
    return config.rl_module(model_config={"use_lstm": True, "max_seq_len": 4})


@pytest.mark.parametrize(
    ("slots", "change", "message"),
    [
        ({"advantage": TaylorQ(0.5)}, None, r"gamma_prime=0.5: must lie in \[gamma"),
        ({}, None, "at least one of them must be given"),
        ({"advantage": {"odrer": 1}}, None, "unexpected keyword"),
        ({"advantage": TaylorQ()}, recurrent, "padded recurrent batches cannot be expanded"),
        (
            {"advantage": TaylorQ()},
            lambda c: c.learners(add_default_connectors_to_learner_pipeline=False),
            "add_default_connectors_to_learner_pipeline=False: must be True",
        ),
    ],
    ids=["gamma", "nothing", "key", "recurrent", "connectors"],
)
def test_bad_input__is_refused_when_the_learner_is_built(slots, change, message):
    config = make_config(slots=slots)
    with pytest.raises(ValueError, match=message):
        Trainer(change(config) if change else config)


def test_names_that_the_adapter_leans_on():
    """A canary: fails where RLlib has changed under us."""
    source = inspect.getsource(GeneralAdvantageEstimation.__call__)
    assert "module_advantages - module_advantages.mean()) / max(" in source
    assert "1e-4, module_advantages.std()" in source
    assert ".append(" in inspect.getsource(PPOLearner.build)
    wanted = {"rl_module", "episodes", "batch"}
    assert wanted <= set(inspect.signature(TaylorAdvantages.__call__).parameters)
    assert wanted <= set(inspect.signature(GeneralAdvantageEstimation.__call__).parameters)


def test_page__runs_as_printed():
    trainer = Trainer(pages.run("rllib")["config"].env_runners(num_env_runners=0))
    assert trainer.train(1, 64).isfinite().all()
    assert "taylor/added" in trainer.results[MODULE]
