"""The notebooks of the documentation run, and are stored as they ran: short ones here, all of them with -m slow."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# Whose run takes less than about ten seconds.
SHORT: set[str] = {"intervals.ipynb"}


def executed(path):
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    return execute.executed(path)


@pytest.mark.filterwarnings("default")  # of the libraries that run a notebook
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.name in SHORT else pytest.mark.slow, id=path.stem) for path in NOTEBOOKS],
)
def test_a_notebook_runs(path):
    executed(path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs_and_without_an_error_or_a_path_of_a_machine(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    here = str(FOLDER.parents[1])
    assert not any(word in path.read_text() for word in (here, "/home/", "/tmp/", "/root/", "/usr/"))
