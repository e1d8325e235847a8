"""The report: one file that needs no other, and says no more than its seeds do."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from figures import fake_runs
from gammaprime import cli, figures
from gammaprime.experiments import weights as computed_weights
from gammaprime.figures import comparisons, options, report
from gammaprime.sweeps import report as notes
from gammaprime.sweeps import spec

EMPTY = {"meta", "path", "circle", "use", "br"}


class Outline(HTMLParser):
    """Elements, ids, links and text of a page; `open` stays empty when every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.attributes = [], [], [], [], []
        self.words = []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += [(name, key, value or "") for key, value in attributes]
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [value for key, value in attributes if key == "href"]
        if name not in EMPTY:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        if name not in EMPTY:
            self.open.pop()

    def handle_endtag(self, name):
        if name not in EMPTY:
            assert self.open.pop() == name

    def handle_data(self, data):
        self.words.append(data)


def level(planned):
    known = {"PPO": 100.0, "PPO 0.999": 60.0, "PPO(K)": 101.0, "η = 0.02": 150.0, "K = ∞": 80.0}
    return known[planned.variant] + planned.seed


def share(planned):
    """One run of PPO(K) on Walker2d stopped half way, one has not begun."""
    if (planned.variant, planned.task) != ("PPO(K)", "Walker2d-v4"):
        return 1.0
    return {3: 0.5, 4: 0.0}.get(planned.seed, 1.0)


def made_up(root, text=fake_runs.CURVES, name="made_up", part=share):
    sweep = fake_runs.load(text, name)
    fake_runs.write(sweep, root, level, part)
    return options.read(sweep), sweep.results(root)


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [made_up(root), made_up(root, fake_runs.ABLATION, "along_eta")]


@pytest.fixture(scope="module")
def pictures():
    experiment = spec.load_experiment("weights")
    data = computed_weights.run(experiment.settings, lambda done, total: None)
    drawn = figures.plot_computed(experiment.config, data)
    return [report.Picture("weights", experiment.title, drawn, {"cpu": "Another", "numpy": "2"})]


@pytest.fixture(scope="module")
def page(sweeps, pictures):
    return report.page(sweeps, pictures)


@pytest.fixture(scope="module")
def outline(page):
    return Outline(page)


def test_page__is_whole_and_its_links_lead_inside(outline):
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.links
    assert all(link.startswith("#") for link in outline.links)
    assert {link[1:] for link in outline.links} <= set(outline.ids)


def test_page__asks_for_nothing_outside_itself(page, outline):
    assert re.findall(r"(?:https?:|//)[\w.]+", page) == []
    assert not {"script", "link", "iframe", "img", "object"} & set(outline.tags)
    assert not [key for _, key, _ in outline.attributes if key == "src" or key.startswith("on")]
    assert "@import" not in page
    assert re.findall(r"url\((?!#)", page) == []
    (policy,) = [v for _, key, v in outline.attributes if key == "content" and "default-src" in v]
    assert policy.startswith("default-src 'none';")


def test_page__has_a_panel_for_each_task_and_picture_with_words_for_each(outline):
    labels = [v for name, key, v in outline.attributes if (name, key) == ("svg", "aria-label")]
    assert len(labels) == 2 + 4 + 2
    assert "Hopper-v4: lines for PPO, PPO 0.999, PPO(K)" in labels
    hidden = [v for name, key, v in outline.attributes if (name, key) == ("svg", "aria-hidden")]
    assert len(labels) + len(hidden) == outline.tags.count("svg")


def test_page__can_be_read_on_a_phone_in_the_dark(page, outline):
    assert ("meta", "content", "width=device-width, initial-scale=1") in outline.attributes
    assert "prefers-color-scheme: dark" in page
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []  # no colour but the page's own
    tables = outline.tags.count("table")
    assert sum(a == ("div", "class", "scroll") for a in outline.attributes) == tables > 5


