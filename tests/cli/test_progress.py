"""The progress bar: it waits, it appears where somebody can watch it, and it leaves nothing behind elsewhere."""

import io
import time
from contextlib import redirect_stderr, redirect_stdout

import pytest

from dperm.progress import ProgressBar


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def watch(stream, monkeypatch, seconds):
    """What a bar writes while work takes so many seconds a step."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(stream), ProgressBar("fitting") as bar:
        for done in range(1, 4):
            now[0] += seconds
            bar(done, 3)
    assert out.getvalue() == ""
    return stream.getvalue()


@pytest.mark.parametrize("seconds", [0.1, 1.5, 100.0])
def test_nothing_is_left_where_the_stream_is_no_terminal(seconds, monkeypatch):
    assert watch(io.StringIO(), monkeypatch, seconds) == ""


def test_on_a_terminal_slow_work_has_a_bar_that_names_its_steps(monkeypatch):
    written = watch(Terminal(), monkeypatch, 1.5)
    assert "fitting" in written
    assert "3/3 steps" in written


def test_on_a_terminal_work_of_less_than_two_seconds_has_no_bar(monkeypatch):
    assert watch(Terminal(), monkeypatch, 0.5) == ""
