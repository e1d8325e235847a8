"""docs/scale.md says what the specs and the measured speeds make of each other, and no more."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("jax")
pytest.importorskip("mujoco")
pytest.importorskip("pybullet_envs_gymnasium")

from gammaprime.runs.config import Evaluation
from scale_tool import blocks, costs, make_scale, measure

SWEEPS = costs.load_sweeps()
NOTHING = costs.Speeds({}, {}, {}, {}, {}, {})
FIGURES = {
    "learning": {"steps_per_second": 1_000.0, "core_share": 0.97},
    "evaluations": 2.0,
    "shares": {
        "environment": 0.25,
        "acting": 0.25,
        "learning": 0.5,
        "seconds_per_gradient_step": 1e-4,
    },
    "crowded": 800.0,
}
MACHINE = {"command": "x", "cpu": "an abacus", "cores": 2, "versions": {}, "probe_seconds": 2.0}

lengths = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=40)
core_counts = st.integers(1, 64)


def everything_measured():
    """As if `measure.py` had been run to its end, with the same figure for every kind."""
    speeds = NOTHING._replace(machine=MACHINE)
    for name, kind, _ in measure.wanted(SWEEPS, []):
        speeds = measure.store_figure(speeds, name, kind, FIGURES[name])
    return speeds


@given(lengths)
def test_wall_clock__of_one_core_is_the_sum(seconds):
    assert costs.wall_clock(seconds, 1) == pytest.approx(sum(seconds))


@given(lengths, st.integers(0, 5))
def test_wall_clock__of_a_core_for_each_run_is_the_longest(seconds, spare):
    assert costs.wall_clock(seconds, len(seconds) + spare) == max(seconds)


@given(lengths, core_counts)
def test_wall_clock__does_not_grow_with_cores(seconds, cores):
    fewer, more = costs.wall_clock(seconds, cores), costs.wall_clock(seconds, cores + 1)
    assert more <= fewer * (1 + 1e-9)


@given(lengths, core_counts)
def test_wall_clock__lies_between_its_bounds(seconds, cores):
    found, share, longest = costs.wall_clock(seconds, cores), sum(seconds) / cores, max(seconds)
    assert max(share, longest) <= found * (1 + 1e-9)
    # A run begins when no core is idle, so that its beginning is at most the share of the others.
    assert found <= (share + longest * (1 - 1 / cores)) * (1 + 1e-9)


def test_wall_clock__begins_runs_in_their_order():
    assert costs.wall_clock([1.0, 1.0, 2.0], 2) == 3.0
    assert costs.wall_clock([2.0, 1.0, 1.0], 2) == 2.0


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 60), st.integers(0, 11))
def test_count_evaluations__is_how_often_one_is_due(rollouts, size, every, rest):
    assume(rest < size)
    agent = {"num_envs": 1, "num_steps": size}
    settings = {"agent": agent, "protocol": {"eval_every": every}, "steps": rollouts * size + rest}
    asked = Evaluation(every=every)
    due = [asked.is_due(i * size, (i + 1) * size, i + 1 == rollouts) for i in range(rollouts)]
    assert costs.count_evaluations({"settings": settings}) == sum(due)


def test_cost_of_run__is_steps_over_speed_and_the_evaluations_of_its_protocol():
    _, jobs = SWEEPS["fig_td3"]
    tables = [job.config.to_table() for job in jobs]
    config = next(table for table in tables if costs.name_of(table) == "TD3")
    cost = costs.cost_of_run(config, everything_measured())
    assert cost == (1_000.0, 200 * 2.0)
    assert cost.seconds == 1_400.0
    assert costs.cost_of_run(config, NOTHING) is None
    assert costs.cost_of_run(config, everything_measured()._replace(evaluations={})) is None


def test_kinds__are_told_apart_by_name():
    names = {costs.name_of(config) for config in costs.configs_by_kind(SWEEPS).values()}
    on_policy = {"PPO", "PPO, weighted", "PPO, averaged", "TRPO", "TRPO, weighted"}
    assert names == on_policy | {"DDPG", "TD3", "TD3(γ)", "SAC", "SAC(γ)"}


def test_evaluations__do_not_divide_kinds_of_learning():
    configs = costs.configs_by_kind(SWEEPS).values()
    plain = [c for c in configs if costs.name_of(c) == "PPO" and c["settings"]["task"] == "Ant-v4"]
    assert len(plain) == 2
    assert len({costs.learning_kind(config) for config in plain}) == 1
    assert len({costs.evaluation_kind(config) for config in plain}) == 2


def row(text, first):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_all_that_is_wanted__is_all_that_the_page_needs():
    blocks = make_scale.make_blocks(SWEEPS, everything_measured())
    assert all(make_scale.MISSING not in text for text in blocks.values())


def test_figures__add_up_and_count_shared_runs_once():
    text = make_scale.figures_block(SWEEPS, everything_measured())
    # 60 and 80 runs of 1e6 steps; each evaluated 200 times.
    assert row(text, "`fig_sac`")[1:7] == ["60", "60 M", "16.7 h", "6.7 h", "23 min", "23.3 h"]
    # Sixty runs of one length on 8 cores take eight rounds, and fit on 64 at once.
    assert row(text, "`fig_sac`")[7:] == ["3.1 h", "23 min", "60 cores"]
    paths = {job.path for sweep, jobs in SWEEPS.values() if sweep.paper for job in jobs}
    number = sum(len(jobs) for sweep, jobs in SWEEPS.values() if sweep.paper)
    assert int(row(text, "**the paper**")[1]) == len(paths) < number


def test_what_is_missing__is_said_and_the_rest_is_shown():
    speeds = everything_measured()
    learning = {kind: v for kind, v in speeds.learning.items() if kind[1] != "trpo"}
    text = make_scale.figures_block(SWEEPS, speeds._replace(learning=learning))
    assert row(text, "`fig_onpolicy`")[3] == "not measured: 24 runs"
    assert make_scale.MISSING not in " ".join(row(text, "`fig_sac`"))
    blocks = make_scale.make_blocks(SWEEPS, NOTHING)
    assert all(make_scale.MISSING in text for text in blocks.values())


def test_whole_runs__are_told_beside_what_the_page_says_of_them():
    speeds = everything_measured()
    found = costs.configs_by_kind(SWEEPS)
    (kind, config), (other, another), *_ = found.items()
    whole = {
        kind: config["settings"]["steps"] / (3.0 * costs.cost_of_run(config, speeds).seconds),
        other: another["settings"]["steps"] / (1.5 * costs.cost_of_run(another, speeds).seconds),
    }
    *_, line = make_scale.machine_block(SWEEPS, speeds._replace(whole=whole)).splitlines()
    assert "of 2 kinds, took 1.5 to 3.0 times as long" in line
    assert "times as long" not in make_scale.machine_block(SWEEPS, speeds._replace(whole={}))


def test_limits__are_what_a_part_for_free_would_give():
    text = make_scale.limits_block(SWEEPS, everything_measured())
    found = row(text, "TD3, 1 x 50")
    assert found[2:] == ["25 %", "25 %", "50 %", "100 µs", "2.0 ×", "1.3 ×"]


def test_speeds__come_back_as_they_were_stored(tmp_path):
    speeds = everything_measured()._replace(whole={("a", "b"): 1.5})
    file = tmp_path / "speeds.json"
    file.write_text(costs.dump_speeds(speeds), encoding="utf-8")
    assert costs.load_speeds(file) == speeds
    file.write_text(costs.dump_speeds(NOTHING), encoding="utf-8")
    assert costs.load_speeds(file) == costs.load_speeds(tmp_path / "none.json") == NOTHING


def test_measuring__goes_on_where_it_was_cut_and_repeats_what_had_no_quiet_core():
    assert not measure.is_settled("learning", None)
    assert measure.is_settled("learning", {"steps_per_second": 1.0, "core_share": 0.95})
    assert not measure.is_settled("learning", {"steps_per_second": 1.0, "core_share": 0.5})
    assert measure.is_settled("evaluations", 0.0)


def test_measuring__refuses_to_add_to_the_speeds_of_another_machine(tmp_path):
    file = tmp_path / "speeds.json"
    file.write_text(costs.dump_speeds(NOTHING._replace(machine=MACHINE)), encoding="utf-8")
    with pytest.raises(SystemExit, match="was measured elsewhere"):
        measure.begin(file)


def test_page__is_up_to_date():
    page = make_scale.PAGE.read_text(encoding="utf-8")
    fresh = blocks.render(
        page, make_scale.make_blocks(SWEEPS, costs.load_speeds(make_scale.SPEEDS))
    )
    assert page == fresh, f"docs/scale.md is stale: run `{make_scale.COMMAND}`"


def test_page__has_measured_numbers_in_its_blocks_alone():
    page = make_scale.PAGE.read_text(encoding="utf-8")
    prose = re.sub(r"<!-- begin (\w+) -->.*?<!-- end \1 -->", "", page, flags=re.DOTALL)
    assert re.findall(r"\d[\d.,]*\s*(?:%|×|µs|ms|s|min|h|hours|steps/s)(?!\w)", prose) == []


def test_render__refuses_a_page_without_the_block():
    with pytest.raises(ValueError, match="must have one begin and one end"):
        blocks.render("<!-- begin a -->\n<!-- end b -->", {"a": "text"})
