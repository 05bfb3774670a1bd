"""The notebooks of the documentation run, and are stored as they ran: short ones here, all of them with -m slow."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

DOCS = Path(__file__).parents[2] / "docs"
# Whose run takes less than about ten seconds of a processor.
SHORT: set[str] = {"first_model.ipynb"}


def module():
    spec = importlib.util.spec_from_file_location("execute_notebooks", DOCS / "execute_notebooks.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


NOTEBOOKS = module().NOTEBOOKS


@pytest.mark.filterwarnings("default")  # of the libraries that run a notebook
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.name in SHORT else pytest.mark.slow, id=path.stem) for path in NOTEBOOKS],
)
def test_a_notebook_runs(path):
    module().executed(path)


def test_short_notebooks_are_among_those_that_there_are():
    assert {path.name for path in NOTEBOOKS} > SHORT
    assert {path.parent.name for path in NOTEBOOKS} == {"tutorials", "how_to"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs_and_without_an_error_or_a_path_of_a_machine(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    here = str(DOCS.parent)
    assert not any(word in path.read_text() for word in (here, "/home/", "/tmp/", "/root/", "/usr/"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_begins_with_a_title_and_its_links_lead_somewhere(path):
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert text.startswith("# ")
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (path.parent / link).exists(), link


@pytest.mark.parametrize("path", sorted(DOCS.glob("tutorials/*.ipynb")), ids=lambda path: path.stem)
def test_a_tutorial_says_whom_it_is_for_and_ends_with_what_to_read_next(path):
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    assert "After this page you can" in cells[0]
    assert "It is for" in cells[0]
    assert "## What to read next" in cells[-1]
