"""The guarantee that covers a model, including the search that selected it."""

from typing import Any, NamedTuple

from dperm.accounting.events import Event
from dperm.privacy.joint_statement import JointStatement
from dperm.privacy.statement import PrivacyStatement


class Promised(NamedTuple):
    """What holds for everything that was released with a model.

    Attributes
    ----------
    statement : PrivacyStatement or JointStatement
        With ε, δ and the adjacency.
    event : Event
        What is accounted for.
    note : str
        That the last fit is only a part of it; empty for a model that no search chose.
    """

    statement: PrivacyStatement | JointStatement
    event: Event
    note: str = ""


def promised_of(model: Any) -> Promised:
    """What is promised of a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted one, or one from a file.
    """
    search = getattr(model, "search_", None)
    if search is None:
        return Promised(model.privacy_, model.event_)
    note = f"for the search and the last fit together; the last fit alone has ε = {model.privacy_.epsilon:.4g}"
    return Promised(search.statement, search.event, note)


def promised_html(model: Any) -> str:
    """For notebooks: the statement of a fitted model as a box, and the note below it."""
    statement, _, note = promised_of(model)
    return statement._repr_html_() + (f"<p>This is promised {note}.</p>" if note else "")
