"""Pitfalls 26, 27, 30: fit rows that carry sentinels, then search every text and byte that comes out."""

import io
import json
import logging
import pickle
import re
import traceback
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from dperm import Guarantee, PrivateLinearRegression, PrivateLogisticRegression, Problem, minimize
from dperm.cli.main import run_with
from dperm.files.model_file import save_model
from dperm.problem import Logistic, Squared

SENTINEL = 0.7182736455
SENTINEL_TEXT = "SENTINELvalue"
N = 300


def marked_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) / 3
    X[7, 1] = SENTINEL
    return X, (X[:, 0] > 0).astype(int)


def assert_clean(text):
    assert "718273" not in text
    assert SENTINEL_TEXT not in text


def test_logs_prints_pickles_and_files_hold_no_value_of_the_rows(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    X, y = marked_rows()
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        model = PrivateLogisticRegression(classes=[0, 1], verbose=True).fit(X, y)
    assert out.getvalue() == err.getvalue() == ""
    logged = [record for record in caplog.records if record.name.startswith("dperm")]
    assert logged  # of public facts: tests/models/test_sklearn_parameters.py
    assert_clean("\n".join(f"{record.getMessage()} {vars(record)}" for record in logged))
    path = tmp_path / "model.json"
    save_model(model, path)
    shown = (repr(model), str(model.privacy_), repr(model.privacy_), path.read_text(), str(model.event_))
    for text in (*shown, model._repr_html_(), model.privacy_._repr_html_()):
        assert_clean(text)
    assert np.float64(SENTINEL).tobytes() not in pickle.dumps(model)


def every_text_of(error):
    """Message, notes, causes and contexts, as any logger could print them."""
    seen = []
    while error is not None:
        seen.append("".join(traceback.format_exception_only(error)))
        error = error.__cause__ or error.__context__
    return "\n".join(seen)


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: PrivateLogisticRegression(classes=[0, 1]).fit(X, y[:-1]),
        lambda X, y: PrivateLogisticRegression(classes=[0, 1]).fit(X[7], y),
        lambda X, y: PrivateLogisticRegression(classes=[0, 1]).fit(X[7] * (1 + 1j), y),
        lambda X, y: PrivateLogisticRegression(classes=[0, 1]).fit([SENTINEL, [SENTINEL, 1.0], SENTINEL], y[:3]),
        lambda X, y: PrivateLinearRegression(row_norm=1.0).fit(X, X),
        lambda X, y: PrivateLinearRegression(row_norm=1.0).fit(X, y, np.full(N, 1.0 + SENTINEL)),
        lambda X, y: PrivateLinearRegression(row_norm=1.0).fit(X, y, [SENTINEL_TEXT] * N),
        lambda X, y: PrivateLinearRegression(row_norm=1.0).fit(X, y, [[SENTINEL]] * N),
        lambda X, y: PrivateLinearRegression(row_norm=1.0).fit(X, [[SENTINEL]] * N),
        lambda X, y: PrivateLogisticRegression().fit(X, X[:, 1]),
        lambda X, y: PrivateLinearRegression(row_norm=1.0).fit(X, np.full(N, SENTINEL_TEXT)),
        lambda X, y: minimize(Problem(Squared()), X, y, guarantee=Guarantee(1.0, 1e-6), solver="adassp", noise="more"),
        lambda X, y: minimize(Problem(Logistic()), X, np.full(N, SENTINEL_TEXT), guarantee=Guarantee(1.0, 1e-6)),
        lambda X, y: minimize(Problem(Logistic()), X.tolist(), y, guarantee=Guarantee(1.0, 1e-6), solver="newton"),
        lambda X, y: PrivateLogisticRegression(classes=[0, 1]).fit([[SENTINEL_TEXT] * 3] * N, y),
        lambda X, y: PrivateLogisticRegression(classes=[0, 1]).fit(X, y).predict([[SENTINEL_TEXT] * 3]),
    ],
)
@pytest.mark.filterwarnings("ignore:the classes were read from y")
def test_errors_hold_no_value_of_the_rows(fit):
    X, y = marked_rows()
    with pytest.raises((ValueError, TypeError)) as caught:
        fit(X, y)
    assert_clean(every_text_of(caught.value))


@pytest.mark.parametrize(
    "place", ["number", "line", "label", "encoding", "quote", "empty", "odd encoding", "quoted break"]
)
def test_the_command_line_shows_no_value_and_no_row_decides_its_course(place, tmp_path, capfd):
    X, y = marked_rows()
    lines = ["a,b,c,kind"] + [
        f"{a:.6f},{b:.6f},{c:.6f},{'yes' if k else 'no'}" for (a, b, c), k in zip(X, y, strict=True)
    ]
    hostile = {
        "number": f"0.1,{SENTINEL_TEXT},0.2,yes",
        "line": f"0.1,{SENTINEL_TEXT}",
        "label": f"0.1,0.2,0.3,{SENTINEL_TEXT}",
        "encoding": "0.1,0.2,\udcff\udcfe" + SENTINEL_TEXT + ",yes",
        "quote": f'"0.1,0.2,{SENTINEL_TEXT},yes',
        "empty": "",
        "odd encoding": "0.1,0.2,0.3,yes,\udcff" + SENTINEL_TEXT,
        "quoted break": f'0.1,"{SENTINEL_TEXT}',
    }
    outputs = []
    for text in ("\n".join(lines), "\n".join([*lines[:100], hostile[place], *lines[101:]])):
        table = tmp_path / "table.csv"
        table.write_bytes(text.encode("utf-8", errors="surrogateescape"))
        arguments = ["fit", str(table), "--target", "kind", "--classes", "no,yes", "--epsilon", "1", "--delta", "1e-6"]
        assert run_with([*arguments, "-o", str(tmp_path / "model.json"), "--force"]) == 0
        printed = capfd.readouterr()
        content = json.loads((tmp_path / "model.json").read_text())
        assert len(content.pop("fingerprint")) == 64  # of the noisy coefficients too
        shape = {key: np.shape(value) if key in ("coef", "intercept") else value for key, value in content.items()}
        outputs.append((printed.out, printed.err, shape))
        assert_clean(printed.out + printed.err + (tmp_path / "model.json").read_text())
    assert outputs[0] == outputs[1]


def test_the_number_of_steps_depends_on_public_numbers_only():
    X, y = marked_rows()
    steps = []
    for scale in (1.0, 1e-9, 1e9):
        counted = []
        minimize(
            Problem(Logistic()),
            X * scale,
            y,
            guarantee=Guarantee(1.0, 1e-6),
            progress=lambda k, n, c=counted: c.append((k, n)),
        )
        steps.append(counted)
    assert steps[0] == steps[1] == steps[2]
    assert steps[0][-1][0] == steps[0][-1][1]


def test_messages_are_one_sentence_of_words():
    with pytest.raises(ValueError, match="epsilon") as caught:
        Guarantee(-1.0, 1e-6)
    assert re.fullmatch(r"[^\n]+\.", str(caught.value))
