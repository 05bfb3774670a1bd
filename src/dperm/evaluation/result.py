"""A private evaluation: what was released, what follows from it, and its file."""

import html
import math
import re
from dataclasses import KW_ONLY, asdict, dataclass, field, fields
from typing import Any

import numpy as np

from dperm.accounting.events import Event
from dperm.disk import fingerprint
from dperm.evaluation.design import Design
from dperm.evaluation.intervals import Estimate
from dperm.evaluation.metrics import Metrics
from dperm.files.content import HEAD
from dperm.files.plan_data import part_from
from dperm.printable import one_line
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import PrivacyStatement, check_classes
from dperm.privacy.unit import counted
from dperm.validation import finite

KIND = "evaluation"
_KEYS = frozenset(
    (*HEAD, "kind", "model", "model_fingerprint", "design", "released", "level", "privacy", "plan", "ledger",
     "fingerprint")
)  # fmt: skip
# Noise that moves an accuracy, or a mean error over its bound, by this much leaves nothing to see.
_TELLS_NOTHING = {"accuracy": 0.2, "MAE": 0.1}


@dataclass(frozen=True, eq=False)
class PrivateEvaluation(Metrics):
    """How good a model is on sensitive rows, with intervals that include the noise and the sampling of the rows.

    Attributes
    ----------
    design : Design
        What was counted and added up.
    released : tuple of arrays
        The noisy counts and sums: everything that came from the rows.
    deviations : tuple of float
        The standard deviation of the noise on one number of each.
    privacy_ : PrivacyStatement
        What is promised.
    level : float
        Of the intervals.
    event_ : Event
        The accounting event.
    model : str
        What was evaluated, in words.
    model_fingerprint : str or None
        Of the model's file; None for a model that is not dperm's.
    ledger_entry_ : dict or None
        What the ledger holds for it.
    plan_ : dict
        The plan as plain data: what its file holds.
    """

    _: KW_ONLY
    event_: Event
    model: str
    model_fingerprint: str | None = None
    ledger_entry_: dict[str, Any] | None = None
    plan_: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Whether noise leaves something to see, from public numbers alone."""
        design, n, unit = self.design, self.privacy_.n, self.privacy_.unit
        rows = counted(unit)
        name, scale = "accuracy", 1.0
        if design.error_bound is not None:
            name, scale, noise = "MAE", design.error_bound, self._z * self.deviations[1] / n
        else:
            k = design.n_classes
            cells = len(self.released[0]) - (k * k if k > 2 and design.kind == "probability" else 0)
            noise = self._z * self.deviations[0] * math.sqrt(cells) / 2.0 / n
        if noise >= _TELLS_NOTHING[name]:
            needed = 10 ** math.ceil(math.log10(n * noise / 0.02))
            return (
                f"too few {rows} for this ε: the noise alone moves the {name} by ±{scale * min(noise, 1.0):.2g} or "
                f"more, so the numbers say nothing; it takes some {needed:,} {rows}, or a larger ε"
            )
        if unit is not None and unit.contribution == "limit":  # how many rows count is private
            return (
                f"the noise moves the {name} by up to ±{scale * noise:.2g} where every {unit.word} has {unit.max_rows} "
                f"rows, and by up to {unit.max_rows} times that where all have one; contribution = 'average' avoids "
                "that"
            )
        sampling = self._z * 0.5 / math.sqrt(n)
        beside = "more" if noise > sampling else "less"
        more = f", {beside} than the sampling of the {rows} does (up to ±{sampling:.2g})" if name == "accuracy" else ""
        return f"the noise moves the {name} by up to ±{scale * noise:.2g}{more}"

    def __str__(self) -> str:
        """A table, the verdict and the statement."""
        head = f"{100.0 * self.level:g} % interval"
        model = "" if self.model_fingerprint is None else f" {self.model_fingerprint[:12]}"
        unit = self.privacy_.unit
        what = counted(unit)
        lines = [
            f"evaluated:  {self.model}{model} on n = {self.privacy_.n} {what}",
            "",
            f"{'':<12}{'value':>10}   {head}",
        ]
        for name, found in self.table.items():
            lines.append(f"{name:<12}{found.value:>10.4g}   {_range(found)}")
        if self.confusion is not None:
            lines += ["", *self._confusion_lines()]
        lines += ["", f"verdict:    {self.verdict}"]
        return "\n".join([*map(one_line, lines), str(self.privacy_)])

    def _confusion_lines(self) -> list[str]:
        """At most ten classes; a file has them all."""
        names = [str(label)[:12] for label in (self.design.classes or ())][:10]
        counts = [[f"{cell.value:.0f}" for cell in line[:10]] for line in (self.confusion or ())[:10]]
        width = max(6, *(len(text) for text in (*names, *(text for line in counts for text in line))))
        left = max(len(name) for name in names) + 2
        unit = self.privacy_.unit
        rows = "rows" if unit is None else f"rows, each by its weight in its {unit.word},"
        lines = [f"{rows} by true class (lines) and predicted class (columns), and recall:"]
        lines.append(" " * left + "".join(f"{name:>{width + 2}}" for name in names))
        for name, line, recall in zip(names, counts, self.recalls or (), strict=False):
            cells = "".join(f"{text:>{width + 2}}" for text in line)
            lines.append(f"{name:<{left}}{cells}   {recall.value:.3g} ({_range(recall)})")
        if self.design.n_classes > len(names):
            lines.append(f"… and {self.design.n_classes - len(names)} more classes")
        return lines

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {value}" for name, value in self.table.items())
        return f"<PrivateEvaluation: {found}>"

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the statement below it."""
        lines = [
            f"<tr><th>{html.escape(name)}</th><td>{found.value:.4g}</td><td>{html.escape(_range(found))}</td></tr>"
            for name, found in self.table.items()
        ]
        head = f"<tr><th></th><th>value</th><th>{100.0 * self.level:g} % interval</th></tr>"
        words = html.escape(f"{self.model}\nverdict:    {self.verdict}\n{self.privacy_}")
        return f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table><pre>{words}</pre>"

    def plot(self) -> Any:
        """Draw ROC, calibration and confusion, or a regression's intervals; a matplotlib figure."""
        from dperm.evaluation.picture import draw_evaluation  # matplotlib is an extra

        return draw_evaluation(self)

    def to_dict(self) -> dict[str, Any]:
        """The contents of its file; "fingerprint" is the SHA-256 of everything else. Metrics follow from them."""
        design = {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self.design).items()
        }
        content = HEAD | {
            "kind": KIND,
            "model": self.model,
            "model_fingerprint": self.model_fingerprint,
            "design": design,
            "released": [numbers.tolist() for numbers in self.released],
            "level": self.level,
            "privacy": self.privacy_.to_dict(),
            "plan": self.plan_,
            "ledger": self.ledger_entry_,
        }
        return content | {"fingerprint": fingerprint(content)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "PrivateEvaluation":
        """Read what `to_dict` gave; raises if it does not fit together."""
        if set(content) != _KEYS or content["kind"] != KIND:
            raise ValueError("kind")
        design = dict(content["design"])
        if set(design) != {part.name for part in fields(Design)}:
            raise ValueError("design")
        check_classes(design["classes"])
        for name in ("classes", "target_range"):
            design[name] = None if design[name] is None else tuple(design[name])
        named = {name: content[name] for name in ("model", "model_fingerprint", "level")}
        if not isinstance(named["model"], str) or not _is_fingerprint(named["model_fingerprint"]):
            raise TypeError("model")
        if not 0.0 < finite("level", named["level"]) < 1.0:
            raise ValueError("level")
        if any(type(number) is not float for numbers in content["released"] for number in numbers):
            raise TypeError("released")
        released = tuple(np.array(numbers, dtype=np.float64) for numbers in content["released"])
        if not all(numbers.ndim == 1 and np.isfinite(numbers).all() for numbers in released):
            raise ValueError("released")
        statement = PrivacyStatement.from_dict(content["privacy"])
        part = part_from(content["plan"], Adjacency.parse(statement.adjacency), statement.unit)
        if [item.query.size for item in part.planned] != [numbers.size for numbers in released]:  # type: ignore[attr-defined]
            raise ValueError("released")
        found = cls(
            Design(**design), released, part.calibrated.deviations, statement, event_=part.event, **named,
            ledger_entry_=content["ledger"], plan_=content["plan"],
        )  # fmt: skip
        str(found)  # its numbers are numbers
        return found


def _is_fingerprint(text: object) -> bool:
    return text is None or (isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None)


def _range(found: Estimate) -> str:
    return f"{found.low:.4g} to {found.high:.4g}"
