"""The page of `dperm budget report`: what was released from a dataset, at which privacy cost, and what is left."""

import re
import shlex
from pathlib import Path

from dperm import __version__
from dperm.disk import as_path, write_whole
from dperm.ledger import Account, Budget
from dperm.printable import one_line
from dperm.progress import ProgressBar
from dperm.report.bar import bar_of
from dperm.report.mechanisms import in_words
from dperm.report.summary import summary_of_budget
from dperm.report.templates import template
from dperm.report.titles import shortened
from dperm.report.words import factor

# What some systems keep for devices, whatever the ending.
_DEVICES = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])([. ]|$)", re.IGNORECASE)
_LONGEST_NAME = 120


def write_budget(dataset: str, ledger: str | None = None, output: str | Path | None = None) -> Path:
    """Write the page about a budget; a crash leaves the old page or none.

    Parameters
    ----------
    dataset : str
        The name under which the budget was created.
    ledger : str, optional
        Where it is kept: a URL, or the path of a SQLite file; by default `default_ledger()`.
    output : str or Path, optional
        Where to, by default a file of the dataset's name, with -budget.html, in this folder.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    LedgerDamagedError
        If the ledger is not what it was; nothing was written.
    """
    output = page_named(dataset) if output is None else as_path(output)
    write_whole(output, render_budget(Budget(dataset, ledger).account()))
    return output


def page_named(dataset: str) -> Path:
    """Where the page goes if nobody says so: the name of the dataset as one that is safe for a file, in this folder.

    It is not that of the page about a model, which often has the name of its dataset.

    Examples
    --------
    >>> [str(page_named(name)) for name in ("adult", "../x/y", "-rf", "nul", "naïve data.v2")]
    ['adult-budget.html', '_._x_y-budget.html', '_rf-budget.html', '_nul-budget.html', 'naïve data.v2-budget.html']
    """
    name = re.sub(r"[^\w .()+=-]", "_", dataset)
    name = re.sub(r"^[-. ]", "_", name).rstrip(". ")
    while len(name.encode()) > _LONGEST_NAME:
        name = name[:-1]
    return Path(f"{'_' if _DEVICES.match(name) else ''}{name or '_'}-budget.html")


def render_budget(account: Account) -> str:
    """The page about a budget, as HTML that needs nothing else.

    Parameters
    ----------
    account : Account
        What `Budget.account` returned: the ledger was verified.
    """
    title = f"Privacy budget of {shortened(account.dataset)}"
    with ProgressBar("composing releases") as progress:
        bar = bar_of(account, progress=progress)
        largest = account.largest(account.guarantee.delta)
    return str(
        template("budget.html").render(
            title=title,
            summary=summary_of_budget(title, bar, largest),
            dataset=one_line(account.dataset),
            quoted_dataset=one_line(shlex.quote(account.dataset)),
            account=account,
            bar=bar,
            largest=largest,
            factor=factor(account.guarantee.epsilon),
            in_words=in_words,
            version=__version__,
        )
    )
