"""The pictures of docs/pictures.md (Adult) and docs/case_hospital.md, drawn by dperm. `make pictures` runs it."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dperm import PrivateLogisticRegression
from dperm.datasets import hospital
from dperm.datasets.adult import load_adult
from dperm.pictures.canvas import offscreen

FOLDER = Path(__file__).parent


def save(axes: Any, name: str) -> None:
    """Write a picture beside this file."""
    path = FOLDER / f"{name}.png"
    axes.figure.savefig(path, dpi=75, metadata={"Software": None})
    sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


def draw_hospital() -> None:
    """What the six columns of the worked case add, beside the truth that the admissions were drawn by."""
    data = hospital.load_hospital()
    used = {name: column for name, column in data.schema.columns.items() if name not in ("sex", "ward")}
    model = PrivateLogisticRegression(1.0, 1e-6, schema=replace(data.schema, columns=used), row_warnings=False)
    model.fit(data.train)
    truth = {
        "age": lambda age: hospital.PER_DECADE * age / 10.0,
        "length_of_stay": lambda days: hospital.PER_DOUBLED_STAY * np.log2(1.0 + days),
        "earlier_admissions": lambda earlier: hospital.PER_EARLIER_ADMISSION * np.minimum(earlier, 5.0),
        "creatinine": lambda level: hospital.PER_DOUBLED_CREATININE * np.log2(level / 90.0),
    }
    panels = model.plot_effects(list(truth))
    for axes, (name, effect) in zip(panels, truth.items(), strict=True):
        line = max((drawn.get_xydata() for drawn in axes.lines), key=len)
        rows = np.array([value for value in data.train[name].to_pylist() if value is not None], dtype=float)
        # Only differences within a column have a meaning: the level goes into the intercept.
        level = np.mean(np.interp(rows, *line.T) - effect(rows))
        # Where all but one row in a hundred are.
        values = np.linspace(*np.clip(np.quantile(rows, [0.005, 0.995]), *used[name].bounds), 200)
        axes.plot(values, effect(values) + level, color="black", linestyle="--", label="truth, where 99 % of rows are")
        for artist in (*axes.lines, *axes.texts):  # what stands where hardly any row is
            artist.set(clip_on=True, in_layout=False)
        axes.set_xlim(*np.clip(np.quantile(rows, [0.0, 0.999]), *used[name].bounds))
    panels[0].legend(handles=[panels[0].lines[-1]], frameon=False, loc="upper left")
    panels[0].figure.set_size_inches(11, 7.5)
    save(panels[0], "hospital_effects")
    save(model.plot_attack(), "hospital_attack")


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
    draw_hospital()
