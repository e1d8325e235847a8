"""[figure]: what it may say, its defaults, and which variants it compares."""

import pytest

from figures import fake_runs
from gammaprime.figures import options
from gammaprime.sweeps import spec


def shipped_sweeps():
    return sorted({*spec.shipped()} - {"fig_errors", "weights"})


COMPARE = 'compare = [["PPO 0.999", "PPO"], ["PPO(K)", "PPO"]]'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (COMPARE, "compar = []", "unknown key 'compar': did you mean 'compare'"),
        (COMPARE, 'baseline = "PPO"', "unknown key 'baseline'"),
        (COMPARE, 'compare = [["PPQ", "PPO(K)"]]', "unknown variant 'PPQ': did you mean 'PPO'"),
        (COMPARE, 'compare = "PPO"', "compare='PPO': must be a list of pairs of variants"),
        (COMPARE, 'compare = ["PPO", "PPO(K)"]', "must be a list of pairs of variants"),
        (COMPARE, 'compare = [["PPO", "PPO(K)", "PPO 0.999"]]', "must be a list of pairs"),
        (COMPARE, "compare = [[1, 2]]", r"compare=\[1, 2\]: must be a list of variants"),
        (COMPARE, 'compare = [["PPO", "PPO"]]', "must name each once"),
        (
            COMPARE,
            'compare = [["PPO", "PPO(K)"], ["PPO(K)", "PPO"]]',
            "must name each pair once",
        ),
        (COMPARE, 'band = "median"', "unknown band 'median'"),
        (COMPARE, 'returns = "test"', "unknown returns 'test'"),
        (COMPARE, 'band = ["iqm"]', "unknown band"),
        (COMPARE, "last = 0", "last=0: must be an integer >= 1"),
        (COMPARE, "last = 0.5", "last=0.5: must be an integer >= 1"),
        (COMPARE, "spread = inf", "spread=inf: must be a number above 0"),
        (COMPARE, "levels = 3000", "levels=3000: must be a table of tasks and returns"),
        (COMPARE, 'levels = { "Hopper-v4" = "high" }', "Hopper-v4='high': must be a finite number"),
        (COMPARE, "panels = 3", "panels: is for the kind ablation, not curves"),
        (COMPARE, 'normalise_by = "PPO"', "normalise_by: is for the kind ablation, not curves"),
        ('kind = "curves"', 'kind = "ablation"', "key 'panels' is missing"),
        ('kind = "curves"', 'kind = "ablation"\npanels = 3', "panels: must be tables"),
        ('kind = "curves"', 'kind = "ablation"\npanels = []', "panels: must be tables"),
        ('kind = "curves"', 'kind = "ablation"\npanels = [3]', "panels: must be tables"),
    ],
)
@pytest.mark.parametrize("changes", [{}, {"seeds": [0, 1]}, {"steps": 20_480}])
def test_options__refuse_what_nobody_reads(old, new, message, changes):
    assert old in fake_runs.CURVES
    sweep = fake_runs.load(fake_runs.CURVES.replace(old, new)).change(**changes)
    with pytest.raises(ValueError, match=message):
        options.read(sweep)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("values = [0, inf]", "values = [0]", "must have as many values as variants"),
        ("values = [0, inf]", 'values = [0, "inf"]', "must be a list of numbers"),
        ("values = [0, inf]", "values = 0", "must be a list of numbers"),
        ('variants = ["PPO", "K = ∞"]', 'variants = ["PPO", "K"]', "unknown variant 'K'"),
        ('variants = ["PPO", "K = ∞"]', "variants = 2", "panel 'K': variants=2: must be a list"),
        ('label = "K"', 'labl = "K"', "did you mean 'label'"),
        ('normalise_by = "PPO"', 'normalise_by = "PPQ"', "unknown variant 'PPQ'"),
        ('normalise_by = "PPO"', "normalise_by = 3", r"normalise_by=\[3\]: must be a list"),
    ],
)
def test_options__refuse_panels_that_cannot_be_drawn(old, new, message):
    assert old in fake_runs.ABLATION
    with pytest.raises(ValueError, match=message):
        options.read(fake_runs.load(fake_runs.ABLATION.replace(old, new)))


def test_compare__is_each_other_variant_with_the_first_unless_it_is_given():
    read = options.read(fake_runs.load(fake_runs.CURVES.replace(COMPARE, "")))
    assert read.compare == (("PPO 0.999", "PPO"), ("PPO(K)", "PPO"))
    text = fake_runs.CURVES.replace(COMPARE, 'compare = [["PPO(K)", "PPO 0.999"]]')
    assert options.read(fake_runs.load(text)).compare == (("PPO(K)", "PPO 0.999"),)
    text = fake_runs.CURVES.replace(COMPARE, "compare = []")
    assert options.read(fake_runs.load(text)).compare == ()


