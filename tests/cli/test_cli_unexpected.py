"""What nobody foresaw: the command line says that it happened, and nothing of what it was about."""

import signal
import sys

import numpy as np
import pytest

from dperm import PrivateLogisticRegression
from dperm.cli.entry import run
from dperm.cli.main import run_with

pytestmark = pytest.mark.usefixtures("own_folders")

SENTINEL = "SENTINELvalue"


@pytest.fixture
def arguments(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{a:.4f},{b:.4f},{'yes' if a > 0 else 'no'}" for a, b in rng.normal(size=(50, 2))]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,kind", *lines]))
    fit = ["fit", str(tmp_path / "table.csv"), "--target", "kind", "--classes", "no,yes", "--epsilon", "1"]
    return [*fit, "--delta", "1e-6", "-o", str(tmp_path / "model.json")]


def _chained():
    try:
        raise KeyError(SENTINEL)
    except KeyError as error:
        raise RuntimeError(f"a row holds {SENTINEL}") from error


def _plain():
    raise ValueError(f"could not convert {SENTINEL}")


def _with_a_note():
    error = ArithmeticError("overflow")
    error.add_note(f"at {SENTINEL}")
    raise error


@pytest.fixture(autouse=True)
def no_switch(monkeypatch):
    monkeypatch.delenv("DPERM_TRACEBACK", raising=False)


@pytest.mark.parametrize(
    ("failing", "kind"), [(_plain, "ValueError"), (_chained, "RuntimeError"), (_with_a_note, "ArithmeticError")]
)
def test_the_message_of_an_unexpected_error_is_not_printed(failing, kind, arguments, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(PrivateLogisticRegression, "fit", lambda *_arguments, **_more: failing())
    assert run_with(arguments) == 2
    printed = capfd.readouterr()
    assert SENTINEL not in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err
    assert printed.err.count("\n") == 1
    assert f"internal error ({kind})" in printed.err
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize("value", ["", "0", "yes"])
def test_no_other_value_of_the_switch_shows_a_traceback(value, arguments, monkeypatch, capfd):
    monkeypatch.setenv("DPERM_TRACEBACK", value)
    monkeypatch.setattr(PrivateLogisticRegression, "fit", lambda *_arguments, **_more: _plain())
    assert run_with(arguments) == 2
    printed = capfd.readouterr()
    assert SENTINEL not in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err


def test_a_developer_can_ask_for_the_traceback(arguments, monkeypatch, capfd):
    monkeypatch.setenv("DPERM_TRACEBACK", "1")
    monkeypatch.setattr(PrivateLogisticRegression, "fit", lambda *_arguments, **_more: _plain())
    assert run_with(arguments) == 2
    printed = capfd.readouterr()
    warning, _, shown = printed.err.partition("\n")
    assert warning == "dperm: the traceback can show values of the table; do not share it."
    assert shown.startswith("Traceback (most recent call last):")
    assert "in _plain" in shown
    assert shown.splitlines()[-1].startswith("dperm: internal error (ValueError)")


def test_the_entry_point_ends_with_code_2_and_without_the_message(arguments, monkeypatch, capfd):
    monkeypatch.setattr(PrivateLogisticRegression, "fit", lambda *_arguments, **_more: _plain())
    monkeypatch.setattr(sys, "argv", ["dperm", *arguments])
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(SystemExit) as ended:
        run()
    for number, handler in before.items():
        signal.signal(number, handler)
    assert ended.value.code == 2
    printed = capfd.readouterr()
    assert SENTINEL not in printed.out + printed.err
