"""`DensityRatio` in TorchRL's SACLoss and TD3Loss."""

import copy
import inspect
import math
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from tensordict import TensorDict
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.data import Bounded, LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.data.replay_buffers.writers import TensorDictMaxValueWriter
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import DQNLoss, SACLoss, TD3Loss

    from gammaprime import agents
    from gammaprime.integrations.torchrl import DensityRatio

pytestmark = pytest.mark.filterwarnings("ignore")

BATCH, SIZE = 16, 64


def make_loss(kind, **settings):
    torch.manual_seed(0)
    box = Bounded(-1.0, 1.0, (2,))
    critic = ValueOperator(torch.nn.Linear(5, 1), in_keys=["observation", "action"])
    critic.module = Joined()
    if kind is TD3Loss:
        actor = TensorDictModule(torch.nn.Linear(3, 2), ["observation"], ["action"])
        return TD3Loss(actor, critic, action_spec=box, **settings)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), NormalParamExtractor())
    module = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
    actor = ProbabilisticActor(
        module, in_keys=["loc", "scale"], distribution_class=TanhNormal, spec=box
    )
    return SACLoss(actor, critic, action_spec=box, **settings)


class Joined(torch.nn.Module):
    """A critic of states and actions."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )

    def forward(self, observation, action):
        return self.net(torch.cat([observation, action], -1))


def make_replay(fill=100, size=SIZE):
    generator = torch.Generator().manual_seed(1)
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(size), batch_size=BATCH)
    draw = lambda n: torch.randn(fill, n, generator=generator)  # noqa: E731
    never = torch.zeros(fill, 1, dtype=torch.bool)
    after = {"observation": draw(3), "reward": draw(1), "done": never, "terminated": never}
    data = {"observation": draw(3), "action": draw(2).tanh(), "next": after}
    rows = TensorDict(data | {"row": torch.arange(fill)[:, None]}, [fill])
    for part in rows.split(7):
        replay.extend(part)
    return replay


def gradients(loss, batch):
    loss.zero_grad()
    torch.manual_seed(3)
    losses = loss(batch.clone())
    sum(value for name, value in losses.items() if name.startswith("loss_")).backward()
    return {name: x.grad.clone() for name, x in loss.named_parameters() if x.grad is not None}


@pytest.mark.parametrize("kind", [SACLoss, TD3Loss])
@pytest.mark.parametrize("scale", ["sum", "paper"])
@pytest.mark.parametrize("priority", [False, True])
def test_actor_gradient__is_the_sum_of_weighted_gradients(kind, scale, priority):
    replay, loss = make_replay(), make_loss(kind)
    batch = replay.sample()
    if priority:
        batch["priority_weight"] = torch.rand(BATCH)
    plain = gradients(loss, batch)
    slot = agents.DensityRatio(2.0, scale, recent_size=20)
    hook = DensityRatio(loss, replay, slot, hidden=(8,), learning_rate=1e-3)
    gradients(loss, batch)
    with torch.no_grad():  # a ratio that differs between states
        for x in hook.ratio.network.parameters():
            x.mul_(3.0)
    network = copy.deepcopy(hook.ratio.network)
    weighted = gradients(loss, batch)
    hook.remove()
    logs = torch.nn.functional.softplus(network(batch["observation"])).log()[:, 0]
    weight = torch.softmax(2.0 * logs, 0).detach()
    assert weight.max() > 1.3 / BATCH
    if priority:
        weight = weight * batch["priority_weight"]
        weight = weight / weight.sum()
    if scale == "paper":
        weight = weight / BATCH
    # Row by row: the gradient of the loss of a single sample, on the same noise.
    loss.zero_grad()
    loss.reduction = "none"
    torch.manual_seed(3)
    rows = loss(batch.exclude("priority_weight"))["loss_actor"]
    (weight * rows).sum().backward()
    actor = [name for name in weighted if name.startswith("actor")]
    assert actor
    for name, parameter in loss.named_parameters():
        if name in actor:
            size = parameter.grad.abs().max().item()
            torch.testing.assert_close(weighted[name], parameter.grad, rtol=1e-4, atol=1e-5 * size)
        elif name in weighted:
            assert torch.equal(weighted[name], plain[name])


@pytest.mark.parametrize("kind", [SACLoss, TD3Loss])
def test_temperature_0__is_the_plain_loss_bit_for_bit(kind):
    replay, loss = make_replay(), make_loss(kind)
    batch = replay.sample()
    plain = gradients(loss, batch)
    hook = DensityRatio(loss, replay, {"inverse_temperature": 0.0, "recent_size": 20})
    found = gradients(loss, batch)
    assert hook.numbers["density_ratio/effective_share"] == pytest.approx(1.0)
    assert all(torch.equal(found[name], plain[name]) for name in plain)


def test_removed__the_loss_is_its_own_again():
    replay, loss = make_replay(), make_loss(SACLoss)
    batch = replay.sample()
    plain, names = gradients(loss, batch), set(loss.state_dict())
    hook = DensityRatio(loss, replay, {"inverse_temperature": 2.0, "recent_size": 20})
    assert set(loss.state_dict()) == names
    changed = gradients(loss, batch)
    assert any(not torch.equal(changed[name], plain[name]) for name in plain)
    hook.remove()
    found = gradients(loss, batch)
    assert all(torch.equal(found[name], plain[name]) for name in plain)


def test_recent_states__are_the_latest():
    """100 steps in a replay of 64: rows 80 to 99 are the latest 20."""
    replay, loss, seen = make_replay(), make_loss(SACLoss), set()
    hook = DensityRatio(loss, replay, {"recent_size": 20, "batch_size": 200})
    read = hook._read_states

    def spy(tensordict):
        if len(tensordict) == 200:
            seen.update(tensordict["row"].flatten().tolist())
        return read(tensordict)

    hook._read_states = spy
    gradients(loss, replay.sample())
    assert seen == set(range(80, 100))


class Told:
    def __init__(self):
        self.names = set()

    def log_scalar(self, name, value, step=None):
        assert math.isfinite(value)
        self.names.add(name)


def test_numbers__are_logged():
    replay, loss, logger = make_replay(), make_loss(TD3Loss), Told()
    DensityRatio(loss, replay, {"recent_size": 20}, logger=logger)
    gradients(loss, replay.sample())
    assert logger.names == {"density_ratio/loss", "density_ratio/effective_share"}


def best_writer():
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(SIZE), writer=TensorDictMaxValueWriter(), batch_size=4
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: (DQNLoss.__new__(DQNLoss), make_replay()), "loss=DQNLoss: must be SACLoss"),
        (lambda: (make_loss(SACLoss, reduction="sum"), make_replay()), "reduction='sum'"),
        (
            lambda: (make_loss(SACLoss, use_prioritized_weights=False), make_replay()),
            "use_prioritized_weights=False: must be True",
        ),
        (lambda: (make_loss(SACLoss), best_writer()), "overwrites its oldest entries"),
        (lambda: (make_loss(SACLoss), make_replay(size=20)), "recent_size=20: must be below"),
        (lambda: (make_loss(SACLoss), make_replay(), {"tau": 1}), "unexpected keyword"),
        (
            lambda: (make_loss(SACLoss), make_replay(), {"gamma_prime": 0.9}),
            "gamma_prime=0.9: must be 1, a replay buffer has no ages",
        ),
    ],
)
def test_bad_input__is_refused_and_nothing_is_changed(make, message):
    loss, replay, *more = make()
    with pytest.raises(ValueError, match=message):
        DensityRatio(loss, replay, *(more or [{"recent_size": 20}]))
    assert "actor_loss" not in vars(loss)


def test_two_ratios__are_one_too_many():
    replay, loss = make_replay(), make_loss(SACLoss)
    DensityRatio(loss, replay, {"recent_size": 20})
    with pytest.raises(ValueError, match="must hold one DensityRatio, not two"):
        DensityRatio(loss, replay, {"recent_size": 20})


@pytest.mark.parametrize("kind", [SACLoss, TD3Loss])
def test_names_that_the_adapter_leans_on(kind):
    """A canary: fails where TorchRL has changed under us."""
    assert list(inspect.signature(kind.actor_loss).parameters) == ["self", "tensordict"]
    assert "self.actor_loss(tensordict)" in inspect.getsource(kind.forward)
    source = inspect.getsource(kind.actor_loss)
    assert "self._maybe_get_priority_weight(tensordict)" in source
    assert "self._reduce_loss(" in source
    loss = make_loss(kind)
    assert (loss.reduction, loss.use_prioritized_weights) == ("mean", "auto")
    assert loss.tensor_keys.priority_weight == "priority_weight"
    replay = make_replay(10)
    assert replay.write_count == 10
    assert replay.storage.max_size == SIZE
