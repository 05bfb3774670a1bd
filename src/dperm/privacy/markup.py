"""A small table of HTML for notebooks: readable on light and dark pages, without scripts or anything from elsewhere."""

import html
import math
from collections.abc import Iterable

from dperm.privacy.unit import PrivacyUnit

# Text and background are the page's own, so that a dark notebook stays dark.
_STYLE = """
.dperm-box{font-family:system-ui,sans-serif;font-size:0.9em;line-height:1.45;max-width:52em;margin:0.4em 0;
border:1px solid rgba(128,128,128,.45);border-left:4px solid #2a78b8;border-radius:4px;padding:.6em .9em;color:inherit}
.dperm-box.dperm-not{border-left-color:#c4622d}
.dperm-box p{margin:0 0 .45em}
.dperm-box .dperm-title{font-weight:600}
.dperm-box table{border-collapse:collapse;margin:0;color:inherit;background:transparent}
.dperm-box tr,.dperm-box tr:hover,.dperm-box tr:nth-child(even){background:transparent}
.dperm-box th,.dperm-box td{text-align:left;vertical-align:top;padding:.15em .9em .15em 0;border:0;font-size:inherit;
color:inherit;white-space:normal;overflow-wrap:anywhere}
.dperm-box th{font-weight:500;opacity:.75;white-space:nowrap}
"""


def box(title: str, promise: str, rows: Iterable[tuple[str, str]], *, for_release: bool = True) -> str:
    """A title, a sentence and a table; everything is escaped.

    Parameters
    ----------
    title : str
        A few words.
    promise : str
        What is promised, in plain words.
    rows : iterable of (str, str)
        Names and values.
    for_release : bool
        Whether the guarantee covers publishing it: the colour at the edge.

    Examples
    --------
    >>> "a &lt; b" in box("Title", "a < b", [])
    True
    """
    cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
    kind = "dperm-box" if for_release else "dperm-box dperm-not"
    return (
        f'<style>{_STYLE}</style><div class="{kind}"><p class="dperm-title">{html.escape(title)}</p>'
        f"<p>{html.escape(promise)}</p><table>{cells}</table></div>"
    )


def plan_box(promise: str, text: str) -> str:
    """The box of a plan: its promise in words, and its text but for that and who draws noise."""
    rows = [row for row in rows_of(text)[1:] if row[0] != "Randomness"]  # nobody has drawn any yet
    return box("A plan; nothing was fitted", promise, rows)


def guarantee_in_a_line(epsilon: float, delta: float, adjacency: str, unit: PrivacyUnit | None = None) -> str:
    """What is promised, and about whom.

    Examples
    --------
    >>> guarantee_in_a_line(1.0, 1e-6, "replace_one", PrivacyUnit("patient_id", 5))
    '(ε = 1, δ = 1e-06)-differential privacy, adjacency replace_one, unit: one patient, with up to 5 rows'
    """
    promise = f"(ε = {epsilon:g}, δ = {delta:g})-differential privacy, adjacency {adjacency}"
    return promise if unit is None else f"{promise}, unit: {unit.described}"


def change_in_words(adjacency: str, unit: PrivacyUnit | None = None) -> str:
    """By what two neighbouring datasets differ.

    Examples
    --------
    >>> change_in_words("add_remove", PrivacyUnit("patient_id", 5))
    'one patient added or removed, with all of its rows'
    """
    change = {"replace_one": "replaced by any other", "add_remove": "added or removed"}[adjacency]
    return f"one person's row {change}" if unit is None else f"one {unit.word} {change}, with all of its rows"


def promise_in_words(epsilon: float, delta: float, adjacency: str, unit: PrivacyUnit | None = None) -> str:
    """What (ε, δ) promises under an adjacency, to a person.

    Examples
    --------
    >>> promise_in_words(1.0, 0.0, "replace_one")[:44]
    "With one person's row replaced by any other,"
    """
    factor = f"{math.exp(epsilon):.3g}" if epsilon <= 10.0 else f"e^{epsilon:g}"
    whose = "" if unit is None else f", unit {unit.name}"
    but = f", but for a probability of about {delta:g}" if delta > 0.0 else ""
    return (
        f"With {change_in_words(adjacency, unit)}, no result becomes more than {factor} times as likely or as "
        f"unlikely{but} (ε = {epsilon:g}, δ = {delta:g}, adjacency {adjacency}{whose})."
    )


def rows_of(text: str) -> list[tuple[str, str]]:
    """The lines of a statement, which begin with a name of up to twelve characters, as names and values."""
    return [(line[:12].strip().rstrip(":").capitalize(), line[12:]) for line in text.splitlines()]
