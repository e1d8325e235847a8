"""TD(Δ): the published λ_z, and when the heads add up to a single critic."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gammaprime.estimators as est

GAMMAS = [0.5, 0.8, 0.9]


@pytest.fixture
def heads(rng):
    return rng.normal(size=(2, 3, 9, 6))


@pytest.mark.paper("x:td-delta")
@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        ("unbiased", [1.383, 1.120, 1.022, 0.980, 0.960, 0.95]),
        ("capped", [1, 1, 1, 0.980, 0.960, 0.95]),
        ("double_capped", [0.561, 0.763, 0.873, 0.931, 0.960, 0.95]),
    ],
)
def test_lambdas__are_those_of_the_published_settings(kind, printed):
    """λ .95, horizons 3.125, 6.25, …, 100.  First head, γ = 1 − 1/3.125 = .68: .95·.99/.68 =
    1.383, and 1.68/2·.68 − .01 = .561; fifth, γ = .98: .95·.99/.98 = .9597 < .9602 = .99·.98 − .01.
    """
    gammas = [1 - 1 / (3.125 * 2**z) for z in range(6)]
    assert_allclose(gammas, [0.68, 0.84, 0.92, 0.96, 0.98, 0.99])
    assert_allclose(est.td_delta_lambdas(gammas, 0.95, kind), printed, rtol=0, atol=5.1e-4)


@pytest.mark.paper("x:td-delta")
def test_unbiased_lambdas__make_the_heads_add_up_to_one_critic(batch, heads):
    """Romoff's equivalence, row by row, for any heads and any ends.

    The heads' TD errors add up because W_j(x') gets γ_j + Σ_{z>j}(γ_z − γ_{z−1}) = γ_Z, and
    their sums over time do because every head then decays by γ_z λ_z = γ_Z λ.
    """
    flags = batch.terminated, batch.truncated
    out = est.td_delta(batch.reward, *heads, *flags, GAMMAS, 0.7, "unbiased")
    one = est.gae(batch.reward, *heads.sum(axis=1), *flags, 0.9, 0.7)
    assert_allclose(out.head_advantages.sum(axis=0), one, atol=1e-12)
    assert_allclose(out.advantage, one, atol=1e-12)


@pytest.mark.paper("x:td-delta")
@pytest.mark.parametrize("kind", ["capped", "double_capped"])
def test_capped_lambdas__break_the_equivalence(batch, heads, kind):
    flags = batch.terminated, batch.truncated
    out = est.td_delta(batch.reward, *heads, *flags, GAMMAS, 0.7, kind)
    assert np.abs(out.head_advantages.sum(axis=0) - out.advantage).max() > 0.1


@pytest.mark.paper("x:td-delta", "lemma:value-mixture")
def test_heads_with_the_true_differences__have_no_advantage():
    """Reward 1 for ever: W_0 = 1/(1−γ_0), W_z = 1/(1−γ_z) − 1/(1−γ_{z−1}); no TD error is left."""
    values = 1 / (1 - np.array(GAMMAS))
    differences = np.diff(values, prepend=0.0)
    heads = np.broadcast_to(differences[:, None], (3, 4))
    never = np.zeros(4, dtype=bool)
    out = est.td_delta(np.ones(4), heads, heads, never, never, GAMMAS, 0.95, "double_capped")
    assert_allclose(out.head_advantages, 0.0, atol=1e-13)
    assert_allclose(out.targets, heads, rtol=1e-13)
    assert_allclose(out.advantage, 0.0, atol=1e-13)


@pytest.mark.paper("x:td-delta")
def test_last_row__pays_the_successors_value_not_its_own(batch, heads):
    """The public code swaps the two on the last row of each rollout."""
    _, next_values = heads
    rewards = est.td_delta_rewards(batch.reward, next_values, np.zeros((9, 6)), GAMMAS)
    assert_allclose(rewards[1, -1], 0.3 * next_values[0, -1])
    assert_allclose(rewards[2, -1], 0.1 * (next_values[0, -1] + next_values[1, -1]))


@pytest.mark.paper("x:td-delta")
def test_one_head__is_gae(batch):
    flags = batch.terminated, batch.truncated
    out = est.td_delta(
        batch.reward, batch.value[None], batch.all_next[None], *flags, [0.9], 0.7, "unbiased"
    )
    one = est.gae(batch.reward, batch.value, batch.all_next, *flags, 0.9, 0.7)
    assert_allclose(out.head_advantages[0], one, rtol=1e-13)
    assert_allclose(out.advantage, one, rtol=1e-13)
