"""The pictures of docs/pictures.md: private logistic regression on Adult, drawn by dperm. `make pictures` runs it."""

import sys
from pathlib import Path
from typing import Any

from dperm import PrivateLogisticRegression, load_schema
from dperm.pictures.canvas import offscreen
from dperm.trusted.sources.files import TableFile

FOLDER = Path(__file__).parent
ADULT = FOLDER.parents[1] / "examples" / "adult"


def save(axes: Any, name: str) -> None:
    """Write a picture beside this file."""
    path = FOLDER / f"{name}.png"
    axes.figure.savefig(path, dpi=75, metadata={"Software": None})
    sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    offscreen()
    schema = load_schema(ADULT / "adult.toml")
    model = PrivateLogisticRegression(1.0, 1e-5, schema=schema)
    model.fit(TableFile(ADULT / "adult.data.xz", schema.header).table)
    save(
        model.plot_effects(["age", "education-num", "hours-per-week", "marital-status", "occupation", "sex"])[0],
        "effects",
    )
    save(model.plot_risk_of_epsilon(), "risk")
    save(model.plot_attack(), "attack")
    save(model.plot_coefficients(largest=12), "coefficients")
