"""Which methods have published noise, and in which form: what `noise="paper"` asks."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from dperm.errors import UnsupportedProblemError
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.base import Solver

_Plan = TypeVar("_Plan", bound=Callable[[Any, Setting, Guarantee], CalibratedPlan])
_Form = TypeVar("_Form", bound=Callable[[Any], Solver])

_PLANS: dict[type[Solver], Callable[[Any, Setting, Guarantee], CalibratedPlan]] = {}
_FORMS: dict[type[Solver], Callable[[Any], Solver]] = {}


class PublishedPlan(NamedTuple):
    """A plan with the noise that its authors prescribe, and the solver that runs it; never for release."""

    solver: Solver
    calibrated: CalibratedPlan


def published(kind: type[Solver]) -> Callable[[_Plan], _Plan]:
    """Mark a function of a solver of this kind, a setting and a guarantee as the plan with its published noise."""

    def register(plan: _Plan) -> _Plan:
        _PLANS[kind] = plan
        return plan

    return register


def published_as(kind: type[Solver]) -> Callable[[_Form], _Form]:
    """Mark a function that turns a solver of this kind into the form in which it was published."""

    def register(form: _Form) -> _Form:
        _FORMS[kind] = form
        return form

    return register


def published_plan(solver: Solver, setting: Setting, guarantee: Guarantee) -> PublishedPlan:
    """Plan what a method's authors published, with their noise.

    Parameters
    ----------
    solver : Solver
        What it was given stays as it is.
    setting : Setting
        Public facts.
    guarantee : Guarantee
        What the authors' formula is asked for; it carries no guarantee.
    """
    for kind in type(solver).__mro__:
        if kind in _FORMS:
            return published_plan(_FORMS[kind](solver), setting, guarantee)
        if kind in _PLANS:
            return PublishedPlan(solver, _PLANS[kind](solver, setting, guarantee))
    methods = [kind for kind in {*_PLANS, *_FORMS} if not kind.__module__.startswith(str(__package__))]
    names = ", ".join(kind.name for kind in sorted(methods, key=lambda kind: kind.listed))
    raise UnsupportedProblemError(
        f"no noise was ever published for {solver.name}; use noise='certified', or a method that has some: {names}."
    )


def has_published_noise(solver: Solver) -> bool:
    """Whether there is published noise for this solver."""
    return any(kind in _PLANS or kind in _FORMS for kind in type(solver).__mro__)
