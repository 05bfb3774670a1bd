"""The public facts that a query's sensitivity and privacy cost rest on."""

import math
from dataclasses import dataclass
from typing import Protocol

from dperm.mechanisms.sigmoid_width import sigmoid, sigmoid_width
from dperm.privacy.guarantee import ROWS_ALLOWED_PER_DECLARED, Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Constants

# Rows of one block of a table (kernel/block.py): more are cut into several, whose sums are added up by pairs.
MOST_ROWS = 2**24

# A path of fewer hidden steps may begin as far from 0 as one of so many.
FEWEST_STEPS = 1000


class TableFacts(Protocol):
    """The public facts about a table that every mechanism rests on."""

    @property
    def n(self) -> int:
        """The public number of rows, or of units where rows are protected by unit."""
        ...

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""
        ...

    @property
    def unit(self) -> PrivacyUnit | None:
        """Whose rows are protected together; None where each row is its own unit."""
        ...


@dataclass(frozen=True)
class PublicTable:
    """The facts about a table of which nothing is minimised: sums over its rows need no more."""

    n: int
    adjacency: Adjacency
    unit: PrivacyUnit | None = None


def summation_block(n: int) -> int:
    """Rows that a kernel adds up before it moves to a fresh accumulator (kernel/objectives/)."""
    return max(1024, math.isqrt(n))


def summation_slack(table: TableFacts, further: int = 0) -> float:
    """Relative padding of the sensitivity for rounding in a blocked float64 sum over a table's rows.

    A sum of N vectors of norm ≤ G along chains of k additions is off by at most k·u/(1 − k·u)·N·G
    (u = 2⁻⁵³), and two tables are compared, so the computed sums differ by at most
    (exact difference) + 2·k·u·N·G, up to the last digit. See docs/proofs/gradient.md.
    The vectors of one unit's rows are no longer than G all together, however many there are: N is then the number of
    units, and chains are as long as a block can make them.
    `further` additions may follow, of numbers that are bounded like the sum.
    """
    rows = math.ceil(ROWS_ALLOWED_PER_DECLARED * table.n) + 1
    # Of a block of a source: so many rows at once, then as many such sums, then 8 pieces. The rest is for the products
    # of one row, and for the blocks (kernel/adding.py): 32 additions for a million, and as many for the partitions of
    # a worker, and for the workers.
    longest = min(rows, MOST_ROWS) if table.unit is None else MOST_ROWS
    at_once = summation_block(longest)
    chain = at_once + math.ceil(longest / at_once) + 128 + further
    return 2.0 * rows * chain * 2.0**-53 * 1.01


def margin_rounding(setting: "Setting", norm: float) -> float:
    """How far rounding in the margins, and in a step, can move the computed mean gradient at a point of this norm.

    A margin is a sum over the entries of a row, and a slope one over the outputs: K margins of p entries each are off
    by p·u times the norm of all coefficients together.
    """
    rows, outputs = ROWS_ALLOWED_PER_DECLARED + 1.0 / setting.n, max(1, setting.constants.n_outputs)
    terms = setting.constants.dimension / outputs + outputs + 7.0
    return 2.0 * terms * 2.0**-53 * rows * setting.constants.smoothness * norm


def pull_rounding(pull: float) -> float:
    """How far rounding moves a mean gradient to which the ridges add vectors of this length in all."""
    return 8.0 * 2.0**-53 * pull


@dataclass(frozen=True)
class HiddenPath:
    """Proximal steps w → prox(w − ηv) inside the trusted kernel, of which only the end is released.

    Rounding is then part of what moves between adjacent tables, and not only that of sums: margins, the step and the
    proximal map are rounded at points that differ. Proof: docs/proofs/exact.md.

    Attributes
    ----------
    setting : Setting
        The public facts.
    n_steps : int
        T.
    step_size : float
        η.
    noise : float
        A length that the noise on one v exceeds with a probability of at most e^−200.
    """

    setting: "Setting"
    n_steps: int
    step_size: float
    noise: float = 0.0

    @property
    def longest_direction(self) -> float:
        """A bound on ‖v‖."""
        return self.setting.constants.lipschitz * (ROWS_ALLOWED_PER_DECLARED + 1.0 / self.setting.n) + self.noise

    @property
    def longest_start(self) -> float:
        """Where the path may begin: in C; if that is unbounded, no further from 0 than it can go in 1000 steps."""
        if self.setting.constants.norm_bound < math.inf:
            return self.setting.constants.norm_bound * (1.0 + 1e-9)
        return max(self.n_steps, FEWEST_STEPS) * self.step_size * self.longest_direction

    @property
    def rounding(self) -> float:
        """How far rounding moves a step between two tables, over η: as if the mean gradient moved by so much."""
        constants, reach = self.setting.constants, 2.0 * self.longest_start
        lengths = reach / self.step_size + self.longest_direction
        step = 4.0 * (constants.dimension + 16.0) * 2.0**-53 * lengths
        # A projection rounds after distances were shrunk by 1/(1 + ημ); without one all errors are shrunk as well.
        shrunk = 1.0 + self.step_size * constants.strong_convexity if constants.norm_bound < math.inf else 1.0
        return 2.0 * (margin_rounding(self.setting, reach) + step) * shrunk


@dataclass(frozen=True)
class Setting:
    """A problem's constants, the public number of rows or units, the adjacency, and whose rows are protected together.

    Solvers build their queries on a setting; the oracle derives its own from the problem and refuses
    a query that rests on another, so a solver cannot understate a sensitivity.
    """

    constants: Constants
    n: int
    adjacency: Adjacency
    unit: PrivacyUnit | None = None

    @property
    def rows_together(self) -> int | None:
        """How many rows of neighbouring datasets may come or go together; None where no number bounds them."""
        return 1 if self.unit is None else self.unit.max_rows

    @property
    def record_bound(self) -> float:
        """The largest norm that a row, or all rows of a unit, add to a computed gradient sum, padded for rounding."""
        return self.constants.lipschitz * (1.0 + summation_slack(self))

    @property
    def sum_sensitivity(self) -> float:
        """How far the gradient sum moves between neighbouring datasets."""
        return self.adjacency.records_moved * self.record_bound

    def sum_sensitivity_at(self, norm: float) -> float:
        """How far the full gradient sum moves between neighbouring datasets at a point of this norm.

        Less than anywhere where slopes are known to be sigmoids: docs/proofs/ball_sensitivity.md.
        """
        constants = self.constants
        if constants.sigmoid_norm == math.inf:
            return self.sum_sensitivity
        margin = float(norm) * constants.sigmoid_norm * (1.0 + 1e-9)
        if not margin < math.inf:
            return self.sum_sensitivity
        width = sigmoid_width(margin) if self.adjacency is Adjacency.REPLACE_ONE else sigmoid(margin)
        rounding = 1.0 + (constants.dimension + 8.0) * 2.0**-52 * margin + 1e-12  # of margins, and of the sigmoid
        slack = self.adjacency.records_moved * summation_slack(self)
        return min(constants.lipschitz * (width * rounding + slack), self.sum_sensitivity)

    @property
    def domain_sensitivity(self) -> float:
        """How far the full gradient sum moves between neighbouring datasets at any point of C."""
        return self.sum_sensitivity_at(self.constants.norm_bound * (1.0 + 1e-9))

    @property
    def smoothness(self) -> float:
        """L of F for every table that the guarantee speaks of."""
        slack = ROWS_ALLOWED_PER_DECLARED if self.adjacency is Adjacency.ADD_REMOVE else 1.0
        return self.constants.smoothness * slack
