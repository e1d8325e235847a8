"""[figure]: what it may say, what stands for what it does not, and which variants it compares."""

import dataclasses

import pytest

from figures import fake_runs
from gammaprime.figures import options
from gammaprime.sweeps import spec


def shipped_sweeps():
    return sorted({*spec.shipped()} - {"fig_errors", "weights"})


FIGURE = 'kind = "curves"\nbaseline = "PPO"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('baseline = "PPO"', 'baselin = "PPO"', "did you mean 'baseline'"),
        ('baseline = "PPO"', 'baseline = "PPQ"', "unknown variant 'PPQ': did you mean 'PPO'"),
        ('baseline = "PPO"', 'band = "median"', "unknown band 'median'"),
        ('baseline = "PPO"', 'returns = "test"', "unknown returns 'test'"),
        ('baseline = "PPO"', 'band = ["iqm"]', "unknown band"),
        ('baseline = "PPO"', "last = 0", "last=0: must be an integer >= 1"),
        ('baseline = "PPO"', "last = 0.5", "last=0.5: must be an integer >= 1"),
        ('baseline = "PPO"', "spread = inf", "spread=inf: must be a number above 0"),
        ('baseline = "PPO"', 'focus = "PPO(k)"', "did you mean 'PPO\\(K\\)'"),
        ('baseline = "PPO"', "focus = 3", "focus=3: must be the name of a variant"),
        ('baseline = "PPO"', "panels = 3", "panels: is for the kind ablation, not curves"),
        (
            'baseline = "PPO"',
            'baseline = "PPO"\ngroups = [["PPO"]]',
            "and so does baseline; choose",
        ),
        (
            FIGURE,
            'kind = "ablation"\ngroups = [["PPO"]]',
            "groups: is for the kind curves or table,",
        ),
        ('baseline = "PPO"', 'against_baseline = ["PPO(K)"]', "against_baseline: needs a focus"),
        (
            'baseline = "PPO"',
            'focus = "PPO(K)"\nagainst_baseline = ["PPO(K)"]',
            "against_baseline: 'PPO\\(K\\)' is the focus",
        ),
        ('kind = "curves"', 'kind = "table"', "baseline: is for the kind curves or ablation, not"),
        ('kind = "curves"', 'kind = "ablation"', "key 'panels' is missing"),
        ('kind = "curves"', 'kind = "ablation"\npanels = 3', "panels: must be tables"),
        ('kind = "curves"', 'kind = "ablation"\npanels = []', "panels: must be tables"),
        ('kind = "curves"', 'kind = "ablation"\npanels = [3]', "panels: must be tables"),
        (FIGURE, 'kind = "table"\ngroups = "PPO"', "must be lists of variants, at least one"),
        (FIGURE, 'kind = "table"\ngroups = []', "must be lists of variants, at least one"),
        (FIGURE, 'kind = "table"\ngroups = ["PPO"]', "groups='PPO': must be a list of variants"),
        (FIGURE, 'kind = "table"\ngroups = [["PPO", "PPO"]]', "must name each once"),
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
    ],
)
def test_options__refuse_panels_that_cannot_be_drawn(old, new, message):
    assert old in fake_runs.ABLATION
    with pytest.raises(ValueError, match=message):
        options.read(fake_runs.load(fake_runs.ABLATION.replace(old, new)))


def test_options__compare_with_the_baseline_or_the_focus_or_inside_groups():
    sweep = fake_runs.load(fake_runs.CURVES)
    read = options.read(sweep)
    assert read.pairs == [("PPO 0.999", "PPO"), ("PPO(K)", "PPO")]
    assert dataclasses.replace(read, focus="PPO(K)").pairs == [
        ("PPO(K)", "PPO"),
        ("PPO(K)", "PPO 0.999"),
    ]
    focused = dataclasses.replace(read, focus="PPO(K)", against_baseline=("PPO 0.999",))
    assert focused.pairs[2:] == [("PPO 0.999", "PPO")]
    groups = 'groups = [["PPO(K)", "PPO"], ["PPO 0.999"]]'
    for kind in ("curves", "table"):
        grouped = fake_runs.load(fake_runs.CURVES.replace(FIGURE, f'kind = "{kind}"\n{groups}'))
        assert options.read(grouped).pairs == [("PPO(K)", "PPO")]
    assert options.read(sweep, "iqm").band == "iqm"


@pytest.mark.parametrize("name", shipped_sweeps())
def test_options__of_every_shipped_sweep_can_be_read(name):
    read = options.read(spec.load(name))
    assert read.pairs
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
            {("PPO(K)", "PPO"), ("PPO + time", "PPO"), ("PPO(K)", "PPO + time")},
        ),
        ("fig_separating", {("TD(Δ)", "PPO"), ("TD(Δ) 0.999", "PPO")}),
        ("fig_td3", {("TD3(γ)", "TD3"), ("TD3(γ)", "DDPG"), ("TD3(γ)", "PPO")}),
        ("fig_sac", {("SAC(γ)", "SAC")}),
        ("table_td3", {("TD3(γ)", "TD3"), ("SAC(γ)", "SAC")}),
    ],
)
def test_options__compare_every_pair_that_the_paper_claims_something_of(name, claimed):
    pairs = options.read(spec.load(name)).pairs
    assert claimed <= set(pairs)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("name", shipped_sweeps())
def test_figure_of_the_paper__comes_with_what_the_paper_claims(name):
    sweep = spec.load(name)
    assert bool(sweep.paper) == bool(sweep.claim)


def test_options__forget_variants_that_other_tasks_leave_out():
    text = fake_runs.CURVES.replace('name = "PPO"\n', 'name = "PPO"\ntasks = ["Ant-v4"]\n')
    read = options.read(fake_runs.load(text).change(tasks=["Hopper-v4"]))
    assert read.baseline == "PPO 0.999"


def test_options__never_compare_two_variants_twice_where_the_baseline_is_left_out():
    text = fake_runs.CURVES.replace('name = "PPO"\n', 'name = "PPO"\ntasks = ["Ant-v4"]\n')
    text += 'focus = "PPO 0.999"\nagainst_baseline = ["PPO(K)"]\n'
    assert options.read(fake_runs.load(text)).pairs[2:] == [("PPO(K)", "PPO")]
    read = options.read(fake_runs.load(text).change(tasks=["Hopper-v4"]))
    assert read.pairs == [("PPO 0.999", "PPO(K)")]


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
