"""One self-contained HTML page: verdicts first, then every study with its picture and numbers."""

import base64
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from dperm import __version__
from dperm.errors import DpermError
from dperm.files import write_whole
from dperm.studies.reproduce.section import Section, shown
from dperm.studies.reproduce.verdicts import Outcome


def template() -> Any:
    """The page, to be filled in."""
    try:
        from jinja2 import Environment
    except ImportError:
        raise DpermError("the page needs jinja2: pip install 'dperm[reproduce]'.") from None
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shown"] = shown
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    return environment.from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))


def write_page(path: Path, sections: Sequence[Section], quick: bool) -> None:
    """Render all sections into one file without links to anything outside it."""
    counts = {
        outcome.value: sum(verdict.outcome is outcome for section in sections for verdict in section.verdicts)
        for outcome in Outcome
    }
    made = (
        f"dperm {__version__}, Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores; "
        f"page made on {datetime.now(UTC):%Y-%m-%d}"
    )
    write_whole(path, template().render(sections=sections, counts=counts, quick=quick, made=made))
