"""What an estimator tells, in the log, on the terminal and in a notebook: public facts only, never a value of a row."""

import logging
import math
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.models.units import protected_unit
from dperm.plan.fit_plan import FitPlan, Release
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.markup import box, promise_in_words
from dperm.progress import ProgressBar

LOG = logging.getLogger("dperm")
LOG.addHandler(logging.NullHandler())

_UNTOLD: ContextVar[bool] = ContextVar("dperm_untold", default=False)


@contextmanager
def untold() -> Iterator[None]:
    """Nothing is told of the fits within: how many trials a search makes is secret, and so is an n nobody declared."""
    before = _UNTOLD.set(True)
    try:
        yield
    finally:
        _UNTOLD.reset(before)


def check_verbose(verbose: object) -> int:
    """The level as a number: 0 nothing, 1 a progress bar, 2 the lines of the log as well."""
    if not isinstance(verbose, bool | int) or not 0 <= verbose <= 2:
        raise InvalidParameterError(f"verbose must be 0, 1 or 2, got {verbose!r}.")
    return int(verbose)


def progress_bar(model: Any) -> AbstractContextManager[Any]:
    """The bar of a fit, or nothing."""
    shown = check_verbose(model.verbose) and not _UNTOLD.get()
    return ProgressBar(type(model).__name__) if shown else nullcontext()


def tell_plan(model: Any, plan: FitPlan, caveats: tuple[Caveat, ...]) -> None:
    """Before a row is read for the fit: what will run.

    A plan that rests on something that was read from the rows (classes, or n under add_remove) is not public; of it
    only that is said.
    """
    if caveats or plan.rests_on_rows:
        _tell(model, "the plan depends on the rows, so it is not logged and the result is not for release")
        return
    statement = plan.statement
    _tell(model, f"planned {statement.mechanism}; n = {statement.n}, {statement.n_features} columns")
    passes = f"{plan.passes:.3g} passes" if plan.passes < math.inf else "as many passes as a minimisation takes"
    _tell(model, f"promises {statement.promise}; {passes} over the rows")


def tell_release(model: Any, release: Release) -> None:
    """When the coefficients are there."""
    entry = release.ledger_entry
    charged = "no budget was charged" if entry is None else f"entry {entry['number']} of {entry['dataset']!r}"
    _tell(model, f"released coefficients; {charged}")


def _tell(model: Any, text: str) -> None:
    if _UNTOLD.get():
        return
    line = f"{type(model).__name__}: {text}"
    LOG.info("%s", line)
    if check_verbose(model.verbose) == 2:
        with suppress(OSError, ValueError):  # a closed terminal is not a reason to lose a release
            sys.stderr.write(f"{line}\n")


def guarantee_html(model: Any) -> str:
    """For notebooks: what a fit of an estimator will promise."""
    if model.noise is None:
        return box("Not fitted", "No noise will be added, so there is no guarantee.", (), for_release=False)
    try:
        Guarantee(model.epsilon, model.delta)
        promise = promise_in_words(
            model.epsilon, model.delta, Adjacency.parse(model.adjacency).value, protected_unit(model)
        )
    except InvalidParameterError as error:
        return box("Not fitted", str(error), (), for_release=False)
    return box("Not fitted. What a fit will promise", promise, ())
