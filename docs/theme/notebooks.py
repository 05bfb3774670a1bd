"""Notebooks as pages, with the outputs that are stored in them: nothing is run."""

import re
from html import escape
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

SCRIPT = re.compile(r"<script\b.*?</script>", flags=re.S)
MARK = "<!-- output {} -->"


class Notebook(File):
    """A notebook that is a page of the site."""

    def is_documentation_page(self) -> bool:
        """Whether this becomes a page: yes, though it is not written in Markdown."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make pages of the notebooks."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        files.append(Notebook(file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls))
    return files


def read(page: Page) -> tuple[str, list[Any]]:
    """A notebook's cells in Markdown, with a mark where an output belongs, and the outputs.

    Raw HTML in their place would be read as Markdown.
    """
    parts, outputs = [], []
    for cell in nbformat.read(page.file.abs_src_path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.source.strip():
            parts.append(f"```python\n{cell.source}\n```")
        for output in cell.get("outputs", []):
            parts.append(MARK.format(len(outputs)))
            outputs.append(output)
    return "\n\n".join(parts), outputs


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """The Markdown of a notebook."""
    return read(page)[0] if isinstance(page.file, Notebook) else None


def html_of(output: Any) -> str:
    """One output, in the richest form that needs no script."""
    if output.output_type == "stream":
        return f'<pre class="output {output.name}">{escape(output.text.rstrip())}</pre>'
    data = output.data
    if "text/html" in data:
        return f'<div class="output">{SCRIPT.sub("", data["text/html"])}</div>'
    if "image/png" in data:
        words = escape(data.get("text/plain", "picture"))
        return f'<p class="output"><img alt="{words}" src="data:image/png;base64,{data["image/png"].strip()}"></p>'
    return f'<pre class="output">{escape(data["text/plain"])}</pre>'


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Put the outputs where their marks are."""
    if isinstance(page.file, Notebook):
        for number, output in enumerate(read(page)[1]):
            html = html.replace(MARK.format(number), html_of(output))
    return html
