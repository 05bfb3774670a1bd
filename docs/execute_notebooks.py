"""Run notebooks in place and keep what they show: `make notebooks`, or with the paths of some of them.

What a machine adds (times, versions, names of kernels) is left out, so that running one again changes only results.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parent
NOTEBOOKS = sorted([*DOCS.glob("tutorials/*.ipynb"), *DOCS.glob("how_to/*.ipynb")])


def executed(path: Path) -> Any:
    """The notebook with its outputs; raises where a cell does.

    It runs in an empty folder, with ledgers and caches of its own and with the command `dperm` of this environment.

    Parameters
    ----------
    path : Path
        Of an .ipynb file.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        own = {name: str(Path(folder) / name) for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
        commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        client = NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": folder}})
        # A cell's `!` is a terminal; no progress bar is to be drawn there.
        client.execute(env={**os.environ, **own, "PATH": commands, "TTY_COMPATIBLE": "0", "NO_COLOR": "1"})
    for cell in notebook.cells:
        cell.metadata.clear()
    notebook.metadata = {"language_info": {"name": "python"}}
    return notebook


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else NOTEBOOKS:
        nbformat.write(executed(path), path)
        sys.stdout.write(f"ran {path.name}\n")
