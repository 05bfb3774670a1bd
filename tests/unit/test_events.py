"""Accounting events as plain data: what is read back is what was written, and nothing else is read."""

import json

import pytest
from dp_accounting import dp_event

from dperm import InvalidParameter
from dperm.accounting.events import ObjectivePerturbationDpEvent, PureDpEvent, event_from_list, event_to_list, leaves

EVERY = dp_event.ComposedDpEvent(
    [
        dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(3.25), 7),
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.5)),
        dp_event.ZCDpEvent(0.125),
        PureDpEvent(0.5),
        ObjectivePerturbationDpEvent(4.25, 0.1, True, 1e-6, True, 0.9),
        dp_event.NonPrivateDpEvent(),
    ]
)


def test_every_event_survives_json():
    written = json.dumps(event_to_list(EVERY))
    assert list(leaves(event_from_list(json.loads(written)))) == list(leaves(EVERY))


@pytest.mark.parametrize(
    "event",
    [
        dp_event.ZCDpEvent(0.01, xi=50.0),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(5.0)),
        dp_event.PoissonSampledDpEvent(0.1, ObjectivePerturbationDpEvent(10.0, 5.0, True, 3.0)),
        dp_event.LaplaceDpEvent(5.0),
        dp_event.NoOpDpEvent(),
    ],
)
def test_what_could_not_be_read_back_as_it_is_is_not_written(event):
    with pytest.raises(InvalidParameter, match="no price for the mechanism"):
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
