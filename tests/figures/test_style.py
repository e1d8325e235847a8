"""Colours of agents and tasks, and the size of a sheet."""

import pytest

from gammaprime.figures import options, style
from gammaprime.sweeps import spec

SWEEPS = sorted({*spec.shipped()} - {"fig_errors", "weights"})
PAPER = [name for name in SWEEPS if spec.load_experiment(name).paper]


def variants(name):
    return options.read(spec.load_experiment(name)).variants


@pytest.mark.parametrize("name", SWEEPS)
def test_looks__differ_inside_every_shipped_figure(name):
    chosen = style.looks(variants(name))
    assert list(chosen) == list(variants(name))
    assert len(set(chosen.values())) == len(chosen)


@pytest.mark.parametrize("name", ["ours_second", "ours_trpo"])
def test_colours__differ_where_bands_overlap_and_dashes_do_not_tell_them_apart(name):
    chosen = style.looks(variants(name)).values()
    assert len({look.color for look in chosen}) == len(chosen)


def test_looks__of_the_agents_of_the_paper_are_the_same_in_every_figure():
    seen = {}
    for name in PAPER:
        if name == "fig_ablation":
            continue
        for variant, look in style.looks(variants(name)).items():
            assert variant in style.VARIANTS
            assert seen.setdefault(variant, look) == look
    assert seen["DDPG"] == seen["DDPG-v2"]  # one agent, which the table names otherwise


def test_name__stands_for_one_agent_in_every_figure_of_the_paper():
    seen = {}
    for name in PAPER:
        for variant in spec.load_experiment(name).variants:
            agent = (variant.config.agent, variant.config.time_feature)
            assert seen.setdefault(variant.name, agent) == agent, (name, variant.name)


def test_looks__of_unknown_names_are_theirs_unless_another_has_taken_them():
    names = ["mine", "PPO", "yours"]
    assert style.looks(names) == style.looks(names[::-1])
    assert style.looks(["mine"])["mine"] == style.looks(names)["mine"]


def test_looks__are_as_many_as_there_are_colours_and_dashes():
    many = [f"variant {i}" for i in range(21)]
    assert len(set(style.looks(many).values())) == 21
    assert set(style.looks([*many, "one more"])) == {*many, "one more"}


def test_looks__of_a_task_are_dashed_on_pybullet():
    chosen = style.looks(["Ant-v4", "AntBulletEnv-v0"], style.TASKS)
    assert chosen["Ant-v4"].color == chosen["AntBulletEnv-v0"].color
    assert [look.linestyle for look in chosen.values()] == ["-", "--"]


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (6, (2, 3))])
def test_sheet__is_as_wide_as_the_text_and_two_by_three_for_six_tasks(count, shape):
    with style.context(style.PRINTED):
        figure, axes = style.sheet(count, "Title")
    assert len(axes) == len(figure.axes) == count
    assert axes[0].get_gridspec().get_geometry() == shape
    assert figure.get_figwidth() <= style.TEXT_WIDTH
