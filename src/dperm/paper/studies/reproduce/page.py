"""One self-contained HTML page: the figures, what matters most, all verdicts, then every study with its numbers."""

import base64
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from dperm import __version__
from dperm.disk import write_whole
from dperm.paper.studies.reproduce.section import ADJACENCY, QUICK, Section, shown
from dperm.paper.studies.reproduce.verdicts import Outcome

# What the paper draws itself comes first.
_LEADING = ("figure-1", "figure-2")


def template() -> Any:
    """The page, to be filled in."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shown"] = shown
    environment.filters["in_words"] = _in_words
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    return environment.from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))


def write_page(path: Path, sections: Sequence[Section]) -> None:
    """Render all sections into one file without links to anything outside it; without verdicts it is a quick look."""
    verdicts = [(section, verdict) for section in sections for verdict in section.verdicts]
    counts = {outcome.value: sum(verdict.outcome is outcome for _, verdict in verdicts) for outcome in Outcome}
    made = (
        f"dperm {__version__}, Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores; "
        f"page made on {datetime.now(UTC):%Y-%m-%d}"
    )
    page = template().render(
        sections=sections,
        leading=[section for section in sections if section.name in _LEADING],
        findings=[headline for section in sections for headline in section.headlines],
        verdicts=verdicts,
        counts=counts,
        quick="" if verdicts else QUICK,
        adjacency=ADJACENCY,
        made=made,
    )
    write_whole(path, page)


def _in_words(count: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven")
    return words[count] if count < len(words) else str(count)
