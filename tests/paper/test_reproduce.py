"""`dperm reproduce`, as a person calls it: every study once, quickly."""

import csv
import html
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from dperm.cli.main import run_with
from dperm.paper.studies.reproduce import STUDIES
from dperm.paper.studies.reproduce.lab import Lab
from dperm.paper.studies.reproduce.nonconvex import NonConvex
from dperm.paper.studies.reproduce.page import write_page
from dperm.paper.studies.reproduce.verdicts import Outcome

image = pytest.importorskip("matplotlib.image")


def fewer_rows_of_table_3(quick):
    """The table with two of its methods, one that is outdone and the paper's own, against n and ε."""
    study = STUDIES["table-3"](quick)
    return replace(study, rows=(study.rows[0], study.rows[-1]), axes=study.axes[:2])


def nonconvex_with_fewer_rows(quick):
    """The study with half as many rows, and with one n and ε for the network."""
    sigmoid, network = STUDIES["nonconvex"](quick).trials
    fewest = replace(network.base, n=network.ns[0])
    return NonConvex((
        replace(sigmoid, base=replace(sigmoid.base, n=sigmoid.base.n // 2), ns=tuple(n // 2 for n in sigmoid.ns)),
        replace(network, base=fewest, ns=(fewest.n,), epsilons=(fewest.epsilon,)),
    ))  # fmt: skip


def privacy_of_shorter_runs(quick):
    """The privacy study with fewer steps in its grid, of which some meet the paper's condition and some do not."""
    return replace(STUDIES["privacy"](quick), svrg=((5, 100),), doubling=())


# One figure, one table, section 6.2 and the privacy study; the others are more of the same kinds.
SOME = {
    "figure-1": STUDIES["figure-1"],
    "table-3": fewer_rows_of_table_3,
    "nonconvex": nonconvex_with_fewer_rows,
    "privacy": privacy_of_shorter_runs,
}


@pytest.fixture(
    scope="module", params=[SOME, pytest.param(dict(STUDIES), marks=pytest.mark.slow)], ids=["some studies", "all"]
)
def studies(request):
    """The studies that `dperm reproduce all` runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dperm.paper.studies.reproduce.STUDIES", request.param)
        yield request.param


@pytest.fixture(scope="module")
def folder(studies, tmp_path_factory):
    """Everything that `dperm reproduce all --quick` writes."""
    folder = tmp_path_factory.mktemp("reproduction")
    assert run_with(["reproduce", "all", "--quick", "--output", str(folder)]) == 0
    return folder


class Page(HTMLParser):
    """Collects links, tags and the outcomes of verdicts."""

    def __init__(self, text):
        super().__init__()
        self.links, self.verdicts, self.tags = [], [], []
        self._reading = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.links += [values[name] for name in ("src", "href") if name in values]
        self._reading = tag == "span" and values.get("class", "").startswith("outcome")

    def handle_data(self, data):
        if self._reading and data.strip():
            self.verdicts.append(data.strip())
            self._reading = False


@pytest.fixture(scope="module")
def sections(folder, studies):
    """What the studies say of the measurements in the folder, with their verdicts; nothing is measured again."""
    before = (folder / "measurements.jsonl").read_bytes()
    lab = Lab(folder / "measurements.jsonl")
    found = [build(True).section(lab.run(name, build(True).measurements())) for name, build in studies.items()]
    assert (folder / "measurements.jsonl").read_bytes() == before
    return found


@pytest.fixture(scope="module")
def page(sections, tmp_path_factory):
    """The page with verdicts, which a long run makes, of the measurements of a quick one."""
    path = tmp_path_factory.mktemp("page") / "reproduction.html"
    write_page(path, sections)
    return path


def test_the_pages_need_nothing_outside_themselves(folder, page):
    for path in (folder / "reproduction.html", page):
        text = path.read_text()
        found = Page(text)
        assert found.links
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in found.links)
        assert "http" not in re.sub(r"base64,[^\"]*", "", text)


def test_a_quick_look_gives_no_verdict_anywhere_and_says_so(studies, folder, sections, capsys):
    """Not on the page, not in Markdown, not in the terminal."""
    texts = [(folder / f"{name}.md").read_text() for name in studies]
    assert run_with(["reproduce", "privacy", "--quick", "--output", str(folder)]) == 0
    told = capsys.readouterr().out
    text = (folder / "reproduction.html").read_text()
    assert Page(text).verdicts == []
    assert "script" not in Page(text).tags
    for one in [*texts, told, text]:
        assert one.count("it shows pictures and numbers and gives no verdicts") == 1
        words = re.sub(r"<style>.*?</style>", "", one.lower(), flags=re.DOTALL)
        assert not [verdict.claim for section in sections for verdict in section.verdicts if verdict.claim in one]
        assert not [headline for section in sections for headline in section.headlines if headline in one]
        assert "undecided" not in words
        assert "does not hold" not in words


def test_every_verdict_follows_from_the_measurements_in_the_folder(sections, page):
    verdicts, text = [verdict for section in sections for verdict in section.verdicts], page.read_text()
    for section in sections:
        told = section.markdown()
        for verdict in section.verdicts:
            assert f"**{verdict.outcome}**: {verdict.claim} {verdict.because}" in told
            assert bool(verdict.finding.why) == (verdict.outcome is Outcome.OPEN)
            assert verdict.finding.why in told
    expected = [verdict.outcome.value for verdict in verdicts]
    assert Page(text).verdicts == expected
    counted = re.search(r"<strong>(\d+)</strong> claims hold, <strong>(\d+)</strong> do not,\s*<strong>(\d+)", text)
    assert [int(count) for count in counted.groups()] == [
        expected.count(word) for word in ("holds", "does not hold", "undecided")
    ]
    assert text.count('class="why"') == expected.count("undecided")


def test_the_findings_at_the_top_are_those_of_the_studies(sections, page):
    text = html.unescape(page.read_text())
    headlines = [headline for section in sections for headline in section.headlines]
    assert len(headlines) >= 3
    places = [text.index(f"<li>{headline}</li>") for headline in headlines]
    assert places == sorted(places)
    assert text.index('id="pictures"') < places[0] < text.index('class="verdicts"') < text.index('<h2 id="figure-1"')


def test_the_printed_noise_is_found_out_even_with_few_settings(sections):
    told = sections[-1].markdown()
    assert "**does not hold**: The experiments satisfy the condition of Theorems 4.1 and 4.3 with c₁ = 1." in told
    assert "**does not hold**: The printed noise keeps δ in the experiments, with c = 1." in told
    assert "**does not hold**: Algorithm 3 as printed is private." in told


def test_gradient_norms_are_measured_on_both_problems_and_stay_below_their_bounds_even_in_a_quick_look(folder):
    rows = list(csv.DictReader(io.StringIO((folder / "nonconvex.csv").read_text())))
    assert {(row["problem"], row["method"]) for row in rows} == {
        (problem, method)
        for problem in ("sigmoid loss", "network with few rows")
        for method in ("DP-GD", "RRPSGD", "DP-SVRG", "DP-Spider")
    }
    assert all(0.0 < float(row["squared_norm"]) < float(row["bound"]) for row in rows)
    steps = {row["method"]: float(row["gradients"]) / float(row["n"]) for row in rows}
    assert all(passes >= 1.0 for passes in steps.values())


def test_every_study_writes_markdown_a_table_of_all_measurements_and_a_picture_in_colour(folder, studies):
    for name in studies:
        check_what_was_written(folder, name)


def check_what_was_written(folder, name):
    rows = list(csv.DictReader(io.StringIO((folder / f"{name}.csv").read_text())))
    if name == "privacy":
        assert all(0.0 <= float(row["certified δ(ε)"]) <= 1.0 for row in rows)
    else:
        value = {"figure": "gap", "table": "excess", "nonconvex": "squared_norm"}[name.partition("-")[0]]
        assert all(row[value] == "" or float(row[value]) > -1e-9 for row in rows)
        assert {row["seed"] for row in rows} >= {"0", "1"}
    assert "![" in (folder / f"{name}.md").read_text()
    pictures = sorted(folder.glob(f"{name}*.png"))
    assert len(pictures) == (2 if name.startswith("figure") else 1)
    for path in pictures:
        picture = image.imread(path)[..., :3]
        assert min(picture.shape[:2]) > 400
        assert np.ptp(picture, axis=2).max() > 0.5


def test_the_same_study_in_the_same_folder_measures_nothing_again(folder, capsys):
    before = (folder / "measurements.jsonl").stat().st_mtime_ns
    assert run_with(["reproduce", "privacy", "--quick", "--output", str(folder)]) == 0
    assert (folder / "measurements.jsonl").stat().st_mtime_ns == before
    assert "wrote" in capsys.readouterr().out


def test_a_measurement_says_what_was_measured(folder):
    entry = json.loads((folder / "measurements.jsonl").read_text().splitlines()[0])
    assert entry["of"].startswith("Fit(rows=CovertypeRows(n=5000, strength=0.01), solver=PrintedSVRG(")
    assert entry["result"]["certified_delta"] > 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "figure-3"], "unknown study 'figure-3'; choose from figure-1,"),
        (["reproduce"], "Missing argument 'STUDY'"),
        (["reproduce", "privacy", "--quick", "--output", "{file}"], "is a file, not a folder."),
        (["reproduce", "privacy", "--quick", "--output", "{file}/below"], "Not a directory"),
        (["reproduce", "privacy", "--seeds", "0"], "No such option"),
    ],
)
def test_a_wrong_call_is_one_line_and_writes_nothing(arguments, message, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert run_with([part.format(file=file) for part in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupted_study_says_that_its_measurements_are_kept(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "run", interrupt)
    assert run_with(["reproduce", "privacy", "--quick", "--output", str(tmp_path)]) == 2
    assert "measurements are kept" in capsys.readouterr().err


def test_the_command_knows_every_study(capsys):
    assert run_with(["reproduce", "--help"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in [*STUDIES, "all", "Example:"])
