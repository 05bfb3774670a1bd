"""What processes of the ledger's tests run. It imports little, as every one of fifty processes imports it."""

import multiprocessing
import os
import signal
import sys

from dperm.accounting.events import Gaussian
from dperm.errors import BudgetExceededError, DpermError, InvalidParameterError
from dperm.ledger import budget as ledger
from dperm.ledger import tables as ledger_tables
from dperm.ledger import witness
from dperm.privacy.guarantee import Adjacency

SMALL = Gaussian(1000.0)

_TRACED = {module.__file__ for module in (ledger, ledger_tables, witness)}


def processes():
    """A context whose processes have dperm imported already and no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "dperm.ledger.tables", "sqlalchemy.dialects.sqlite", "psycopg"])
    return context


def race(budget, count, multiplier):
    """What so many processes say that reserve such a release each, at once."""
    return _at_once(_reserve, count, budget, multiplier)


def make_budgets(place, guarantee, count):
    """What so many processes say that make the same budget, at once."""
    return _at_once(_make, count, place, guarantee)


def _at_once(target, count, *arguments):
    context = processes()
    start, outcomes = context.Event(), context.SimpleQueue()
    racers = [context.Process(target=target, args=(*arguments, start, outcomes)) for _ in range(count)]
    for racer in racers:
        racer.start()
    start.set()
    for racer in racers:
        racer.join(120)
    said = sorted(outcomes.get() for racer in racers if racer.exitcode == 0)
    outcomes.close()
    return said


def _make(place, guarantee, start, outcomes):
    start.wait()
    try:
        ledger.Budget.create("adult", guarantee, ledger=place)
        outcomes.put("made")
    except InvalidParameterError:
        outcomes.put("refused")
    except DpermError as error:
        outcomes.put(str(error))


def _reserve(budget, multiplier, start, outcomes):
    start.wait()
    try:
        reservation = budget.reserve(Gaussian(multiplier), Adjacency.REPLACE_ONE)
        reservation.settle(f"of process {os.getpid()}")
        outcomes.put("reserved")
    except BudgetExceededError:
        outcomes.put("refused")
    except DpermError as error:
        outcomes.put(str(error))


def spend_until_killed(budget, handed_out):
    """Reserve and settle on and on, and note what was handed out."""
    while True:
        _note(handed_out, budget.reserve(SMALL, Adjacency.REPLACE_ONE)).settle("done")


def kill_at_every_line(budget, handed_out):
    """Forks that reserve and die, each at another line of the ledger's code: every line that a reservation runs."""
    lines = {}
    sys.settrace(tracer(_TRACED, lambda place: lines.setdefault(place)))
    reservation = budget.reserve(SMALL, Adjacency.REPLACE_ONE)
    sys.settrace(None)
    _note(handed_out, reservation)
    for line in lines:
        child = os.fork()
        if child == 0:
            sys.settrace(
                tracer(_TRACED, lambda place, last=line: place == last and os.kill(os.getpid(), signal.SIGKILL))
            )
            _note(handed_out, budget.reserve(SMALL, Adjacency.REPLACE_ONE))
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
            sys.exit(f"line {line} was not run again")
        check_that_all_is_there(budget, handed_out)


def check_that_all_is_there(budget, handed_out):
    """Raise unless the ledger can be verified and has all that was handed out."""
    known = {f"{release.number} {release.digest}" for release in budget.account().releases}
    if handed_out.exists():
        assert set(handed_out.read_text().splitlines()) <= known


def _note(handed_out, reservation):
    with handed_out.open("a") as file:
        file.write(f"{reservation.number} {reservation.digest}\n")
    return reservation


def tracer(files, on_line):
    """A trace function that calls back at every line of these files."""

    def trace(frame, event, _argument):
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            on_line((frame.f_code.co_filename, frame.f_lineno))
        return trace

    return trace
