"""Commands that are interrupted at a chosen line: what the processes of test_interrupts.py run."""

import os
import signal
import sys

from dperm import Budget, consequences, files
from dperm.cli import entry, evaluate, fit, main, rows_per_unit, tune
from dperm.evaluation import score
from dperm.ledger import budget as ledger
from dperm.ledger import tables as ledger_tables
from dperm.ledger import witness
from dperm.models import base, search
from dperm.plan import fit_plan, sums, transaction
from dperm.plan import rows_per_unit as counting
from ledger.processes import tracer

# From the first line of a command to its last, but not the arithmetic in between.
_TRACED = {
    module.__file__
    for module in (
        base, consequences, counting, entry, evaluate, files, fit, fit_plan, ledger, ledger_tables, main, rows_per_unit,
        score, search, sums, transaction, tune, witness,
    )
}  # fmt: skip


def interrupt_at_every_line(arguments, folder, share):
    """Forks that run a command and are interrupted, each at another line: every `share`-th that the command runs."""
    lines = {}
    _run(arguments, folder / "warm.json")  # compiles, and imports what is imported late
    sys.settrace(tracer(_TRACED, lines.setdefault))
    _run(arguments, folder / "whole.json")
    sys.settrace(None)
    ours = list(lines)[1:]  # before the first line the interpreter's own handler is there
    chosen = dict.fromkeys([*ours[::share], ours[-1]])
    wrong = []
    for number, line in enumerate(chosen):
        try:
            _check(arguments, folder, folder / f"{number}.json", line)
        except AssertionError as error:
            wrong.append(str(error))
    if wrong:
        sys.exit("\n".join(wrong))


def _run(arguments, output):
    """The command, in a process of its own or in this one: both end in `SystemExit`."""
    sys.argv = ["dperm", *arguments, "-o", str(output)]
    try:
        entry.run()
    except SystemExit as ended:
        return ended.code
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        entry.interrupted.clear()
        consequences.CONSEQUENCES.forget()


def _check(arguments, folder, output, line):
    """Interrupt the command at this line, and raise unless what it says agrees with the ledger and the disk."""
    before, told = len(Budget("people").account().releases), folder / "told.txt"
    child = os.fork()
    if child == 0:
        for stream, name in ((1, "out.txt"), (2, "told.txt")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        struck = []

        def strike(place):
            if place == line and not struck:
                struck.append(place)
                os.kill(os.getpid(), signal.SIGINT)

        sys.settrace(tracer(_TRACED, strike))
        code = _run(arguments, output)
        os._exit(code if struck else 99)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = told.read_text().removeprefix("\n")  # the line that a terminal shows ^C on
    after = Budget("people").account().releases
    what = f"{line}: code {code}, {len(after) - before} reserved, {said!r}"
    if code == 0:  # it was said already
        assert f"wrote {output}" in (folder / "out.txt").read_text(), what
        return
    assert code == 2, what
    assert said.startswith("dperm: interrupted; "), what
    assert said.count("\n") == 1, what
    assert not list(folder.glob(".dperm-*.part")), what
    assert (f"{output} was written" in said) == output.exists(), what
    if len(after) == before:
        assert "counts as spent" not in said or "if it is there" in said, what
        assert ("nothing was written" in said) != ("if it is there" in said), what
        return
    (spent,) = after[before:]
    sure = f"reservation {spent.number} of the budget 'people' counts as spent"
    assert sure in said or f"reservation {spent.number} counts as spent if it is there" in said, what
    assert ("no file was written" in said) != output.exists(), what
    if output.exists() and not spent.is_settled:
        assert f"dperm budget settle {output}" in said, what
