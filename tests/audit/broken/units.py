"""Libraries that protect a row where they promise to protect all rows of a unit."""

import dataclasses
from unittest.mock import patch

import numpy as np

from audit.broken.mechanisms import Broken
from dperm.kernel.block import Block
from dperm.kernel.units import Membership, UnitRows
from dperm.privacy.unit import PrivacyUnit
from dperm.solvers import DPGD, DPSGD, DPSVRG, ChaudhuriOutput, DPNewton

THREE, MEAN = PrivacyUnit("person_id", 3), PrivacyUnit("person_id", contribution="average")


def unit_weights_left_out():
    """Every row weighs as much as if it were protected alone."""
    true = Block.from_table.__func__

    def unweighted(cls, X, y, problem, weights=None, units=None, facts=None):
        if units is not None:
            units = dataclasses.replace(units, weights=np.ones(units.weights.size))
        return true(cls, X, y, problem, weights, units, facts)

    return patch.object(Block, "from_table", classmethod(unweighted))


def rows_sampled():
    """Poisson sampling that draws rows."""
    return patch.object(
        Block, "batches", lambda self, sample, place, n_steps=1: sample.batches(len(self), place, n_steps)
    )  # fmt: skip


def five_per_cent_too_heavy():
    """The weights of a unit add up to 1.05."""
    true = Membership.chosen

    def heavier(self, key):
        rows = true(self, key)[:]
        return UnitRows(rows.numbers, 1.05 * rows.weights, rows.n)

    return patch.object(Membership, "chosen", heavier)


def rows_chosen_by_their_place():
    """Which rows of a unit are used depends on how many rows the whole table has."""

    def by_place(self, key):
        limit, places = self.unit.max_rows, (np.arange(self.numbers.size) * 7919) % self.numbers.size
        weights = np.zeros(self.numbers.size)
        for number in range(self.n):
            own = np.flatnonzero(self.numbers == number)
            weights[own[np.argsort(places[own])][:limit]] = (1.0 - 2.0**-50) / limit
        return UnitRows(self.numbers, weights, self.n)

    return patch.object(Membership, "chosen", by_place)


BROKEN_UNITS = [
    Broken("unit weights left out", ("replay", "black-box"), DPGD(accounting="composition"), unit_weights_left_out,
           unit=THREE),
    Broken("unit weights left out, means", ("replay",), DPNewton(), unit_weights_left_out, unit=MEAN),
    Broken("unit weights left out, a minimiser", ("replay",), ChaudhuriOutput(), unit_weights_left_out,
           unit=PrivacyUnit("person_id", 7)),
    Broken("rows sampled, not units", ("replay",), DPSVRG(sampling_rate=0.1), rows_sampled, unit=THREE),
    Broken("rows sampled, not units, SGD steps", ("replay",), DPSGD(sampling_rate=0.1), rows_sampled, unit=MEAN),
    Broken("weights that add up to 1.05", ("replay",), DPGD(accounting="composition"), five_per_cent_too_heavy,
           adjacency="add_remove", unit=THREE),
    Broken("weights that add up to 1.05, differences", ("replay",), DPSVRG(), five_per_cent_too_heavy, unit=MEAN),
    Broken("rows chosen by their place in the table", ("replay",), DPGD(accounting="composition"),
           rows_chosen_by_their_place, adjacency="add_remove", unit=THREE),
]  # fmt: skip
