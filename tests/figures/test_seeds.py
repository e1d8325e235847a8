"""Final returns seed by seed."""

from figures import fake_runs
from gammaprime.figures import options, tables


def rows(sweep, root):
    (file,) = tables.draw_seeds(options.read(sweep), sweep.results(root), root)
    page = file.read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith("|")]
    return page, [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_seeds__are_told_one_by_one_with_their_median(tmp_path):
    sweep = fake_runs.load(fake_runs.CURVES).change(seeds=[0, 1, 2], tasks=["Hopper-v4"])
    fake_runs.write(sweep, tmp_path, lambda planned: (500.0, 900.0, 100.0)[planned.seed])
    page, (head, _, *lines) = rows(sweep, tmp_path)
    assert head == ["task", "variant", "steps", "median", "seed 0", "seed 1", "seed 2"]
    numbers = ["100,000", "500", "500", "900", "100"]
    assert lines == [["Hopper-v4", name, *numbers] for name in ("PPO", "PPO 0.999", "PPO(K)")]
    assert "`gammaprime run made_up`" in page


def test_seeds__that_are_missing_stay_open_and_out_of_the_median(tmp_path):
    sweep = fake_runs.load(fake_runs.CURVES).change(seeds=[0, 1, 2], tasks=["Hopper-v4"])
    share = {("PPO", 1): 0.5, **{("PPO(K)", seed): 0.0 for seed in range(3)}}
    fake_runs.write(
        sweep,
        tmp_path,
        lambda planned: (500.0, 900.0, 100.0)[planned.seed],
        lambda planned: share.get((planned.variant, planned.seed), 1.0),
    )
    _, (_, _, plain, _, none) = rows(sweep, tmp_path)
    assert plain[3:] == ["300", "500", "", "100"]
    assert none[3:] == ["", "", "", ""]


def test_seeds__of_variants_with_other_seeds_have_a_column_each(tmp_path):
    sweep = fake_runs.load(fake_runs.CURVES).change(seeds=[0, 1], tasks=["Hopper-v4"])
    fake_runs.write(sweep, tmp_path, lambda planned: 500.0)
    results = [
        r._replace(seed=r.seed + 100 * (r.variant != "PPO")) for r in sweep.results(tmp_path)
    ]
    shown = tables.seed_table(results, options.read(sweep))
    assert shown.head[4:] == ("seed 0", "seed 1", "seed 100", "seed 101")
    assert [cell.text for cell in shown.rows[0][4:]] == ["500", "500", "", ""]
    assert [cell.text for cell in shown.rows[1][4:]] == ["", "", "500", "500"]
