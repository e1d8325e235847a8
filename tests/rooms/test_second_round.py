"""The second round compares what the rule chooses from the first, and decides the advice."""

import pytest

import gammaprime as gp
from gammaprime.agents.advantages import GAE
from gammaprime.agents.trpo import TRPO
from gammaprime.cli.options import parse
from gammaprime.figures import options
from gammaprime.sweeps import spec
from results_tool import advice, claims, make_results, second_round
from tests.figures import fake_runs

BEST = {"learned terms, K = 3": 3000.0, "weights, K = ∞, normalised": 2000.0}
MATCHED = {"learned terms, K = 3": "PPO 0.99709", "weights, K = ∞, normalised": "PPO 0.999"}


def first_round(folder, share=lambda run: 1.0):
    """A first round in which the candidates of BEST end above the others."""
    sweep = spec.load_experiment("ours")
    fake_runs.write(sweep, folder, lambda run: BEST.get(run.variant, 1000.0) + run.seed, share)
    return claims.Shown(options.read(sweep), sweep.results(folder))


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    written = second_round.write_specs(first_round(tmp_path_factory.mktemp("first")))
    return {name: fake_runs.load(text, name) for name, text in written.items()}


def agents(sweep):
    return {variant.name: variant.config.agent for variant in sweep.variants}


def test_second_round__has_the_two_best_beside_ppo_and_its_matched_discounts(specs):
    found, first = agents(specs["ours_second"]), agents(spec.load_experiment("ours"))
    assert list(found) == ["PPO", "PPO 0.99709", "PPO 0.999", *BEST]
    assert {name: found[name] for name in ("PPO", *BEST)} == {
        name: first[name] for name in ("PPO", *BEST)
    }
    assert [found[name].gamma for name in MATCHED.values()] == [0.99709, 0.999]
    assert specs["ours_second"].seeds == tuple(range(10))


def test_second_round__compares_each_with_its_own_matched_discount_and_with_ppo(specs):
    asked = options.read(specs["ours_second"]).compare
    expanded = [(name, rival) for name in BEST for rival in (MATCHED[name], "PPO")]
    assert asked == (*expanded, *((rival, "PPO") for rival in MATCHED.values()))


def test_trpo__has_the_same_slots_and_shares_its_plain_runs_with_learning_onpolicy(specs):
    plain, *expanded = agents(specs["ours_trpo"]).values()
    first = agents(spec.load_experiment("ours"))
    assert plain == agents(spec.load_experiment("learning_onpolicy"))["TRPO"]
    assert all(isinstance(agent, TRPO) and agent.normalise_obs for agent in expanded)
    slots = [(agent.advantage, agent.weighting) for agent in expanded]
    assert slots == [(first[name].advantage, first[name].weighting) for name in BEST]
    assert specs["ours_trpo"].seeds == tuple(range(5))


@pytest.mark.parametrize("name", ["centred scan, K = 1", "averaged weights, K = 10"])
def test_matched_discount__of_an_order_is_the_one_that_the_first_round_has(name):
    gammas = [agent.gamma for agent in agents(spec.load_experiment("ours")).values()]
    assert second_round.matched_discount(name) in gammas


def test_matched_discount__of_two_slots_is_that_of_the_advantage():
    both = "learned terms, K = 1, and weights, K = ∞"
    assert not isinstance(agents(spec.load_experiment("ours"))[both].advantage, GAE)
    assert second_round.matched_discount(both) == 0.99474


def test_incomplete_first_round__chooses_nothing(tmp_path):
    control = "control: learned terms unused"
    shown = first_round(tmp_path, lambda run: 0.5 if run.variant == control else 1.0)
    assert second_round.write_specs(shown) == {}
    assert "nothing is chosen yet" in make_results.round_block(shown)


def test_shipped_specs__are_those_that_the_published_first_round_writes():
    sweeps = make_results.load(make_results.PUBLISHED / "runs")
    written = second_round.write_specs(sweeps["ours"])
    shipped = {name for name in spec.shipped() if name.startswith("ours_")}
    assert shipped == set(written)
    for name, text in written.items():
        assert (second_round.EXPERIMENTS / f"{name}.toml").read_text("utf-8") == text


@pytest.fixture
def judge(specs, tmp_path):
    """What is published of a second round whose variants end at ``levels``, or else at 1000."""

    def make(levels, share=lambda run: 1.0):
        sweep = specs["ours_second"]
        fake_runs.write(sweep, tmp_path, lambda r: levels.get(r.variant, 1000.0) + r.seed, share)
        shown = claims.Shown(options.read(sweep), sweep.results(tmp_path))
        sweeps = {"ours_second": shown}
        return shown, claims.decide(claims.claims_of("ours_second", shown), sweeps)

    return make


@pytest.mark.parametrize(
    ("levels", "advised"),
    [
        ({"learned terms, K = 3": 2000.0}, "learned terms, K = 3"),
        (BEST, "learned terms, K = 3"),
        ({"weights, K = ∞, normalised": 2000.0}, "weights, K = ∞, normalised"),
        # Above PPO alone is not enough: the discount does as well.
        ({"learned terms, K = 3": 2000.0, "PPO 0.99709": 2000.0}, "PPO 0.99709"),
        ({"PPO 0.999": 2000.0}, "PPO 0.999"),
        ({}, "PPO"),
        ({"learned terms, K = 3": 500.0, "PPO 0.999": 500.0}, "PPO"),
    ],
)
def test_advice__is_the_first_that_ends_higher_than_all_it_is_compared_with(judge, levels, advised):
    shown, decisions = judge(levels)
    assert advice.recommend(decisions) == advised
    assert advice.use_block(shown, decisions).startswith(f"**{advised}**: ")
    assert advice.evidence(shown, decisions).startswith(f"Use {advised}: ")


def test_advice__tells_the_lines_to_type_and_every_comparison_that_it_rests_on(judge):
    text = advice.use_block(*judge(BEST))
    assert "it ended higher than PPO 0.99709 and than PPO." in text
    assert "agent = gp.PPO(advantage=gp.TaylorCritic(order=3))\n" in text
    line = "gammaprime train ppo --task HalfCheetah-v4 advantage:taylor-critic --advantage.order 3"
    assert f"{line}\n" in text
    assert text.count("\n- ") == 2
    assert "\n- learned terms, K = 3: higher than PPO. Holds: probability" in text
    assert advice.use_block(*judge({})).count("\n- ") == 6


def test_advice__waits_until_all_runs_of_the_second_round_are_there(judge):
    shown, decisions = judge(BEST, lambda run: 0.5 if run.seed == 9 else 1.0)
    for found in (shown, None):
        assert advice.use_block(found, decisions) == advice.WAITING
        assert "No expansion has been shown" in advice.evidence(found, decisions)


@pytest.mark.parametrize("name", list(agents(spec.load_experiment("ours"))))
def test_lines_of_python_and_shell__are_the_agent(name):
    agent = agents(spec.load_experiment("ours"))[name]
    assert eval(advice.in_python(agent), {"gp": gp}) == agent
    assert parse(advice.in_shell(agent, "Ant-v4").split())[0] == agent
