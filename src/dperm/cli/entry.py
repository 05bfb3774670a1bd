"""Where the command `dperm` begins: before anything that takes time is imported."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from dperm.consequences import CONSEQUENCES

# Ctrl-C, and what a system sends before it kills.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Whether one of them came: whatever error it turned into on its way, it was an interrupt.
interrupted = threading.Event()


def run() -> None:
    """Entry point: every error is one line and exit code 2."""
    try:
        _listen((signal.default_int_handler, signal.SIG_DFL), _interrupt)
        with ended_by_an_interrupt():
            for stream in (sys.stdout, sys.stderr):
                # A terminal that cannot show ε gets an escape instead of an error.
                getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
            from dperm.cli.main import run_with
        code = run_with(sys.argv[1:])
        _close_standard_output()
        end_undisturbed()
    except KeyboardInterrupt:  # outside of `run_with`, which says it itself
        _end()
    sys.exit(code)


def _listen(before: tuple[Any, ...], handler: Any) -> None:
    """Another handler for every signal that has one of these; not where somebody else has chosen otherwise."""
    if threading.current_thread() is threading.main_thread():  # no other has a say
        for number in _SIGNALS:
            if signal.getsignal(number) in before:
                signal.signal(number, handler)


def _interrupt(*_arguments: object) -> NoReturn:
    """End what is under way in order; a second signal does not wait for that."""
    interrupted.set()
    _listen((_interrupt,), _end)
    raise KeyboardInterrupt


def _end(*_arguments: object) -> NoReturn:
    end_undisturbed()
    os.write(2, f"dperm: {interrupted_in_words()}.\n".encode(errors="backslashreplace"))
    os._exit(2)


def interrupted_in_words() -> str:
    """The sentence for an interrupt, without a full stop."""
    return "; ".join(["interrupted", *(CONSEQUENCES.in_words() or ["nothing was written"])])


def end_undisturbed() -> None:
    """Ignore further signals: the last word is being said, or was, and the interpreter takes a while to end."""
    _listen((_interrupt, _end), signal.SIG_IGN)


@contextmanager
def ended_by_an_interrupt() -> Iterator[None]:
    """While modules are imported a signal ends the process with one line: many of them would lose or report it."""
    _listen((_interrupt,), _end)
    try:
        yield
    finally:
        if not interrupted.is_set():
            _listen((_end,), _interrupt)


def _close_standard_output() -> None:
    """What nobody reads any more is not an error: `dperm solvers | head -1`."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
