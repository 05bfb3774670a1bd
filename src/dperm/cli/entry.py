"""Where the command `dperm` begins: before anything that takes time is imported."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


def run() -> None:
    """Entry point: every error is one line and exit code 2."""
    try:
        with ended_by_an_interrupt():
            for stream in (sys.stdout, sys.stderr):
                # A terminal that cannot show ε gets an escape instead of an error.
                getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
            from dperm.cli.main import run_with
        code = run_with(sys.argv[1:])
        _close_standard_output()
    except KeyboardInterrupt:  # before there is anything to interrupt, or after
        _end()
    sys.exit(code)


@contextmanager
def ended_by_an_interrupt() -> Iterator[None]:
    """While modules are imported Ctrl-C ends the process with one line: many of them would lose or report it."""
    before = signal.getsignal(signal.SIGINT)
    # Not where somebody has chosen otherwise, nor in a thread, which has no say.
    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = before is signal.default_int_handler and in_main_thread
    if ours:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _end(*_arguments: object) -> NoReturn:
    os.write(2, b"dperm: interrupted; nothing was written.\n")
    os._exit(2)


def _close_standard_output() -> None:
    """What nobody reads any more is not an error: `dperm solvers | head -1`."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
