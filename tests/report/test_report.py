"""The page of `dperm report`: what it says, and that nothing in a model file can make it say or do anything else."""

import json
import re
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from dperm import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, PrivatePoissonRegression
from dperm.accounting.attack import true_positive_rates
from dperm.cli.main import run_with
from dperm.errors import InvalidParameterError
from dperm.files.content import content_of
from dperm.files.model_file import save_model
from dperm.ledger import Budget
from dperm.models.registry import models
from dperm.privacy.assumptions import assumptions
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.report import render_report
from dperm.report.coefficients import MOST_ROWS
from dperm.report.page import FALSE_POSITIVE_RATES
from dperm.report.titles import title_of
from dperm.report.words import percent_up
from dperm.schema import Amount, Bins, Category, Classes, Number, Schema
from report.html_page import Page

pandas = pytest.importorskip("pandas")

SCRIPT, IMAGE, LONG = "<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a_long_name_" * 40
N_ROWS = 2000


def table(n=N_ROWS):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"age": rng.uniform(0, 100, n), "sex": rng.choice(["f", "m"], n), "gain": rng.uniform(0, 9, n)}
    )
    frame["kind"] = np.where(frame.age > 50, "high", "low")
    frame["level"] = rng.choice(["low", "middle", "high"], n)
    frame["price"] = 10.0 * frame.age
    return frame


COLUMNS = {
    "age": Number((0, 100), encode="linear", missing="column"),
    "sex": Category([["f", "F"], "m"], missing="row", unseen="column"),
    "gain": Bins([1, 5]),
}
TWO = Schema(COLUMNS, Classes("kind", ["low", "high"]), n=N_ROWS, missing=["?"])


def fitted(schema=TWO, kind=PrivateLogisticRegression, **options):
    return kind(1.0, 1e-5, schema=schema, **options).fit(table())


def page_of(model, **options):
    return Page(render_report(json.loads(json.dumps(content_of(model))), **options))


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def page(model):
    return page_of(model)


def test_the_page_says_what_is_released_and_that_it_is_verified(model, page):
    assert "Logistic regression" in page.text
    assert "kind (the classes low, high)" in page.text
    assert "3 columns, which become 8 entries" in page.text
    assert content_of(model)["fingerprint"][:12] in page.text
    assert "VERIFIED: the recorded events imply the stated guarantee" in page.text
    assert "NOT" not in page.text.replace("NOT within", "")
    assert page.text.startswith("Logistic regression of kind (low, high): privacy report ")
    assert "File model.json" in page.text
    assert "✗" not in page.text


def test_the_true_positive_rates_are_those_of_the_accountant(model, page):
    rates = true_positive_rates(model.event_, Adjacency.REPLACE_ONE, FALSE_POSITIVE_RATES)
    for rate, found in zip(FALSE_POSITIVE_RATES, rates, strict=True):
        written = percent_up(found).replace("\N{NO-BREAK SPACE}", " ")
        assert rate < found <= float(written.removesuffix(" %")) / 100 <= found * 1.01
        assert f"{100 * rate:g} % {100 * rate:g} % {written}" in page.text


def test_every_coefficient_is_on_the_page_by_name_and_value_with_its_noise(model, page):
    for name, value in zip(model.schema_.feature_names, model.coef_[0], strict=True):
        assert name in page.text
        assert f"{abs(value):.3f}" in page.text
    assert f"± {2 * model.privacy_.coefficient_noise:.3g}" in page.text
    assert "before shrinking" in page.text


def test_every_rule_of_the_schema_is_in_words(page):
    for sentence in (
        "A number from 0 to 100. It becomes an entry from −1 to 1.",
        "A number outside the range counts as the nearer end.",
        "One of 2 values. The entry of the value is 1, the others are 0. f or F m",
        "Any other value gives a 1 in the entry “other”.",
        "A missing value drops the whole row.",
        "A number, cut at 1, 5.",
        "Missing values are an empty field, and the text ?.",
        "Rows with any other label are dropped.",
    ):
        assert sentence in page.text


def test_every_assumption_has_a_box_and_there_is_a_line_to_sign_on(model, page):
    sentences = assumptions(model.privacy_, model.schema_, None)
    assert all(sentence in page.text for sentence in sentences)
    assert page.attributes.count(("class", "box")) == len(sentences)
    assert "Name Date Signature" in page.text


def test_the_page_repeats_the_six_lines_and_the_command_that_checks_them(model, page):
    assert " ".join(str(model.privacy_).split()) in page.text
    assert "dperm verify model.json" in page.text


