"""Run notebooks in place and keep what they show: `make notebooks`, or with the paths of some of them.

What a machine adds (times, versions, names of kernels) is left out, so that running one again changes only results.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
# A notebook is run from the root of the checkout, as its reader would.
ROOT = FOLDER.parents[1]


def executed(path: Path) -> Any:
    """The notebook with its outputs; raises where a cell does.

    Parameters
    ----------
    path : Path
        Of an .ipynb file.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
    notebook.metadata = {"language_info": {"name": "python"}}
    return notebook


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        sys.stdout.write(f"ran {path.name}\n")
