"""What was released, in a line: the title of a page."""

from dataclasses import dataclass
from typing import Any

from dperm.printable import one_line

# A title names this many classes, in this many characters, and else says how many there are.
_MOST_CLASSES, _MOST_CHARACTERS = 5, 60


@dataclass(frozen=True)
class Title:
    """The parts of a title; names are kept apart so that a page can isolate text that runs from right to left.

    Attributes
    ----------
    kind : str
        What kind of model.
    target : str or None
        What it predicts; None where no schema names it.
    classes : str
        Its classes, or how many there are; empty for a number.
    chosen : str
        That a search chose it, or nothing.

    Examples
    --------
    >>> str(Title("Logistic regression", "income", "<=50K, >50K", ""))
    'Logistic regression of income (<=50K, >50K)'
    """

    kind: str
    target: str | None
    classes: str
    chosen: str

    def __str__(self) -> str:
        target = "" if self.target is None else f" of {self.target}"
        classes = f" ({self.classes})" if self.classes else ""
        return f"{self.kind}{target}{classes}{self.chosen}"


def title_of(model: Any) -> Title:
    """The title of the page about a model.

    Parameters
    ----------
    model : estimator
        As `reading.model_from` returns it.
    """
    target = None if model.schema_ is None else shortened(model.schema_.target.column)
    search = getattr(model, "search_", None)
    candidates = 0 if search is None else search.n_candidates
    chosen = f", chosen among {candidates} candidate{'s' if candidates > 1 else ''}" if candidates else ""
    kind = model.title[:1].upper() + model.title[1:]
    return Title(kind, target, _classes(model, named=target is not None), chosen)


def shortened(name: str) -> str:
    """A name in one line of at most 60 characters.

    Examples
    --------
    >>> shortened("a" * 70)[-3:], len(shortened("a" * 70))
    ('aa…', 60)
    """
    text = one_line(name)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _classes(model: Any, *, named: bool) -> str:
    labels = [one_line(label) for label in getattr(model, "classes_", [])]
    listed = ", ".join(labels)
    if len(labels) > _MOST_CLASSES or len(listed) > _MOST_CHARACTERS:
        return f"{len(labels)} classes"
    return listed if named or not labels else f"classes {listed}"
