"""Every loss, regularizer and domain of the package, found through its base class: a new one is tested unasked."""

import importlib
import inspect
import pkgutil

import dperm.kernel
import dperm.mechanisms
import dperm.problem
import dperm.rows
from dperm.problem.domains import BlockDomain, Box, Domain, GroupBall, L1Ball, L2Ball, Simplex
from dperm.problem.losses import Huber, Loss, OneVsRestHinge, Poisson, SmoothedHinge, Softmax, Squared, Welsch
from dperm.problem.regularizers import L1, L2, BlockRegularizer, ElasticNet, GroupL2, Regularizer

# A file that nobody imports is found as well.
for _package in (dperm.problem, dperm.mechanisms, dperm.kernel, dperm.rows):
    for _module in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_module.name)


def concrete(base: type) -> list[type]:
    """Classes below `base` that the package itself defines and that can be built."""
    found = {below for child in base.__subclasses__() for below in (child, *concrete(child))}
    own = [cls for cls in found if cls.__module__.startswith("dperm.") and not inspect.isabstract(cls)]
    return sorted(own, key=lambda cls: cls.__name__)


def examples(base: type) -> list:
    """One ordinary instance of each."""
    return [cls.example() for cls in concrete(base)]


# Ordinary parameters are often 1, which hides a forgotten factor; the others do not.
LOSSES = [
    *examples(Loss),
    Huber(threshold=0.3, target_bound=2.0),
    Huber(threshold=20.0, target_bound=2.0),
    OneVsRestHinge(n_classes=2, smoothing=2.0),
    Poisson(margin_cap=1.0, target_bound=2.0),
    Poisson(margin_cap=6.0, target_bound=10.0),
    SmoothedHinge(smoothing=2.0),
    Softmax(n_classes=2),
    Softmax(n_classes=2, cut=0.7),
    Softmax(n_classes=3, cut=0.3),
    Squared(target_bound=3.0),
    Welsch(scale=0.3, target_bound=2.0),
    Welsch(scale=2.0, target_bound=0.5),
]

REGULARIZERS = [
    *examples(Regularizer),
    L1(strength=0.7),
    L2(strength=3.0),
    ElasticNet(strength=2.0, l1_ratio=0.1),
    ElasticNet(strength=1.0, l1_ratio=0.0),
    ElasticNet(strength=1.0, l1_ratio=1.0),
    GroupL2(strength=1.5, groups=((5,), (0, 3))),
    GroupL2(strength=0.4, groups=((5,), (0, 3)), ridge=0.7),
    BlockRegularizer(((0, 4, GroupL2(0.5, groups=((0, 2), (3,)))), (4, 6, ElasticNet(0.8, l1_ratio=0.5)))),
]

SIX_LOW = (-1.0, 0.0, -0.2, -3.0, -0.1, -1.0)
SIX_HIGH = (0.5, 1.0, 0.0, 3.0, 2.0, 1.0)

DOMAINS = [
    *examples(Domain),
    BlockDomain(((0, 2, L2Ball(0.7)), (2, 4, L1Ball(1.5)), (4, 6, Box(-0.5, 2.0)))),
    Box(-0.5, 2.0),
    Box(0.0, 1.0),
    Box(SIX_LOW, SIX_HIGH),
    Box(-1.0, SIX_HIGH),
    GroupBall(radius=2.5, groups=[[10, 1, 4], [0], [2, 3, 5, 6, 7, 8, 9]]),
    GroupBall(radius=0.3, groups=((1,), (0,))),
    GroupBall(radius=1.7, groups=(tuple(range(50)),)),
    L1Ball(radius=2.5),
    L2Ball(radius=0.3),
    Simplex(total=3.0),
]
