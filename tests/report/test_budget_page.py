"""The page of `dperm budget report`: what it says of a budget, to people and to registries, and what it refuses."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from cli.hostile import refused, run
from contracts.discovered import concrete
from contracts.events import EVENT_EXAMPLES
from dperm import Budget, Guarantee, PrivateLogisticRegression, PrivateSearch
from dperm.accounting.events import Gaussian, PoissonSampledGaussian, Pure, Repeated, SingleEvent
from dperm.accounting.filter import Filter
from dperm.ledger.accounts import rounded_up
from dperm.ledger.rule import Rule, event_text
from dperm.privacy.guarantee import Adjacency
from dperm.report import page_named, render_budget
from dperm.report.bar import NARROWEST, bar_of
from dperm.report.mechanisms import in_words
from ledger.behaviour import rows, run_sql
from report.html_page import Page, properties

pytestmark = pytest.mark.usefixtures("own_folders")

REPLACE_ONE = Adjacency.REPLACE_ONE
SAMPLED = Repeated(PoissonSampledGaussian(0.01, 4.0), 100)
HOSTILE = '</script><script>alert("1")</script> ../x'


def budget_with(*events, name="adult", **options):
    """A budget in which the second of these releases is not settled."""
    budget = Budget.create(name, Guarantee(3.0, 1e-5), **options)
    for place, event in enumerate(events):
        reservation = budget.reserve(event, Adjacency.parse(options.get("adjacency", "replace_one")))
        if place != 1:
            reservation.settle(f"{place:064d}")
    return budget


def bar_about(budget, this=None):
    return bar_of(budget.account(), this)


def page_about(budget):
    return Page(render_budget(budget.account()))


def test_the_totals_are_those_that_the_ledger_had_when_it_charged_each_release():
    budget, seen = Budget.create("adult", Guarantee(3.0, 1e-5)), []
    for event in (SAMPLED, Gaussian(20.0), Pure(0.1), SAMPLED):
        budget.reserve(event, REPLACE_ONE)
        seen.append(budget.account().spent)
    account = budget.account()
    assert list(account.totals([1, 2, 3, 4]).values()) == seen
    assert seen[-1] == account.spent


@pytest.mark.parametrize("fixed_in_advance", [False, True])
def test_the_segments_of_the_bar_lie_side_by_side_and_end_where_spending_does(fixed_in_advance):
    budget = budget_with(SAMPLED, Gaussian(20.0), Pure(0.1), fixed_in_advance=fixed_in_advance)
    bar = bar_about(budget)
    assert [segment.kind for segment in bar.segments] == ["released", "reserved", "released"]
    end = 0.0
    for segment, line in zip(bar.segments, bar.lines, strict=True):
        assert segment.left == pytest.approx(end, abs=2e-3)
        assert segment.width == pytest.approx(100.0 * line.increase / 3.0, abs=2e-3)
        end = segment.left + segment.width
    assert end == pytest.approx(100.0 * budget.account().spent / 3.0, abs=2e-3)


def test_a_release_that_adds_more_than_its_own_epsilon_is_explained():
    looks = page_about(budget_with(SAMPLED, SAMPLED))
    assert "Some segments are longer than the ε of their release alone" in looks.text
    fixed = page_about(budget_with(SAMPLED, SAMPLED, name="other", fixed_in_advance=True))
    assert "Some segments are longer" not in fixed.text
    assert "all releases were fixed before the first. No release may depend on earlier results." in fixed.text


def test_the_example_of_the_documentation_has_these_numbers():
    text = event_text(Repeated(PoissonSampledGaussian(0.01, 20.0), 100))
    rules = [Rule(Filter.of(Guarantee(10.0, 1e-5)), fixed_in_advance=fixed) for fixed in (False, True)]
    looks, fixed = ([rule.epsilon(((text, 1e-5),) * count, REPLACE_ONE) for count in (1, 2, 20)] for rule in rules)
    found = [*map(rounded_up, looks), rounded_up(fixed[2])]
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    written = (
        "ε = {} alone; the total after the second is {}; after twenty it is {}. "
        "With `--fixed-in-advance` the total of all twenty is {}."
    )
    assert written.format(*found) in " ".join(page.split())


def test_many_releases_are_drawn_together_and_this_one_by_itself():
    budget = Budget.create("adult", Guarantee(3.0, 1e-5))
    for place in range(60):
        budget.reserve(Gaussian(100.0), REPLACE_ONE).settle(f"{place:064d}")
    release = budget.account().releases[40]
    bar = bar_about(budget, (release.number, release.digest))
    (this,) = [segment for segment in bar.segments if segment.kind == "this"]
    others = [segment for segment in bar.segments if segment.kind == "released"]
    assert bar.this.release == release
    assert this.text.startswith(f"entry {release.number}: ")
    assert len(others) < 40
    # But for the last before this one and the last of all, which end where they must.
    assert sum(segment.width < NARROWEST for segment in others) <= 2
    assert bar.drawn_together


def test_many_releases_that_are_fixed_in_advance_have_some_totals_and_all_that_this_one_needs():
    budget = Budget.create("adult", Guarantee(3.0, 1e-5), fixed_in_advance=True)
    for place in range(60):
        budget.reserve(Gaussian(100.0), REPLACE_ONE).settle(f"{place:064d}")
    account = budget.account()
    release, exact = account.releases[40], account.totals([40, 41, 60])
    bar = bar_about(budget, (release.number, release.digest))
    assert (bar.this.before, bar.this.after) == (exact[40], exact[41])
    assert bar.lines[-1].after == exact[60] == account.spent
    assert 20 <= sum(line.after is not None for line in bar.lines) <= 25 + 2
    ends = [segment.left + segment.width for segment in bar.segments]
    starts = [segment.left for segment in bar.segments]
    assert starts == pytest.approx([0.0, *ends[:-1]], abs=2e-3)
    assert ends[-1] == pytest.approx(100.0 * account.spent / 3.0, abs=2e-3)
    assert "the total was not computed after each of them" in page_about(budget).text


def test_every_release_is_in_the_table_with_its_cost_alone_and_the_total_after_it():
    budget = budget_with(Gaussian(20.0), SAMPLED, Pure(0.1))
    account, page = budget.account(), page_about(budget)
    for release, total in zip(account.releases, account.totals([1, 2, 3]).values(), strict=True):
        state = (release.fingerprint or "not settled")[:12]
        numbers = f"{rounded_up(release.epsilon)} {rounded_up(total)}"
        assert f"{release.number} {release.reserved_on} {in_words(release.event)} {numbers} {state}" in page.text
        assert float(rounded_up(total)) >= total
    assert "100 answers from random samples of the rows with Gaussian noise" in page.text
    assert "of which 1 is reserved and not settled" in page.text


def test_the_page_says_what_is_left_and_that_the_ledger_was_verified():
    budget = budget_with(Gaussian(20.0))
    account, page = budget.account(), page_about(budget)
    assert page.text.startswith("Privacy budget of adult ")
    assert f"Spent: ε = {rounded_up(account.spent)} Left: at least ε = 2.647" in page.text
    assert "fits if it costs at most ε = 2.647 at δ = 0; so does one answer with Gaussian noise" in page.text
    assert "each release may depend on all earlier results." in page.text
    assert "VERIFIED: every entry follows from the one before it" in page.text
    assert "This is the state after entry 2." in page.text
    assert account.newest.digest in page.text
    assert page.text.count("replace_one") == 1


def test_an_empty_budget_and_one_that_is_used_up_have_a_page():
    page = page_about(Budget.create("empty", Guarantee(3.0, 1e-5)))
    assert "Spent: ε = 0 Left: at least ε = 3" in page.text
    assert "Nothing yet." in page.text
    pure = Budget.create("pure", Guarantee(1.0, 0.0), "add_remove")
    pure.reserve(Pure(1.0), Adjacency.ADD_REMOVE)
    page = page_about(pure)
    assert "Spent: ε = 1 Left: at least ε = 0" in page.text
    assert "does not fit: the budget is used up." in page.text
    assert "ε = 1 of 1 is spent, at δ = 0 for one person's row added or removed" in page.text


def test_a_budget_of_units_names_them_in_words():
    page = page_about(Budget.create("visits", Guarantee(3.0, 1e-5), unit="patient_id"))
    assert "for one patient replaced by any other, with all of its rows" in page.text
    assert "Privacy unit one patient, with all of its rows (patient_id)" in page.text


def test_the_summary_for_registries_says_what_the_account_says():
    budget = budget_with(Gaussian(20.0), SAMPLED, fixed_in_advance=True)
    account = budget.account()
    content, found = page_about(budget).summary
    assert (content["name"], content["dateCreated"]) == ("adult", account.created)
    assert (found["epsilon"], found["delta"], found["adjacency"], found["unit"]) == (3.0, 1e-5, "replace_one", "row")
    assert (found["spent"], found["left_at_least"]) == (account.spent, account.left)
    assert found["largest_further_release"] == account.largest(1e-5)
    assert (found["fixed_in_advance"], found["releases"], found["not_settled"]) == (True, 2, 1)
    assert found["newest_digest"] == account.newest.digest
    for part, release, total in zip(content["hasPart"], account.releases, account.totals([1, 2]).values(), strict=True):
        of_release = properties(part)
        assert of_release["epsilon_alone"] == release.epsilon
        assert of_release["spent_after"] == total
        assert of_release["settled"] == release.is_settled
        assert of_release.get("fingerprint") == release.fingerprint


def test_nothing_about_a_budget_tells_how_long_a_search_took_or_how_many_trials_it_drew(tmp_path, monkeypatch):
    """The same searches with other numbers of trials, seven seconds each: one page, one terminal, one database."""
    moment = None

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return moment

    monkeypatch.setattr("dperm.ledger.tables.datetime", Clock)
    monkeypatch.setattr("dperm.ledger.budget.uuid.uuid4", lambda: UUID(int=7))
    search = PrivateSearch(
        PrivateLogisticRegression(classes=[0, 1]),
        {"penalty": [0.01, 0.1]},
        epsilon=1.0,
        delta=1e-6,
        method="random-trials",
    )
    event = search.plan(500, 2).event
    trials = [[10_000, 1], [1, 1], [2, 9], [30, 2]]  # the first runs over midnight
    pages, shown, stored = set(), set(), set()
    for place, drawn in enumerate(trials):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / str(place)))  # no witness of the ledger before
        ledger = str(tmp_path / f"{place}.db")
        moment = datetime(2026, 11, 16, 20, 0, tzinfo=UTC)
        budget = Budget.create("adult", Guarantee(9.0, 1e-5), ledger=ledger)
        for number, count in enumerate(drawn):
            moment = datetime(2026, 11, 16 + number, 21, 0, tzinfo=UTC)
            reservation = budget.reserve(event, REPLACE_ONE)
            moment += timedelta(seconds=7 * count)
            reservation.settle(f"{number:064d}")
        pages.add(render_budget(budget.account()))
        shown.add(run("budget", "show", "adult", "--ledger", ledger))
        stored.add(str(rows(ledger)))
    assert (len(pages), len(shown), len(stored)) == (1, 1, 1)
    assert "2026-11-17" in pages.pop()
    assert not re.search(r"\d\d:\d\d", shown.pop()[1] + stored.pop())


def test_hostile_names_and_fingerprints_are_text_and_nothing_else():
    budget = Budget.create(HOSTILE, Guarantee(3.0, 1e-5))
    budget.reserve(Gaussian(20.0), REPLACE_ONE).settle("</script><img src=x onerror=alert(2)>")
    text = render_budget(budget.account())
    page = Page(text)
    assert page.elements.count("script") == 1
    assert "img" not in page.elements
    assert HOSTILE in page.text
    assert page.summary[0]["name"] == HOSTILE
    assert text.count("</script>") == 1


def test_the_page_needs_nothing_from_outside_and_is_the_same_again():
    budget = budget_with(Gaussian(20.0), SAMPLED)
    text = render_budget(budget.account())
    assert not re.search(r"https?:|//[a-z]|url\((?!#hatch\))|@import", text.replace("https://schema.org", ""))
    assert render_budget(budget.account()) == text


@pytest.mark.parametrize("kind", concrete(SingleEvent))
def test_every_event_has_words_of_its_own(kind):
    one, several = in_words(EVENT_EXAMPLES[kind]), in_words(Repeated(EVENT_EXAMPLES[kind], 7))
    assert one.startswith("1 ")
    assert several.startswith("7 ")
    assert f"({kind.name})" not in one
    assert one[2:] != several[2:]


@pytest.mark.parametrize("name", [HOSTILE, "..", "-rf", "a/b\\c", "C:x", "nul", "NUL.x", "é" * 100, "/etc/passwd", "~"])
def test_any_name_of_a_dataset_gives_a_name_of_a_file_in_this_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = page_named(name)
    assert path.name == str(path)
    assert not re.search(r'[<>:"/\\|?*~]', path.name)
    assert path.name[0] not in "-. "
    path.write_text("")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_the_command_writes_into_this_folder_or_where_it_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budget_with(Gaussian(20.0))
    assert run("budget", "report", "adult") == (0, "wrote adult-budget.html\n", "")
    before = (tmp_path / "adult-budget.html").read_text(encoding="utf-8")
    assert "Privacy budget of adult" in before
    assert "adult-budget.html already exists; use --force to overwrite." in refused("budget", "report", "adult")
    assert run("budget", "report", "adult", "--force")[0] == 0
    assert run("budget", "report", "adult", "-o", tmp_path / "other.html")[0] == 0
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == before


def test_a_ledger_that_was_edited_is_one_sentence_and_no_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = str(tmp_path / "team.db")
    budget_with(Gaussian(20.0), Gaussian(30.0), ledger=ledger)
    run_sql(ledger, ("UPDATE dperm_entries SET content = replace(content, '30.0', '90.0')",))
    error = refused("budget", "report", "adult", "--ledger", ledger)
    assert "the budget 'adult' in" in error
    assert "is damaged at entry 3" in error
    run_sql(ledger, ("DELETE FROM dperm_entries WHERE number = 3",))
    assert "is damaged" in refused("budget", "report", "adult", "--ledger", ledger)
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "there is no budget 'nobody' in "),
        ([""], "dataset must be a non-empty string"),
        (["adult", "--ledger", "missing.db"], "missing.db"),
        (["adult", "-o", "no/such/folder.html"], "its folder does not exist"),
        (["adult", "-o", "."], "it is a folder"),
        (
            ["adult", "--ledger", "nonsense://ann:secret@host/name"],
            "nonsense://ann:***@host/name is not a database URL",
        ),
    ],
)
def test_wrong_inputs_are_one_sentence_and_no_page(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budget_with(Gaussian(20.0))
    assert words in refused("budget", "report", *arguments)
    assert not list(tmp_path.glob("*.html"))


def test_the_page_is_not_written_over_the_ledger(tmp_path):
    ledger = tmp_path / "team.db"
    budget_with(Gaussian(20.0), ledger=str(ledger))
    before = ledger.read_bytes()
    error = refused("budget", "report", "adult", "--ledger", ledger, "-o", ledger, "--force")
    assert "it is a ledger" in error
    assert ledger.read_bytes() == before
