"""All attacks on a plan that need no sensitive rows."""

from collections.abc import Sequence

from dperm.audit.black_box import black_box
from dperm.audit.low_bits import low_bits
from dperm.audit.one_run import check_confidence
from dperm.audit.replay import replay
from dperm.audit.result import AuditResult, result_of
from dperm.audit.subject import Progress, Subject
from dperm.errors import InvalidParameterError
from dperm.plan.fit_plan import FitPlan
from dperm.validation import count

ATTACKS = ("replay", "black-box", "low-bits")
FEWEST_FITS = 20
# A few fits show float noise; more would add nothing.
_FITS_FOR_LOW_BITS = 200


def audit_plan(
    plan: FitPlan,
    *,
    attacks: Sequence[str] = ATTACKS,
    fits: int = 1000,
    confidence: float = 0.95,
    random_state: int | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Attack a plan on synthetic tables and return lower bounds on its ε.

    Parameters
    ----------
    plan : FitPlan
        From `FitOptions.plan` or an estimator's `plan`.
    attacks : sequence of {"replay", "black-box", "low-bits"}
        Which attacks; see docs/audit.md.
    fits : int
        Fits of the black box, half of them on each of two neighbouring datasets. The other attacks take fewer.
    confidence : float
        A correct mechanism is accused with a probability of at most 1 − confidence, by all attacks together.
    random_state : int, optional
        Makes the audit repeatable.
    progress : callable, optional
        Called with (fits done, fits planned).

    Returns
    -------
    AuditResult
        Prints as a few lines.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.audit import audit_plan
    >>> plan = PrivateLogisticRegression(1.0, 1e-5, solver="dp-gd").plan(500, 5)
    >>> audit_plan(plan, attacks=["replay"], random_state=0).kept
    True
    """
    unknown = set(attacks) - set(ATTACKS)
    if unknown or not attacks or isinstance(attacks, str):
        raise InvalidParameterError(f"attacks must name some of {', '.join(ATTACKS)}, got {attacks!r}.")
    if count("fits", fits) < FEWEST_FITS:
        raise InvalidParameterError(f"fits must be at least {FEWEST_FITS}: fewer prove nothing.")
    alpha = (1.0 - check_confidence(confidence)) / len(set(attacks))
    subject = Subject(plan, random_state)
    found = []
    if "replay" in attacks:
        found.append(replay(subject, alpha))
    if "black-box" in attacks:
        found.append(black_box(subject, fits, alpha, progress))
    if "low-bits" in attacks:
        found.append(low_bits(subject, min(fits, _FITS_FOR_LOW_BITS), alpha, progress))
    return result_of(plan, confidence, tuple(found))
