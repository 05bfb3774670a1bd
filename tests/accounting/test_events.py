"""Accounting events as plain data: what is read back is what was written, and nothing else is read."""

import json

import pytest
from dp_accounting import dp_event

from dperm.accounting.events import (
    ZCDP,
    BoundedRange,
    Composed,
    Gaussian,
    NotPrivate,
    ObjectivePerturbation,
    PoissonSampledGaussian,
    Pure,
    Repeated,
    SoftmaxPerturbation,
    event_from_list,
    event_to_list,
)
from dperm.errors import UnsupportedProblemError

EVERY = Composed(
    [
        Repeated(Gaussian(3.25), 7),
        PoissonSampledGaussian(0.01, 1.5),
        ZCDP(0.125),
        Pure(0.5),
        ObjectivePerturbation(4.25, 0.1, True, 1e-6, True, 0.9),
        SoftmaxPerturbation(4.25, 0.1, 7, 1e-6),
        NotPrivate(),
        BoundedRange(0.25),
    ]
)


def test_every_event_survives_json():
    written = json.dumps(event_to_list(EVERY))
    assert list(event_from_list(json.loads(written)).leaves()) == list(EVERY.leaves())


@pytest.mark.parametrize(
    "event",
    [
        dp_event.ZCDpEvent(0.01, xi=50.0),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(5.0)),
        dp_event.GaussianDpEvent(5.0),
        dp_event.LaplaceDpEvent(5.0),
        dp_event.NoOpDpEvent(),
    ],
)
def test_what_could_not_be_read_back_as_it_is_is_not_written(event):
    with pytest.raises(UnsupportedProblemError, match="no privacy bound for"):
        event_to_list(event)


@pytest.mark.parametrize(
    "items",
    [
        None,
        [],
        {},
        ["gaussian"],
        [{"mechanism": "gaussian", "count": 1}],
        [{"mechanism": "gaussian", "noise_multiplier": 1.0}],
        [{"mechanism": "gaussian", "noise_multiplier": 1.0, "count": 0}],
        [{"mechanism": "gaussian", "noise_multiplier": 1.0, "count": True}],
        [{"mechanism": "gaussian", "noise_multiplier": 0.0, "count": 1}],
        [{"mechanism": "gaussian", "noise_multiplier": float("inf"), "count": 1}],
        [{"mechanism": "gaussian", "noise_multiplier": "1", "count": 1}],
        [{"mechanism": "gaussian", "noise_multiplier": 1.0, "count": 1, "more": 2}],
        [{"mechanism": "laplace", "epsilon": 1.0, "count": 1}],
        [{"mechanism": "sampled gaussian", "noise_multiplier": 1.0, "sampling_probability": 0.0, "count": 1}],
        [{"mechanism": "pure", "epsilon": -1.0, "count": 1}],
        [{**event_to_list(EVERY)[4], "slope_share": 2.0}],
        [{**event_to_list(EVERY)[4], "monotone": 1}],
    ],
)
def test_what_is_not_an_event_is_refused(items):
    with pytest.raises((ValueError, KeyError, TypeError)):
        event_from_list(items)