def test_the_page_needs_nothing_from_outside(model):
    text = render_report(content_of(model))
    page = Page(text)
    assert text.count("https://schema.org") == 1  # a name in the block of data, which nothing loads
    assert not re.search(r"https?:|//[a-z]|url\((?!#hatch\))|@import", text.replace("https://schema.org", ""))
    assert page.elements.count("script") == 1
    assert ("type", "application/ld+json") in page.attributes
    assert not {"link", "img", "iframe", "object", "embed", "form"} & set(page.elements)
    assert not {"src", "href", "srcset", "action"} & {name for name, _ in page.attributes}


def titled(kind, target=None, classes=None, candidates=0):
    """The title of a model, by what a title depends on."""
    schema = None if target is None else SimpleNamespace(target=SimpleNamespace(column=target))
    found = SimpleNamespace(title=models()[kind].title, schema_=schema)
    if classes is not None:
        found.classes_ = np.array(classes)
    if candidates:
        found.search_ = SimpleNamespace(n_candidates=candidates)
    return str(title_of(found))


def test_the_title_says_what_was_released():
    assert titled("logistic", "income", ["<=50K", ">50K"]) == "Logistic regression of income (<=50K, >50K)"
    assert titled("logistic", classes=[0, 1]) == "Logistic regression (classes 0, 1)"
    assert titled("logistic", "cover", list(range(7))) == "Logistic regression of cover (7 classes)"
    assert titled("logistic", "x", ["a" * 50, "b" * 50]) == "Logistic regression of x (2 classes)"
    assert titled("linear", "price") == "Linear regression of price"
    assert titled("linear") == "Linear regression"
    assert titled("linear", "price", candidates=6) == "Linear regression of price, chosen among 6 candidates"
    assert titled("linear", "x" * 100) == f"Linear regression of {'x' * 59}…"
    assert titled("linear", "a\nb\u202e") == "Linear regression of a\\nb\\u202e"


@pytest.mark.parametrize("kind", models())
def test_every_kind_of_model_has_a_title_that_begins_with_a_capital(kind):
    assert re.fullmatch(r"[A-Z][A-Za-z ]+ of y", titled(kind, "y"))


def test_the_summary_for_registries_says_what_the_statement_says(model, page):
    content, found = page.summary
    statement = model.privacy_
    assert content["name"] == "Logistic regression of kind (low, high)"
    assert content["identifier"] == f"sha256:{content_of(model)['fingerprint']}"
    for name in ("epsilon", "delta", "adjacency", "n", "mechanism", "noise", "for_release"):
        assert found[name] == getattr(statement, name), name
    assert (found["unit"], found["verified"], found["searched"]) == ("row", True, False)
    assert found["library"] == content_of(model)["library"]
    assert not {"dataset", "ledger_entry", "epsilon_of_last_fit"} & set(found)


def test_adjacency_is_in_words_and_its_name_in_the_facts_and_quotations_only(model, page):
    quoted = [*str(model.privacy_).splitlines(), *assumptions(model.privacy_, model.schema_, None)]
    text = page.text
    for line in quoted:
        text = text.replace(" ".join(line.split()), "")
    assert text.count("replace_one") == 1
    assert "one person's row replaced by any other (replace_one)" in text
    assert "ε = 1, δ = 0.00001 for one person's row replaced by any other" in text


