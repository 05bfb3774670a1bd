"""Lists as GitHub reads them: what belongs to an item is indented like its text, and a list may follow a line of text.

The Markdown of mkdocs wants four spaces for every level, and an empty line before a list.
"""

import re
from typing import Any

MARKER = re.compile(r"( *)([-*+]|\d+\.)( +)(?=\S)")
FENCE = re.compile(r" *(```+|~~~+|\$\$)(?!.*\$\$)")  # of code, or of a formula


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Indent the contents of lists by four spaces a level."""
    lines: list[str] = []
    items: list[int] = []  # where the text of every open item begins
    fence = ""
    after_blank = True
    for line in markdown.splitlines():
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        marker = None if fence else MARKER.match(line)
        inside = bool(items)
        while items and text and not fence and indent < items[-1] and (marker or after_blank):
            items.pop()
        if marker and (indent < 4 or items):
            if not after_blank and not inside:
                lines.append("")
            lines.append(" " * 4 * len(items) + marker[2] + " " + line[marker.end() :])
            items.append(marker.end())
        elif items and text:
            lines.append(" " * (4 * len(items) + max(0, indent - items[-1])) + text)
        else:
            lines.append(line)
        if opened := FENCE.match(line):
            fence = "" if fence and opened[1].startswith(fence) else fence or opened[1]
        after_blank = not text
    return "\n".join(lines)
