"""The progress bar: it waits, it appears where somebody can watch it, and it leaves nothing behind elsewhere."""

import io
import re
import time
from contextlib import redirect_stderr, redirect_stdout

import pytest

from dperm.progress import ProgressBar, WaitingBar


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


def test_a_bar_of_uncounted_work_joins_the_one_that_is_shown(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream, waiting = Terminal(), WaitingBar()
    with redirect_stderr(stream), ProgressBar("fitting") as bar:
        now[0] += 3.0
        bar(1, 3)
        waiting.start("compiling once")
        both = stream.getvalue()
        waiting.stop()
        bar(2, 3)
    assert re.search(r"fitting[^\n]*\n[^\n]*compiling once", both)
    assert stream.getvalue().count("\x1b[?25l") == 1  # one display: the cursor is hidden once
    assert stream.getvalue().endswith("\x1b[2K")


def test_a_bar_of_uncounted_work_leaves_nothing_where_the_stream_is_no_terminal():
    stream, waiting = io.StringIO(), WaitingBar()
    with redirect_stderr(stream):
        waiting.start("compiling once")
        waiting.stop()
    assert stream.getvalue() == ""
