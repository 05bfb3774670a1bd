"""What a guarantee means to an attacker: how often a record is found, at a given rate of false alarms."""

import math
from collections.abc import Sequence

import numpy as np

from dperm.accounting.composition import curve_of
from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.privacy.guarantee import Adjacency
from dperm.validation import finite

# Points of the curve δ(ε) that are looked at, and how far where no ε has a small δ.
_POINTS = 200
_FAR = 20.0
_SMALLEST_DELTA = 1e-10


def true_positive_rates(event: Event, adjacency: Adjacency, false_positive_rates: Sequence[float]) -> list[float]:
    """The largest true positive rate of any attacker who tells two neighbouring datasets apart by what was released.

    The attacker may know all other rows and everything but the noise. Whatever test is made,
    TPR ≤ δ(ε) + e^ε FPR and 1 − FPR ≤ δ(ε) + e^ε (1 − TPR), for every ε ≥ 0. The least of these bounds over a grid of ε
    is taken (docs/proofs/composition.md).

    Parameters
    ----------
    event : Event
        What ran.
    adjacency : Adjacency
        Which two tables: with and without the record, or with another one in its place.
    false_positive_rates : sequence of float
        How often the attacker may be wrong where the record is not there, each in [0, 1].

    Returns
    -------
    list of float
        Upper bounds, one for each.
    """
    rates = np.array([finite("false_positive_rate", rate) for rate in false_positive_rates])
    if ((rates < 0.0) | (rates > 1.0)).any():
        raise InvalidParameterError("false_positive_rate must lie in [0, 1].")
    curve = curve_of(event, adjacency)
    far = curve.epsilon(_SMALLEST_DELTA)
    if not math.isfinite(far):
        far = _FAR
    best = np.ones(rates.size)
    for epsilon in np.linspace(0.0, min(far, 700.0), _POINTS).tolist():
        delta = curve.delta(epsilon)
        best = np.minimum(best, delta + math.exp(epsilon) * rates)
        best = np.minimum(best, 1.0 - math.exp(-epsilon) * (1.0 - delta - rates))
    return [float(bound) for bound in np.clip(best * (1.0 + 1e-15), rates, 1.0)]