def test_headings_go_down_one_level_at_a_time(page):
    levels = [int(tag[1]) for tag in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_same_file_gives_the_same_page(model):
    assert render_report(content_of(model)) == render_report(content_of(model))


@pytest.mark.filterwarnings("ignore")
def test_a_seeded_model_has_a_banner_and_nothing_to_sign():
    page = page_of(fitted(random_state=1))
    assert page.text.startswith("Logistic regression of kind (low, high): privacy report NOT FOR RELEASE")
    assert page.summary[1]["for_release"] is False
    assert page.summary[1]["verified"] is False
    assert ("class", "watermark") in page.attributes
    assert "Reasons: not for release: the noise came from a seed" in page.text
    assert "There is no guarantee for this model" in page.text
    assert "There is nothing to sign" in page.text
    assert "Signature" not in page.text
    assert "VERIFIED" not in page.text.replace("NOT VERIFIED", "")


def test_a_file_that_was_changed_has_a_banner(model):
    content = content_of(model)
    content["coef"][0][0] += 1.0
    page = Page(render_report(content))
    assert "NOT VERIFIED Do not rely on this page. Reasons: the file was modified" in page.text
    assert "There is nothing to sign" in page.text


def test_a_promise_that_the_events_do_not_keep_has_a_banner(model):
    content = content_of(model)
    content["privacy"]["epsilon"] = 0.1
    page = Page(render_report(content))
    assert "NOT within the promised" in page.text
    assert "What an attacker can do" not in page.text
    assert "fitted without noise" not in page.text
    assert ("class", "banner") in page.attributes


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_noise_promises_nothing():
    page = page_of(fitted(noise=None))
    assert "There is no guarantee." in page.text
    assert "NOT FOR RELEASE" in page.text
    assert "true positive rate" not in page.text
    assert "with noise" not in page.text
    assert page.summary[1]["epsilon"] == "inf"


def test_contents_that_do_not_fit_together_are_refused(model):
    content = content_of(model)
    content["columns"] = content["columns"][1:]
    with pytest.raises(InvalidParameterError, match="do not fit together"):
        render_report(content)


def test_three_classes_have_a_panel_each_and_no_bound_draws_no_bar():
    model = fitted(Schema(COLUMNS, Classes("level", ["low", "middle", "high"]), n=N_ROWS), solver="dp-agd")
    assert model.privacy_.coefficient_noise is None
    page = page_of(model)
    assert all(f"Score of {label}" in page.text for label in ("low", "middle", "high"))
    assert page.elements.count("details") == 3
    assert "no error bars are drawn" in page.text
    assert "±" not in page.text.replace("(± ", "")  # where it says how exactly ε was derived again


def test_a_regression_shows_its_target_and_a_released_range_is_marked():
    columns = COLUMNS | {"gain": Number("private", encode="linear", within=(0, 10))}
    model = fitted(Schema(columns, Amount("price", (0, 1000)), n=N_ROWS), PrivateLinearRegression)
    page = page_of(model)
    assert "Linear regression" in page.text
    assert "Prediction of price" in page.text
    assert "price target A number from 0 to 1000." in page.text
    low, high = model.schema_.columns["gain"].bounds
    assert f"gain range from this fit A number from {low:.12g} to {high:.12g}." in page.text
    assert "The ranges of gain came out of this fit" in page.text
    later = page_of(fitted(model.schema_, PrivateLinearRegression))
    assert "gain range from an earlier release A number from" in later.text
    assert "and its cost is not part of this ε." in later.text


@pytest.mark.parametrize(
    ("kind", "transform", "words"),
    [
        (PrivateLinearRegression, None, "prediction"),
        (PrivateLinearRegression, "log1p", "logarithm of 1 plus the prediction"),
        (PrivatePoissonRegression, None, "logarithm of the prediction"),
    ],
)
def test_the_intercept_is_what_it_predicts_or_its_logarithm(kind, transform, words):
    page = page_of(fitted(Schema(COLUMNS, Amount("price", (0, 1000), transform=transform), n=N_ROWS), kind))
    assert f"Intercept (the {words} for a row of zeros)" in page.text


def test_without_a_schema_wide_models_show_the_largest_and_a_table_of_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 90)) / 10
    model = PrivateLinearSVC(1.0, 1e-5, classes=[0, 1], adjacency="add_remove", n=N_ROWS).fit(X, X[:, 0] > 0)
    page = page_of(model)
    assert f"Shown are the {MOST_ROWS} largest of 90 coefficients." in page.text
    shown = [value for name, value in page.attributes if name == "title" and re.fullmatch(r"x\d+", value)]
    largest = np.argsort(-np.abs(model.coef_[0]), kind="stable")[:MOST_ROWS]
    assert shown == [f"x{place}" for place in sorted(largest)]
    assert all(f" x{place} " in page.text for place in range(90))
    assert "No schema was declared" in page.text
    assert "one person's row is in the table" in page.text
    assert f"{N_ROWS} rows, a declared number" in page.text


def hostile_model():
    frame = table().rename(columns={"age": SCRIPT, "sex": LONG, "kind": IMAGE})
    frame[LONG] = np.where(frame[LONG] == "f", SCRIPT, "{{ 7 * 7 }}")
    columns = {SCRIPT: Number((0, 100), encode="linear"), LONG: Category([SCRIPT, "{{ 7 * 7 }}", "\u202egnp" * 60])}
    schema = Schema(columns, Classes(IMAGE, ["low", "high", IMAGE]), n=N_ROWS, missing=[SCRIPT + "?"])
    return PrivateLogisticRegression(1.0, 1e-5, schema=schema).fit(frame)


def test_hostile_names_are_text_and_nothing_else():
    page = page_of(hostile_model(), file_name=IMAGE)
    assert page.elements.count("script") == 1
    assert "img" not in page.elements
    assert SCRIPT not in page.scripts[0]
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert SCRIPT in page.text
    assert IMAGE in page.text
    assert LONG in page.text
    assert "{{ 7 * 7 }}" in page.text


