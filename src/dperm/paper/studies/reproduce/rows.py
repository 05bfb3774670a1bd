"""The rows that are measured on, each table named by a few numbers; with the least risk, which only a study knows."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.accounting.curve import gaussian_mu
from dperm.datasets.covertype import load_covertype
from dperm.paper.studies.reference import least_risk
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.domains import L1Ball
from dperm.problem.losses import Logistic
from dperm.problem.regularizers import L1, L2, ElasticNet, NoRegularizer, Regularizer
from dperm.unsafe import empirical_risk

Array = NDArray[np.float64]

# Ten columns that matter, in every row of `SparseRows`, and ten others at random.
_SIGNALS, _NUISANCES = 10, 10

# How long the true coefficients of `HardRows` are, and how far from hopeless.
HARD_LENGTH, _HOPE = 10.0, 16.0


class Sample(NamedTuple):
    """A problem on rows, F* and F(0) − F*."""

    problem: Problem
    X: Any
    y: Array
    best: float
    at_zero: float


class RowsOf(Protocol):
    """A frozen dataclass that names rows; the same numbers draw the same rows."""

    def __hash__(self) -> int:
        """Equal numbers, equal rows."""

    def problem(self) -> Problem:
        """What is minimised on them."""

    def table(self) -> tuple[Any, Array]:
        """The rows and their targets."""


@lru_cache(maxsize=2)
def draw(rows: RowsOf) -> Sample:
    """The rows with their least risk."""
    problem, (X, y) = rows.problem(), rows.table()
    best = least_risk(problem, X, y)
    return Sample(problem, X, y, best, empirical_risk(problem, X, y, problem.start(X.shape[1])) - best)


@dataclass(frozen=True)
class CovertypeRows:
    """Training rows of Covertype in single precision, which halves the time of a pass."""

    n: int
    strength: float

    def problem(self) -> Problem:
        """Logistic regression, with a ridge or without."""
        return Problem(Logistic(), L2(self.strength) if self.strength > 0.0 else NoRegularizer())

    def table(self) -> tuple[Any, Array]:
        """The paper's data, class 2 against the rest."""
        data = load_covertype(self.n)
        return data.X.astype(np.float32), data.y


@dataclass(frozen=True)
class SphereRows:
    """Directions at random, labels by a logistic model: F^r has the curvature λ, and at most 1/(4p) from the loss."""

    n: int
    p: int
    seed: int
    strength: float
    l1: float = 0.0

    def problem(self) -> Problem:
        """A ridge, and an l1 penalty where non-smooth regularizers are tried."""
        ridge: Regularizer = L2(self.strength)
        if self.l1 > 0.0:
            ridge = ElasticNet(self.strength + self.l1, self.l1 / (self.strength + self.l1))
        return Problem(Logistic(), ridge)

    def table(self) -> tuple[Any, Array]:
        """Rows of norm 1; margins of the true coefficients have a standard deviation of 3."""
        rng = np.random.default_rng([1, self.seed, self.n, self.p])
        X = _directions(rng, self.n, self.p)
        return X, _labels(rng, X @ _towards(rng, self.p, 3.0 * math.sqrt(self.p)))


@dataclass(frozen=True)
class HardRows:
    """Rows whose curvature is close to the least favourable one for this n, ε, δ and p.

    Noise of standard deviation σ per coordinate on the gradient, and true coefficients of length D: with curvature h in
    every direction, the exact minimiser of a noisy objective has an excess of about pσ²/(2h), and w = 0 one of hD²/2.
    They meet at h = √p σ/D, where both are of the order √p σ D: the rate that Table 2 is about. The rows are so
    short that h is about 16 times that (less where margins are so long that the loss bends), and the excess of w = 0
    about 256 times that of the minimiser.
    """

    n: int
    p: int
    seed: int
    epsilon: float
    delta: float
    l1: float = 0.0

    def problem(self) -> Problem:
        """No regularizer, or an l1 penalty where non-smooth ones are tried."""
        return Problem(Logistic(), L1(self.l1) if self.l1 > 0.0 else NoRegularizer())

    def table(self) -> tuple[Any, Array]:
        """Rows of one and the same norm."""
        rng = np.random.default_rng([2, self.seed, self.n, self.p])
        sigma = 2.0 / (self.n * gaussian_mu(Guarantee(self.epsilon, self.delta)))
        curvature = _HOPE * math.sqrt(self.p) * sigma / HARD_LENGTH
        norm = min(1.0, math.sqrt(4.0 * self.p * curvature))  # curvature is at most ‖x‖²/(4p)
        X = norm * _directions(rng, self.n, self.p)
        return X, _labels(rng, X @ _towards(rng, self.p, HARD_LENGTH))


@dataclass(frozen=True)
class SparseRows:
    """Sparse rows of norm about 1 in many columns, of which ten matter, on the l1 ball."""

    n: int
    p: int
    seed: int
    radius: float = 20.0
    l1: float = 0.0

    def problem(self) -> Problem:
        """The l1 ball, its entry bound declared; with an l1 penalty where non-smooth regularizers are tried."""
        regularizer = L1(self.l1) if self.l1 > 0.0 else NoRegularizer()
        return Problem(Logistic(), regularizer, L1Ball(self.radius), entry_bound=2.0 / math.sqrt(_SIGNALS + _NUISANCES))

    def table(self) -> tuple[Any, Array]:
        """Signs in random columns; ‖truth‖₁ is the radius."""
        rng = np.random.default_rng([3, self.seed, self.n, self.p])
        signals = np.tile(np.arange(_SIGNALS), (self.n, 1))
        others = _SIGNALS + rng.integers(0, self.p - _SIGNALS, (self.n, _NUISANCES))
        columns = np.hstack([signals, others])
        entries = rng.choice([-1.0, 1.0], size=columns.shape) / math.sqrt(columns.shape[1])
        places = np.repeat(np.arange(self.n), columns.shape[1]), columns.ravel()
        X = sparse.csr_matrix((entries.ravel(), places), shape=(self.n, self.p))
        X.sum_duplicates()
        truth = np.zeros(self.p)
        truth[:_SIGNALS] = self.radius / _SIGNALS * rng.choice([-1.0, 1.0], _SIGNALS)
        return X, _labels(rng, X @ truth)


def _directions(rng: np.random.Generator, n: int, p: int) -> Array:
    X = rng.normal(size=(n, p))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def _towards(rng: np.random.Generator, p: int, length: float) -> Array:
    truth = rng.normal(size=p)
    return np.asarray(truth * (length / np.linalg.norm(truth)))


def _labels(rng: np.random.Generator, margins: Array) -> Array:
    return np.where(rng.random(margins.size) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