def test_compare__of_an_ablation_is_with_what_it_normalises_by():
    text = fake_runs.ABLATION.replace('normalise_by = "PPO"', 'normalise_by = "K = ∞"')
    read = options.read(fake_runs.load(text))
    assert read.compare == (("PPO", "K = ∞"), ("η = 0.02", "K = ∞"))


def test_groups__are_the_variants_that_comparisons_connect_in_the_order_of_the_spec():
    read = options.read(spec.load_experiment("table_td3"))
    assert read.groups == [("TD3(γ)", "TD3", "DDPG-v1"), ("SAC(γ)", "SAC", "DDPG-v2")]
    read = options.read(spec.load_experiment("learning_onpolicy"))
    assert read.groups == [("PPO", "TRPO"), ("PPO, PyBullet",)]


def test_band__can_be_replaced():
    assert options.read(fake_runs.load(fake_runs.CURVES), "iqm").band == "iqm"


@pytest.mark.parametrize("name", shipped_sweeps())
def test_options__of_every_shipped_sweep_can_be_read(name):
    read = options.read(spec.load_experiment(name))
    assert read.compare or name == "learning_classic"  # each variant has a task of its own
    assert bool(read.panels) == (read.kind == "ablation")


@pytest.mark.parametrize(
    ("name", "claimed"),
    [
        (
            "fig_onpolicy",
            {("PPO(K)", "PPO"), ("PPO(K)", "PPO 0.999"), ("PPO 0.999", "PPO")},
        ),
        (
            "fig_onpolicy_state",
            {
                ("weighted PPO(K)", "PPO"),
                ("PPO + time", "PPO"),
                ("weighted PPO(K)", "PPO + time"),
            },
        ),
        (
            "fig_separating",
            {("TD(Δ)", "PPO"), ("TD(Δ) 0.999", "PPO"), ("TD(Δ) 0.999", "PPO 0.999")},
        ),
        ("fig_td3", {("TD3(γ)", "TD3"), ("TD3(γ)", "DDPG"), ("TD3(γ)", "PPO")}),
        ("fig_sac", {("SAC(γ)", "SAC")}),
        ("table_td3", {("TD3(γ)", "TD3"), ("SAC(γ)", "SAC")}),
    ],
)
def test_options__compare_every_pair_that_the_paper_claims_something_of(name, claimed):
    assert claimed <= set(options.read(spec.load_experiment(name)).compare)


@pytest.mark.parametrize("name", shipped_sweeps())
def test_figure_of_the_paper__comes_with_what_the_paper_claims(name):
    sweep = spec.load_experiment(name)
    assert bool(sweep.paper) == bool(sweep.claim)


def test_options__drop_variants_that_other_tasks_leave_out():
    text = fake_runs.CURVES.replace('name = "PPO"\n', 'name = "PPO"\ntasks = ["Ant-v4"]\n')
    text = text.replace(COMPARE, 'compare = [["PPO(K)", "PPO"], ["PPO(K)", "PPO 0.999"]]')
    read = options.read(fake_runs.load(text).change(tasks=["Hopper-v4"]))
    assert read.compare == (("PPO(K)", "PPO 0.999"),)
    text = fake_runs.ABLATION.replace('name = "PPO"\n', 'name = "PPO"\ntasks = ["Ant-v4"]\n')
    read = options.read(fake_runs.load(text).change(tasks=["Hopper-v4"]))
    assert read.normalise_by == "η = 0.02"
    assert [panel.variants for panel in read.panels] == [("η = 0.02",), ("K = ∞",)]


def test_options__refuse_an_ablation_of_which_other_tasks_leave_nothing():
    text = fake_runs.ABLATION.replace('variants = ["PPO", ', 'variants = ["K = ∞", ')
    text = text.replace('"K = ∞", "K = ∞"', '"K = ∞"').replace(
        "values = [0, inf]", "values = [inf]"
    )
    for name in ("η = 0.02", "K = ∞"):
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\ntasks = ["Ant-v4"]\n')
    sweep = fake_runs.load(text)
    assert len(options.read(sweep).panels) == 2
    with pytest.raises(ValueError, match="none of their variants is trained on these tasks"):
        options.read(sweep.change(tasks=["Hopper-v4"]))
