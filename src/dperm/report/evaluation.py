"""What the page shows of a private evaluation of the same model."""

from dataclasses import dataclass
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.evaluation.result import PrivateEvaluation
from dperm.files.model_file import is_unchanged
from dperm.files.reading import release_from
from dperm.verify.finding import Finding
from dperm.verify.release import _knows, verify

# Of a square picture: its corner, and the length of its sides.
_LEFT, _BOTTOM, _SIDE = 44.0, 214.0, 200.0


@dataclass(frozen=True)
class Scored:
    """An evaluation as the page needs it.

    Attributes
    ----------
    found : PrivateEvaluation
        What was released.
    findings : list of Finding
        What verification says of its file.
    """

    found: PrivateEvaluation
    findings: list[Finding]

    @property
    def verified(self) -> bool:
        """Whether all that was checked holds."""
        return all(finding.holds for finding in self.findings)

    @property
    def broken(self) -> list[str]:
        """What does not."""
        return [finding.text for finding in self.findings if not finding.holds]

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and interval of every metric."""
        table = self.found.table
        return [(name, f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}") for name, one in table.items()]

    @property
    def pictures(self) -> list[dict[str, Any]]:
        """ROC and calibration, as points of SVG."""
        drawn: list[dict[str, Any]] = []
        if self.found.roc is not None:
            drawn.append({"title": "ROC curve", "across": "false positive rate", "up": "true positive rate",
                          "line": _points(self.found.roc), "band": "", "dots": []})  # fmt: skip
        points = self.found.calibration
        if points:
            line = [(point.predicted, point.observed.value) for point in points]
            lower = [(point.predicted, point.observed.low) for point in points]
            upper = [(point.predicted, point.observed.high) for point in reversed(points)]
            drawn.append({"title": "Calibration", "across": "predicted probability", "up": "share that came true",
                          "line": _points(line), "band": _points([*lower, *upper]),
                          "dots": [_place(*point) for point in line]})  # fmt: skip
        return drawn


def scored(content: dict[str, Any], model_fingerprint: str, file_name: str, ledger: str | None) -> Scored:
    """Read an evaluation for the page of a model.

    Parameters
    ----------
    content : dict
        What `model_file.read_content` returned.
    model_fingerprint : str
        Of the model that the page is about.
    file_name : str
        How the page names it.
    ledger : str, optional
        Where the evaluation is looked up, if it was charged to a dataset that is known there.

    Raises
    ------
    InvalidParameterError
        If it is not an evaluation, one that was changed, or one of another model.
    """
    if not is_unchanged(content):
        raise InvalidParameterError("the evaluation was modified after it was written (fingerprint mismatch).")
    found = release_from(content)
    if not isinstance(found, PrivateEvaluation):
        raise InvalidParameterError("this is not a private evaluation.")
    if found.model_fingerprint != model_fingerprint:
        raise InvalidParameterError(f"the evaluation is of another model than {file_name}: its fingerprint differs.")
    entry = found.ledger_entry_
    known = entry is not None and ledger is not None and _knows(ledger, entry["dataset"])
    return Scored(found, verify(content, ledger if known else None))


def _place(across: float, up: float) -> tuple[str, str]:
    return f"{_LEFT + _SIDE * across:.1f}", f"{_BOTTOM - _SIDE * up:.1f}"


def _points(pairs: Any) -> str:
    return " ".join(",".join(_place(*pair)) for pair in pairs)
