"""A loss, a regularizer, a domain, a solver and two models, as somebody writes them in a file of their own."""

import math
from dataclasses import dataclass, field

import numpy as np

from dperm.models.classifier import LinearClassifier
from dperm.models.regressor import LinearRegressor
from dperm.problem.domains import L2Ball
from dperm.problem.losses import Logistic, Loss, Squared
from dperm.problem.losses.base import ResidualLoss
from dperm.problem.regularizers import L2, Regularizer
from dperm.solvers import DPGD


@dataclass(frozen=True)
class OwnLoss(ResidualLoss):
    """ℓ(m, y) = log cosh(m − y)."""

    target_bound: float = 1.0
    name = "own_loss"
    convex = True
    value = staticmethod(lambda margin, target, bound: np.logaddexp(margin - target, target - margin) - np.log(2.0))
    derivative = staticmethod(lambda margin, target, bound: np.tanh(margin - target))

    def slope_bound(self, margin_bound):
        return math.tanh(margin_bound + self.target_bound)

    def curvature_bound(self, margin_bound):
        return 1.0


@dataclass(frozen=True)
class OwnPenalty(L2):
    """An l2 penalty under another name."""

    strength: float = 0.02
    name = "own_penalty"


@dataclass(frozen=True)
class OwnDomain(L2Ball):
    """A ball under another name."""

    radius: float = 3.0
    name = "own_domain"


@dataclass(frozen=True)
class OwnSolver(DPGD):
    """Gradient descent under another name."""

    name = "own-solver"


@dataclass(eq=False, repr=False, kw_only=True)
class AnyClassifier(LinearClassifier):
    """A classifier of any loss for classes."""

    loss: Loss = field(default_factory=Logistic)
    kind = "any-classifier"
    title = "classifier of any loss"

    def _loss(self, n_classes):
        return self.loss


@dataclass(eq=False, repr=False, kw_only=True)
class AnyRegressor(LinearRegressor):
    """A regression with any loss for numbers."""

    loss: Loss = field(default_factory=Squared)
    kind = "any-regressor"
    title = "regression of any loss"

    def _problem(self):
        return self._problem_with(self.loss)


class NotAsData(Regularizer):
    """A penalty that no file can describe: its numbers are no fields of a dataclass."""

    name = "not_as_data"
    projects_exactly_onto = frozenset()

    def __init__(self, strength):
        self.strength = strength

    def __eq__(self, other):
        return isinstance(other, NotAsData) and other.strength == self.strength

    def __hash__(self):
        return hash(self.strength)

    @property
    def strong_convexity(self):
        return self.strength

    def value(self, w):
        return 0.5 * self.strength * float(w @ w)

    def prox(self, v, step):
        return v / (1.0 + step * self.strength)
