"""The page of `dperm report` about a release that is not a model: what it holds, what is promised, what to sign."""

import shlex
from typing import Any

import numpy as np

from dperm import __version__
from dperm.files.described import value_of
from dperm.printable import one_line
from dperm.privacy.assumptions import assumptions
from dperm.privacy.markup import change_in_words
from dperm.report.summary import summary_of_release
from dperm.report.templates import template
from dperm.verify.release import verify

_TITLES = {
    "evaluation": "Private evaluation",
    "pipeline": "Private pipeline",
    "rows-per-unit": "Private counts of rows per privacy unit",
}


def render_release(content: dict[str, Any], release: Any, ledger: str | None, file_name: str) -> str:
    """The page as HTML that needs nothing else.

    Parameters
    ----------
    content : dict
        What `model_file.read_content` returned.
    release : object
        What `reading.release_from` made of it.
    ledger : str or None
        Also look the release up there.
    file_name : str
        How the page names the file.
    """
    statement, findings = release.privacy_, verify(content, ledger)
    verified = all(finding.holds for finding in findings)
    title = _TITLES.get(content["kind"], f"Private transformer {one_line(content['kind'])}")
    page = template("release.html").render(
        title=title,
        summary=summary_of_release(title, content, statement, verified=verified, for_release=statement.for_release),
        statement=statement,
        change=change_in_words(statement.adjacency, statement.unit),
        verified=verified,
        broken=[finding.text for finding in findings if not finding.holds],
        findings=findings,
        shown=_shown(content, release),
        assumptions=assumptions(statement, None, content["ledger"]),
        quoted_file=one_line(shlex.quote(file_name)),
        fingerprint=str(content.get("fingerprint")),
        library=str(content.get("library")),
        version=__version__,
    )
    return str(page)


def _shown(content: dict[str, Any], release: Any) -> str:
    """The released numbers, in lines; of long arrays the first and the last."""
    if content["kind"] in ("evaluation", "rows-per-unit"):
        return str(release).removesuffix(str(release.privacy_)).rstrip()
    steps = content["steps"] if content["kind"] == "pipeline" else [(None, content)]
    lines = []
    for name, told in steps:
        numbers = told if isinstance(told, dict) else {}
        released = numbers.get("released") or {key: numbers[key] for key in ("coef", "intercept") if key in numbers}
        head = "" if name is None else f"{one_line(name)}: "
        lines += [f"{head}{key}: {_array(value_of(value))}" for key, value in released.items()]
        if not released:
            lines.append(f"{head}learns nothing from rows")
    return "\n".join(lines)


def _array(value: Any) -> str:
    return np.array2string(np.asarray(value, dtype=float), precision=4, threshold=20).replace("\n", "")
