"""Pitfall 39: nonsense is said to the person who holds the rows, and to nobody else: it is in nothing that leaves."""

import json
import pickle
import re
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse

from dperm import (
    Budget,
    Category,
    Classes,
    DroppedRowsWarning,
    Guarantee,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Problem,
    Schema,
    minimize,
)
from dperm.cli.main import run_with
from dperm.files.content import content_of
from dperm.files.model_file import save_model
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Logistic, Squared
from dperm.problem.domains import L2Ball
from dperm.rows.row_facts import Usual, facts_of, unit_remarks
from dperm.schema import Amount

N = 1000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) / 4.0
Y = (X[:, 0] > 0).astype(int)
SENTINEL = 718273.6455


def two_classes(**more):
    return PrivateLogisticRegression(classes=[0, 1], **more)


def people(a, b, goal):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": a, "b": b, "goal": goal})


def schema(target):
    return Schema({"a": Number((-1, 1)), "b": Category(["x", "y"])}, target)


WORDS = np.where(X[:, 1] > 0, "x", "y")
NONSENSE = {
    "labels": (lambda **more: two_classes(**more).fit(X, Y + 5), "100 % of the rows have an undeclared label"),
    "half the labels": (lambda **more: two_classes(**more).fit(X, Y + 1), "nearly all valid targets are the same"),
    "nan": (lambda **more: two_classes(**more).fit(X * np.nan, Y), "100 % of the rows contain NaN/inf"),
    "too long": (lambda **more: two_classes(**more).fit(X * SENTINEL, Y), "100 % of the rows are more than 3 times as"),
    "sparse": (lambda **more: two_classes(**more).fit(sparse.csr_matrix(X * 100), Y), "of the rows are more than 3"),
    "one row": (lambda **more: two_classes(**more).fit(0.0 * X, Y), "nearly all encoded rows are the same"),
    "targets": (
        lambda **more: PrivateLinearRegression(row_norm=1.0, **more).fit(X, SENTINEL * Y + 2.0),
        "100 % of the targets are outside their range",
    ),
    "no number": (
        lambda **more: PrivateLinearRegression(row_norm=1.0, **more).fit(X, np.full(N, np.nan)),
        "or no target",
    ),
    "schema labels": (
        lambda **more: PrivateLogisticRegression(schema=schema(Classes("goal", ["u", "v"])), **more).fit(
            people(X[:, 0], WORDS, ["SENTINELvalue"] * N)
        ),
        "100 % of the rows have an undeclared label",
    ),
    "schema targets": (
        lambda **more: PrivateLinearRegression(schema=schema(Amount("goal", (0, 1))), **more).fit(
            people(X[:, 0], WORDS, SENTINEL * Y + 2.0)
        ),
        "100 % of the targets are outside",
    ),
    "schema nan": (
        lambda **more: PrivateLinearRegression(schema=schema(Amount("goal", (-1, 1))), **more).fit(
            people(np.full(N, np.nan), [None] * N, X[:, 1])
        ),
        "nearly all encoded rows are the same",
    ),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_said_where_the_fit_was_called_without_a_value(case):
    fit, words = NONSENSE[case]
    with pytest.warns(DroppedRowsWarning, match=words) as caught:
        model = fit()
    (warning,) = caught
    text = str(warning.message)
    assert "without noise" in text
    assert "must not be passed on" in text
    assert "71827" not in text
    assert "SENTINEL" not in text
    # Besides two constants, the bound of "3 times" and the range that is taken if none is given, the only numbers are
    # shares in tens of per cent.
    assert not re.findall(
        r"\d",
        re.sub(r"\babout (100|[1-9]0) %|more than 3 times|\[-1, 1\] by default \(\[0, 1\] for counts\)", "", text),
    )
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("case", NONSENSE)
def test_the_notice_is_in_nothing_that_leaves(case, tmp_path):
    ledger = tmp_path / "ledger.db"
    budget = Budget.create("people", Guarantee(5.0, 1e-3), ledger=str(ledger))
    fit, words = NONSENSE[case]
    with pytest.warns(DroppedRowsWarning):
        model = fit(budget=budget)
    save_model(model, tmp_path / "model.json")
    texts = [
        (tmp_path / "model.json").read_text(), repr(model), str(model.privacy_), str(vars(model)), str(model.event_),
        pickle.dumps(model).decode("latin1"), ledger.read_bytes().decode("latin1"),
    ]  # fmt: skip
    for text in texts:
        assert words not in text
        assert "must not be passed on" not in text
        assert "AboutYourRows" not in text


@pytest.mark.parametrize("case", NONSENSE)
def test_the_notice_changes_nothing_about_the_result(case):
    fit, _ = NONSENSE[case]
    with pytest.warns(DroppedRowsWarning):
        shown = content_of(fit(random_state=1))
    assert content_of(fit(random_state=1, row_warnings=False)) == shown


@pytest.mark.parametrize("case", NONSENSE)
def test_the_notice_is_never_an_error_and_can_be_turned_off(case, capsys):
    fit, words = NONSENSE[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(fit().coef_).all()
        assert words in capsys.readouterr().err
        fit(row_warnings=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedRowsWarning)
        fit()
    assert capsys.readouterr().err == ""


def test_what_shows_warnings_may_fail_or_be_absent(monkeypatch):
    fit, _ = NONSENSE["nan"]

    def broken(*_arguments, **_more):
        raise RuntimeError("no log today")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", broken)
        monkeypatch.setattr(sys, "stderr", None)
        assert np.isfinite(fit().coef_).all()


def test_every_fit_says_it_and_no_registry_keeps_it():
    fit, words = NONSENSE["nan"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        fit()
        fit()
    assert len(caught) == 2
    for module in list(sys.modules.values()):
        registry = vars(module).get("__warningregistry__") or {}
        assert not [key for key in registry if words in str(key)]


@pytest.mark.parametrize(
    "fit",
    [
        lambda: two_classes().fit(X, Y),
        lambda: two_classes().fit(2.5 * X / np.linalg.norm(X, axis=1, keepdims=True), Y),  # clipped, but not far
        lambda: two_classes().fit(np.where(np.arange(N)[:, None] < 0.09 * N, np.nan, X), Y),
        lambda: two_classes().fit(X, np.where(np.arange(N) < 0.09 * N, 7, Y)),
        lambda: two_classes().fit(np.where(np.arange(N)[:, None] < 0.45 * N, 1e6, X), Y),
        lambda: two_classes().fit(sparse.csr_matrix(X), Y),
        lambda: PrivateLinearRegression(row_norm=1.0).fit(X, np.where(np.arange(N) < 0.09 * N, 5.0, X[:, 0])),
        lambda: PrivateLinearRegression(schema=schema(Amount("goal", (-1, 1)))).fit(people(X[:, 0], WORDS, X[:, 1])),
        lambda: minimize(Problem(Logistic()), X, Y, guarantee=Guarantee(1.0, 1e-6)),
    ],
)
def test_ordinary_rows_are_not_worth_a_word(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    assert not caught


def test_the_lower_level_api_says_it_too():
    problem = Problem(Squared(), domain=L2Ball(1.0))
    with pytest.warns(DroppedRowsWarning, match="100 % of the targets"):
        minimize(problem, X, Y + 2.0, guarantee=Guarantee(1.0, 1e-6))
    minimize(problem, X, Y + 2.0, guarantee=Guarantee(1.0, 1e-6), row_warnings=False)


def test_facts_of_blocks_add_up_to_those_of_the_table():
    given = np.array([1.0, np.nan, -1.0, 5.0, 2.0, 0.5])
    norms, scale = np.array([1.0, 1.0, np.nan, 9.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0 / 9.0, 1.0, 1.0])
    table = np.ones((6, 2))

    def facts(part):
        clipped = np.clip(given[part], -1.0, 1.0)
        return facts_of(table[part], given[part], clipped, norms[part], scale[part], (-1.0, 1.0))

    whole = facts(slice(None))
    assert facts(slice(0, 4)) + facts(slice(4, 6)) == whole
    assert (whole.n_rows, whole.n_bad_values, whole.n_bad_targets, whole.n_far, whole.n_outside) == (6, 1, 1, 1, 2)
    assert (whole.n_usable, whole.target, whole.row.n) == (4, Usual(1.0, 3.0), 5)


# --- A few rows, or a few units, do not make a notice appear, vanish or change: from every plain case. ---

ODD = (0, 1, 10)  # rows that are otherwise


def few(count, odd, plain):
    """So many odd entries in front of the plain ones."""
    rows = np.arange(N) < count
    return np.where(rows[:, None] if np.ndim(plain) == 2 else rows, odd, plain)


def amounts():
    return PrivateLinearRegression(row_norm=1.0)


def by_rows(X, y, model=two_classes):
    return lambda: model().fit(X, y)


PLAIN = {
    "ordinary rows": lambda k: by_rows(few(k, 0.1, X), Y),
    "no bad value": lambda k: by_rows(few(k, np.nan, X), Y),
    "only bad values": lambda k: by_rows(few(k, X, X * np.nan), Y),
    "no unknown label": lambda k: by_rows(X, few(k, 7, Y)),
    "only unknown labels": lambda k: by_rows(X, few(k, Y, 7)),
    "no long row": lambda k: by_rows(few(k, 1e6, X), Y),
    "only long rows": lambda k: by_rows(few(k, X, 100.0 * X / np.linalg.norm(X, axis=1, keepdims=True)), Y),
    "no target outside": lambda k: by_rows(X, few(k, 5.0, X[:, 0]), amounts),
    "only targets outside": lambda k: by_rows(X, few(k, X[:, 0], Y + 2.0), amounts),
    "one target": lambda k: by_rows(X, few(k, 1, 0 * Y)),
    "one target among numbers": lambda k: by_rows(X, few(k, X[:, 1], 0.25), amounts),
    "all targets differ": lambda k: by_rows(X, few(k, 0.5, X[:, 1]), amounts),
    "one row": lambda k: by_rows(few(k, X, 0.0 * X + 0.1), Y),
    "one row, sparse": lambda k: by_rows(sparse.csr_matrix(few(k, X, 0.0 * X + 0.1)), Y),
}


def notices(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in caught if one.category is DroppedRowsWarning]


@pytest.mark.parametrize("case", PLAIN)
def test_a_few_rows_change_no_notice(case):
    said = [notices(PLAIN[case](k)) for k in ODD]
    assert said[0] == said[1] == said[2]
    assert bool(said[0]) == case.startswith(("only", "one"))


UNITS = {  # how many rows the units have, and those of the odd ones, who may have very many
    "no unit repeats": (np.ones(N, int), 500, "hardly any person has more than one row"),
    "all units repeat": (np.full(N, 2), 1, None),
    "none beyond": (np.full(N, 3), 2000, None),
    "all beyond": (np.full(N, 8), 3, "about 60 %, in the mean over all units, are beyond 3, and are not used"),
}


@pytest.mark.parametrize("case", UNITS)
def test_a_few_units_change_no_notice_however_many_rows_they_have(case):
    counts, odd, words = UNITS[case]
    said = []
    for k in ODD:
        found = Membership.of(PrivacyUnit("person_id", 3), np.repeat(np.arange(N), few(k, odd, counts)))
        said.append(unit_remarks(found))
    assert said[0] == said[1] == said[2]
    assert words in said[0][0] if words else not said[0]


@pytest.mark.parametrize("contribution", [{"max_rows_per_unit": 2}, {"contribution": "average"}])
def test_a_person_with_most_of_the_rows_changes_no_notice(contribution):
    said = []
    for last in (X[-1:], np.full((3 * N, 3), np.nan), np.full((3 * N, 3), 1e6), np.full((3 * N, 3), 0.1)):
        rows, whose = np.concatenate([X[:-1], last]), np.minimum(np.arange(N - 1 + len(last)), N - 1)
        y = np.concatenate([Y[:-1], np.ones(len(last), int)])
        model = two_classes(unit="who", solver="dp-gd", **contribution)
        said.append(notices(lambda: model.fit(rows, y, groups=whose)))  # noqa: B023 - called at once
    assert said[0] == said[1] == said[2] == said[3]


def test_targets_that_are_sorted_by_file_are_not_the_same():
    halves = [facts_of(X[:500], y, y, np.ones(500), np.ones(500), None) for y in (np.zeros(500), np.ones(500))]
    assert not (halves[0] + halves[1]).remarks()
    assert "nearly all valid targets" in (halves[0] + halves[0]).remarks()[0]


def test_nothing_is_said_of_a_table_where_few_rows_are_a_large_share():
    assert not notices(lambda: two_classes().fit(X[:150] * np.nan, Y[:150]))


@pytest.fixture
def nonsense_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,c,kind\n" + "".join(f"{a},{b},{c},SENTINELvalue\n" for a, b, c in X))
    options = ["--target", "kind", "--classes", "no,yes", "--epsilon", "1", "--delta", "1e-6"]
    return ["fit", str(path), *options, "-o", str(tmp_path / "m.json"), "--force"]


@pytest.mark.parametrize(
    ("flags", "terminal", "shown"),
    [
        ([], False, False),
        ([], True, True),
        (["--row-warnings"], False, True),
        (["--no-row-warnings"], True, False),
    ],
)
@pytest.mark.filterwarnings("default")
def test_the_command_line_says_it_on_a_terminal_or_where_a_flag_asks(
    flags, terminal, shown, nonsense_file, capsys, monkeypatch
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert run_with([*nonsense_file, *flags]) == 0
    printed = capsys.readouterr()
    assert ("must not be passed on" in printed.err) == shown
    assert "of the rows" not in printed.out
    assert "SENTINEL" not in printed.out + printed.err


@pytest.mark.filterwarnings("default")
def test_a_log_of_the_command_line_is_the_same_for_sense_and_nonsense(nonsense_file, capfd, tmp_path):
    printed = []
    for labels in (Y, ["SENTINELvalue"] * N):
        words = [{0: "no", 1: "yes"}.get(label, label) for label in labels]
        lines = [f"{a},{b},{c},{word}\n" for (a, b, c), word in zip(X, words, strict=True)]
        (tmp_path / "table.csv").write_text("a,b,c,kind\n" + "".join(lines))
        assert run_with(nonsense_file) == 0
        content = json.loads((tmp_path / "m.json").read_text())
        shapes = {key: np.shape(content.pop(key)) for key in ("coef", "intercept", "fingerprint")}
        printed.append((capfd.readouterr(), content, shapes))
    assert printed[0] == printed[1]