def contrast(first, second):
    """Of two colours, as the accessibility guidelines of the web define it."""

    def luminance(colour):
        parts = [part / 255 for part in colour]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours__stand_out_from_the_paper_in_light_and_dark(page):
    found = re.findall(r"--([\w-]+): #([0-9a-f]{6})", page)
    half = len(found) // 2
    for scheme in (dict(found[:half]), dict(found[half:])):
        colours = {name: bytes.fromhex(digits) for name, digits in scheme.items()}
        lines = [variable.removeprefix("--") for variable in report.THEME.values()]
        for name in set(lines) - {"paper", "rule"}:
            assert contrast(colours[name], colours["paper"]) >= 3, name
        for name in ("good", "bad", "open"):
            assert contrast(colours[name], colours[f"{name}-tint"]) >= 4.5, name


def test_page__tables_have_heads(outline):
    scopes = [v for name, key, v in outline.attributes if (name, key) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")
    assert set(scopes) == {"row", "col"}


def test_page__repeats_without_a_date(sweeps, pictures, page):
    assert report.page(sweeps, pictures) == page
    assert not re.search(r"\b20[23]\d-\d\d", page)


def test_page__says_what_the_paper_claims_beside_what_runs_show(outline):
    assert "The paper says (fig:onpolicy) PPO(K) learns faster, ends higher" in outline.text
    assert "these seeds cannot decide PPO(K) ends higher than PPO with" in outline.text
    assert "worse PPO 0.999 ends higher than PPO with probability 0.00" in outline.text


def test_page__says_what_is_missing_and_where_numbers_come_from(outline):
    assert "28 of 30 runs are finished (seeds: PPO(K) on Walker2d-v4 3 of 5)" in outline.text
    # Six runs of PPO belong to both sweeps, and are counted once.
    assert "49 of 51 training runs are finished" in outline.text
    assert "50,000 of 100,000" in outline.text  # in the list of all runs
    assert "processor Some Processor 3000 · Another" in outline.text
    assert "mujoco 3.14.0" in outline.text


def test_page__shows_no_path_of_the_machine(sweeps, page):
    records = sweeps[0][1]
    assert str(records[0].path.parent) not in page
    assert records[0].path.name in page


def test_report__of_two_seeds_says_that_they_could_not_decide(tmp_path):
    _, records = made_up(tmp_path)
    few = fake_runs.load(fake_runs.CURVES).change(seeds=[0, 1], tasks=["Hopper-v4"])
    kept = [r for r in records if r.seed < 2 and r.task == "Hopper-v4"]
    text = Outline(report.page([(options.read(few), kept)])).text
    assert "Changed on the command line: seeds 0, 1; tasks Hopper-v4." in text
    assert text.count("too few seeds to decide") == 4  # sentences and table
    assert "With 2 seeds on one task, even completely separated seeds have p = 0.67." in text
    assert "Task by task" not in text


def test_report__of_nothing_finished_has_nothing_to_compare(tmp_path):
    pair = made_up(tmp_path, part=lambda planned: 0.3)
    text = Outline(report.page([pair])).text
    assert "nothing to compare" in text
    assert "0 of 30 runs are finished" in text


def test_report__many_undecided_comparisons_share_a_sentence(sweeps):
    found = comparisons.compare(sweeps[0][1], sweeps[0][0])
    many = [c._replace(verdict="undecided") for c in found.overall * 2]
    (told,) = comparisons.sentences(comparisons.Comparisons(many, []))
    names = "PPO\N{NO-BREAK SPACE}0.999; PPO(K); PPO\N{NO-BREAK SPACE}0.999; PPO(K)"
    assert told == ("undecided", f"{names}: each against PPO.")


EVIL = "<script>alert(1)</script>\"'&"


def test_page__escapes_every_text(sweeps, pictures):
    shown, records = sweeps[0]
    named = [r._replace(variant=EVIL, task=EVIL, path=r.path / EVIL) for r in records]
    named = [r._replace(manifest={"cpu": EVIL, "versions": {EVIL: EVIL}}) for r in named]
    told = {"name": EVIL, "title": EVIL, "claim": EVIL, "paper": (EVIL,), "changed": {EVIL: EVIL}}
    shown = dataclasses.replace(shown, variants=(EVIL,), compare=(), levels={EVIL: 1.0}, **told)
    drawn = [picture._replace(name=EVIL, title=EVIL) for picture in pictures]
    page = report.page([(shown, named)], drawn, [EVIL])
    outline = Outline(page)
    assert outline.open == []
    assert "<script" not in page
    assert outline.text.count(EVIL) > 20
    labels = [v for name, key, v in outline.attributes if key == "aria-label"]
    assert sum(EVIL in label for label in labels) >= 4


def test_report__names_cannot_break_the_page(tmp_path):
    text = fake_runs.CURVES.replace('"PPO(K)"', "'<script>alert(1)</script>'")
    page = report.page([made_up_at_one(tmp_path, text)])
    assert Outline(page).open == []
    assert "<script" not in page


def made_up_at_one(root, text):
    sweep = fake_runs.load(text)
    fake_runs.write(sweep, root, lambda planned: 1.0)
    return options.read(sweep), sweep.results(root)


def test_commands__draw_and_report_what_was_run(tmp_path, capsys):
    made_up(tmp_path / "runs", part=lambda planned: 1.0)
    sweep = fake_runs.load(fake_runs.CURVES)
    file = tmp_path / "made_up.toml"
    file.write_text(fake_runs.CURVES, encoding="utf-8")
    notes.write_note(sweep, tmp_path / "runs")
    notes.write_note(spec.load_experiment("smoke"), tmp_path / "runs")  # asked for, not begun
    where = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "figures")]
    changes = ["--seeds", "0:2", "--tasks", "Hopper-v4", "--band", "iqm"]
    assert cli.main(["figure", str(file), *where, *changes]) == 0
    written = capsys.readouterr().out.split()
    assert "Changed on the command line" in (tmp_path / "figures/made_up_table.md").read_text(
        "utf-8"
    )
    assert str(tmp_path / "figures/made_up.svg") in written
    out = tmp_path / "new" / "report.html"
    file.unlink()  # the folder of runs knows its spec
    assert cli.main(["report", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert "30 of 30 training runs are finished" in out.read_text("utf-8")
    assert "smoke" not in out.read_text("utf-8")


def test_report__names_and_leaves_out_a_sweep_that_can_no_longer_be_read(tmp_path, capsys):
    runs = tmp_path / "runs"
    made_up(runs)
    sweep = fake_runs.load(fake_runs.CURVES)
    notes.write_note(sweep, runs)
    note = notes.write_note(fake_runs.load(fake_runs.CURVES.replace("compare", "compar")), runs)
    (runs / "sweeps/torn.json").write_text("{")
    out = tmp_path / "report.html"
    assert cli.main(["report", str(runs), "--out", str(out)]) == 0
    torn, misspelt = sorted(capsys.readouterr().err.splitlines(), reverse=True)
    assert torn.startswith("gammaprime: left out torn: ")
    assert misspelt.startswith(f"gammaprime: left out {note.stem}: made_up: figure: unknown key")
    text = Outline(out.read_text("utf-8")).text
    assert f"Left out, because it can no longer be read: {note.stem}." in text
    assert "Left out, because it can no longer be read: torn." in text
    assert "28 of 30 training runs are finished" in text
    assert str(tmp_path) not in out.read_text("utf-8")


def test_figure__finds_a_misspelt_variant_also_where_tasks_are_changed(tmp_path, capsys):
    file = tmp_path / "made_up.toml"
    file.write_text(fake_runs.CURVES.replace('["PPO(K)", "PPO"]', '["PPO(K)", "PPQ"]'), "utf-8")
    words = ["figure", str(file), "--runs", str(tmp_path), "--tasks", "Hopper-v4"]
    assert cli.main(words) == 2
    assert "unknown variant 'PPQ': did you mean 'PPO'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "nowhere"], "nowhere: no such folder"),
        (["report", "."], "nothing was run here"),
        (["figure", "smoke", "--runs", "."], "no run of smoke has begun here"),
        (["figure", "weights", "--steps", "5"], "steps: is for sweeps of training runs"),
        (["figure", "weights", "--band", "iqm"], "band: is for sweeps"),
        (["figure", "table_td3", "--band", "iqm"], "band: is for curves and ablations"),
        (["figure", "weights", "--runs", "."], "first: gammaprime run weights"),
    ],
)
def test_commands__say_what_is_missing(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err
