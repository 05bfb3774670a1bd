"""Megabytes on disk of a new environment into which pip installs the checkout: the base, then each set of extras.

    python benchmarks/install_size.py

All files count, as `du -m` counts them: also pip itself and the compiled files that it makes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def megabytes(folder: Path) -> float:
    """Blocks of all files and folders in units of 2**20 bytes; what two names share counts once."""
    found = {(status.st_dev, status.st_ino): status for status in map(Path.lstat, [folder, *folder.rglob("*")])}
    return sum(512 * status.st_blocks for status in found.values()) / 2**20


def main() -> None:
    """Print a line for each; extras are added to the same environment."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for extras in ("", "[plot]", "[all]"):
            subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}{extras}"], check=True)
            listed = subprocess.run([python, "-m", "pip", "list"], check=True, capture_output=True, text=True).stdout
            n_distributions = len(listed.splitlines()) - 2
            print(f"{extras or 'base':<8} {megabytes(Path(folder)):6.0f} MB, {n_distributions} distributions")


if __name__ == "__main__":
    main()
