"""Links for the site: pages from outside docs/ that belong to it, and paths in a checkout that have no page."""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Pages of the site that stand elsewhere in a checkout, where people look for them.
ELSEWHERE = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/peers/README.md"]
FENCE = re.compile(r"(^ *```.*?^ *```|^ *~~~.*?^ *~~~)", flags=re.S | re.M)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`|\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Leave out the page for wrong addresses: its links are those of a server's root."""
    config.theme.static_templates.discard("404.html")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand elsewhere."""
    for path in ELSEWHERE:
        if (ROOT / path).exists():
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def place_on_site(path: Path) -> Path | None:
    """Where a file of the checkout is on the site, relative to its root; None if it is not there."""
    if path.is_relative_to(DOCS) and path.is_file():
        return path.relative_to(DOCS)
    return path.relative_to(ROOT) if path in [ROOT / name for name in ELSEWHERE] else None


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links at pages of the site. A link to any other file becomes its text with the file's path."""
    if page.is_top_level:
        page.meta["hide"] = ["navigation"]  # a tab of one page needs no list of pages
    source = Path(str(page.file.abs_src_path))

    def linked(match: re.Match[str]) -> str:
        text, target, heading = match[1], Path(os.path.normpath(source.parent / match[2])), match[3] or ""
        place = place_on_site(target)
        if place is not None:
            return f"[{text}]({os.path.relpath(place, Path(page.file.src_uri).parent)}{heading})"
        if not target.exists():
            return match[0]  # mkdocs says that it leads nowhere
        path = f"`{target.relative_to(ROOT)}`"
        return text if text.strip("`") in path else f"{text} ({path})"

    return "".join(part if FENCE.match(part) else LINK.sub(linked, part) for part in FENCE.split(markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Let a picture be opened in its full size: on a telephone its letters are small."""
    return re.sub(r'<img [^>]*src="([^":]+\.png)"[^>]*>', r'<a href="\1" title="In its full size">\g<0></a>', html)