@pytest.fixture
def ledger(tmp_path):
    return str(tmp_path / "ledger.db")


def test_the_history_of_the_budget_is_shown_with_a_ledger_only(ledger):
    budget = Budget.create("people", Guarantee(3.0, 1e-5), ledger=ledger)
    first, second = fitted(budget=budget), fitted(budget=budget)
    page = page_of(second, ledger=ledger)
    together = (
        "All releases from the dataset people together may spend ε = 3 at δ = 0.00001 for one person's row replaced"
    )
    assert together in page.text
    assert page.text.count("(this release)") == 1
    assert content_of(first)["fingerprint"][:12] in page.text
    assert "in the ledger was charged for this release" in page.text
    assert "Left: at least ε = " in page.text
    found, entry = page.summary[1], second.ledger_entry_
    assert (found["dataset"], found["ledger_entry"], found["ledger_digest"]) == ("people", 3, entry["digest"])
    page = page_of(second)
    assert "charged to the budget of the dataset people" in page.text
    assert "dperm report model.json --ledger LEDGER" in page.text


def test_the_ledger_may_be_named_in_the_environment(ledger, tmp_path, monkeypatch):
    save_model(fitted(budget=Budget.create("people", Guarantee(3.0, 1e-5), ledger=ledger)), tmp_path / "model.json")
    monkeypatch.setenv("DPERM_LEDGER", ledger)
    assert run_with(["report", str(tmp_path / "model.json")]) == 0
    assert "(this release)" in (tmp_path / "model.html").read_text(encoding="utf-8")


def test_a_ledger_that_does_not_know_the_release_is_a_banner_and_not_an_error(ledger):
    model = fitted(budget=Budget.create("people", Guarantee(3.0, 1e-5), ledger=ledger))
    page = page_of(model, ledger=f"{ledger}-of-others")
    assert "NOT VERIFIED" in page.text
    assert "Its history cannot be shown" in page.text


def test_a_ledger_entry_of_another_is_not_verified(model):
    page = Page(
        render_report(
            content_of(model) | {"ledger": {"dataset": SCRIPT, "number": 1, "digest": "0", "fixed_in_advance": False}}
        )
    )
    assert "NOT VERIFIED" in page.text
    assert f"charged to the budget of the dataset {SCRIPT}" in page.text


def test_no_budget_is_said_to_be_none(page):
    assert "No budget was charged for this release." in page.text


def test_the_command_writes_beside_the_model_or_where_it_is_told(model, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("DPERM_LEDGER", raising=False)
    path = tmp_path / "model.json"
    save_model(model, path)
    assert run_with(["report", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'model.html'}\n"
    assert "VERIFIED" in (tmp_path / "model.html").read_text(encoding="utf-8")
    assert run_with(["report", str(path), "-o", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").read_text() == (tmp_path / "model.html").read_text()


def test_the_command_overwrites_neither_the_model_nor_a_folder(model, tmp_path, capsys):
    path = tmp_path / "model.html"
    save_model(model, path)
    before = path.read_text()
    assert run_with(["report", str(path)]) == 2
    assert run_with(["report", str(path), "-o", str(tmp_path)]) == 2
    assert run_with(["report", str(path), "-o", str(tmp_path / "none" / "page.html")]) == 2
    assert run_with(["report", str(tmp_path / "nothing.json")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert all("cannot be" in line for line in lines)
    assert path.read_text() == before


def test_a_binned_number_is_shown_end_by_end_and_says_where_its_bins_came_from():
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"gain": rng.gamma(1.0, 100.0, 20_000), "job": "a"})
    table["rich"] = np.where(table.gain > 90, "yes", "no")
    columns = {"gain": Number((0, 10_000)), "job": Category(["a"])}
    schema = Schema(columns, Classes("rich", ["no", "yes"]), interactions=1)
    # A seed, because noise now and then cuts at 9999.57, and then the end is written 10000.
    model = PrivateLogisticRegression(1.0, 1e-6, schema=schema, random_state=0).fit(table)
    page = " ".join(render_report(content_of(model)).split())
    assert "bins from this fit" in page
    assert "The bin edges were not known in advance." in page
    assert "at 0" in page
    assert "at 1e+04" in page
    assert f"in {model.schema_.columns['gain'].n_bins} bins cut at" in page
    assert "gain × job" in page
    assert "The bins of gain came out of this fit, and their cost is part of its ε." in page
