"""The pictures of docs/pictures.md: private logistic regression on Adult, drawn by dperm. `make pictures` runs it."""

import sys
from pathlib import Path
from typing import Any

from dperm import PrivateLogisticRegression
from dperm.datasets.adult import load_adult
from dperm.pictures.canvas import offscreen

FOLDER = Path(__file__).parent


def save(axes: Any, name: str) -> None:
    """Write a picture beside this file."""
    path = FOLDER / f"{name}.png"
    axes.figure.savefig(path, dpi=75, metadata={"Software": None})
    sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    offscreen()
    data = load_adult()
    model = PrivateLogisticRegression(1.0, 1e-5, schema=data.schema).fit(data.train)
    save(
        model.plot_effects(["age", "education-num", "hours-per-week", "marital-status", "occupation", "sex"])[0],
        "effects",
    )
    save(model.plot_risk_of_epsilon(), "risk")
    save(model.plot_attack(), "attack")
    save(model.plot_coefficients(largest=12), "coefficients")
