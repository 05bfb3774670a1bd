"""The suite: every entry changes one thing, by a patch or a subclass, and says what was planned with it."""

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from unittest.mock import patch

import numpy as np

from dperm import FitOptions, Guarantee, Problem
from dperm.accounting.events import Repeated
from dperm.kernel.block import Block
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.sums import RowSums
from dperm.mechanisms import (
    DifferenceQuery,
    GradientQuery,
    ObjectivePerturbationQuery,
    OutputPerturbationQuery,
)
from dperm.mechanisms.plan import CalibratedPlan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import L2, L1Ball, Logistic
from dperm.solvers import DPGD, DPSGD, DPSVRG, ChaudhuriOutput, DPAccMD, DPObjective, TalwarFrankWolfe
from kernel.harness import Liar

N, P = 60, 3
GUARANTEE = Guarantee(4.0, 1e-5)
REGULARIZED = Problem(Logistic(), L2(0.1))
BOUNDED = Problem(Logistic(), domain=L1Ball(2.0))


@dataclasses.dataclass(frozen=True)
class Broken:
    """A mechanism that breaks its promise.

    `catches` names the attacks that have to notice, the fastest first; `patch` is the change; `plan` makes the plan.
    """

    name: str
    catches: tuple[str, ...]
    solver: object
    change: Callable[[], AbstractContextManager[object]] = nullcontext
    problem: Problem = REGULARIZED
    adjacency: str = "replace_one"
    unit: PrivacyUnit | None = None

    def plan(self):
        return FitOptions(
            self.problem, guarantee=GUARANTEE, solver=self.solver, adjacency=self.adjacency, unit=self.unit
        ).plan(N, P)  # fmt: skip


def released_as(change, only=object):
    """Change what `Noise.release` returns for queries of a kind: change(noise, exact, sensitivity, released)."""

    def patched():
        true = Noise.release

        def release(self, exact, sensitivity):
            released = true(self, exact, sensitivity)
            if self.calibrated.noise_multiplier is None or not isinstance(self.item.query, only):
                return released
            return change(self, exact, sensitivity, released)

        return patch.object(Noise, "release", release)

    return patched


def half(noise, exact, sensitivity, released):
    return exact + 0.5 * (released - exact)


def choices_with_half_the_noise():
    true = Noise.choose
    return patch.object(Noise, "choose", lambda self, scores, sensitivity: true(self, 2.0 * scores, sensitivity))


def nothing(noise, exact, sensitivity, released):
    return exact


def plain_float(noise, exact, sensitivity, released):
    return exact + noise.calibrated.sigma(noise.item, sensitivity) * np.random.default_rng().standard_normal(
        exact.shape
    )


@contextmanager
def one_noise_for_all_queries():
    kept = {}

    def again(noise, exact, sensitivity, released):
        sigma = noise.calibrated.sigma(noise.item, sensitivity)
        fit, unit = kept.get(exact.shape, (None, None))
        if fit is not noise.randomness:
            unit = (released - exact) / sigma
            kept[exact.shape] = noise.randomness, unit
        return exact + sigma * unit

    with released_as(again)():
        yield


def one_key_for_all_fits():
    true = Randomness.from_random_state.__func__

    def seeded(cls, random_state):
        return true(cls, 0 if random_state is None else random_state)

    return patch.object(Randomness, "from_random_state", classmethod(seeded))


@contextmanager
def noise_for_one_record():
    """The sensitivity of add_remove where a row is replaced."""
    at = Setting.sum_sensitivity_at
    with (
        patch.object(Setting, "sum_sensitivity", property(lambda self: self.record_bound)),
        patch.object(Setting, "sum_sensitivity_at", lambda self, norm: 0.5 * at(self, norm)),
    ):
        yield


def rows_not_clipped():
    true = Block.from_table.__func__

    def unclipped(cls, *arguments, **more):
        block = true(cls, *arguments, **more)
        return dataclasses.replace(block, scale=np.ones_like(block.scale))

    return patch.object(Block, "from_table", classmethod(unclipped))


def twice_the_rate():
    true = RowSums.difference

    def more_often(self, w, anchor, bound, rate, *more):
        return true(self, w, anchor, bound, min(1.0, 2.0 * rate), *more)

    return patch.object(RowSums, "difference", more_often)


def differences_not_clipped():
    true = RowSums.difference
    return patch.object(
        RowSums, "difference", lambda self, w, anchor, bound, rate, *more: true(self, w, anchor, np.inf, rate, *more)
    )


def a_quarter_of_the_steps():
    def fewer(self, noise_multiplier):
        return Repeated(self.query.event(self.multiplier(noise_multiplier)), max(1, self.count // 4))

    return patch.object(PlannedQuery, "event", fewer)


def half_a_bound(kind, name):
    """A property or method of a query that returns half of what it should."""

    def patched():
        true = getattr(kind, name)
        if isinstance(true, property):
            return patch.object(kind, name, property(lambda self: 0.5 * true.fget(self)))
        return patch.object(kind, name, lambda self, *given: 0.5 * true(self, *given))

    return patched


@contextmanager
def quarter_of_the_output_bound():
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(half_a_bound(OutputPerturbationQuery, "sensitivity")())
        yield


class ExactSecondStep(DPAccMD):
    """Algorithm 3 as printed: y comes from the exact gradient, and y is what is released."""

    def run(self, oracle, problem, plan, start):
        released = super().run(oracle, problem, plan, start)
        exact = oracle._sums.gradient(released) / plan.n
        return problem.domain.project(released - 0.5 * exact)


class Jump(Liar):
    """Its slope jumps from −1 to 1 at 0, where it declares a curvature of 1/4; a solver can plan for it."""

    value_at_zero = 1.0


BROKEN = [
    Broken("half noise", ("replay", "black-box"), DPGD(accounting="composition"), released_as(half)),
    Broken("no noise", ("replay", "black-box"), DPGD(accounting="composition"), released_as(nothing)),
    Broken("half noise on a minimiser's linear term", ("replay",), DPObjective(),
           released_as(half, ObjectivePerturbationQuery)),
    Broken("half noise in a noisy max", ("replay",), TalwarFrankWolfe(), choices_with_half_the_noise, BOUNDED),
    Broken("half noise inside SGD steps", ("replay",), DPSGD(), half_a_bound(CalibratedPlan, "sigma")),
    Broken("noise of add_remove for replace_one", ("replay", "black-box"), DPGD(accounting="composition"),
           noise_for_one_record),
    Broken("rows not clipped", ("replay", "black-box"), DPGD(accounting="composition"), rows_not_clipped),
    Broken("the same noise in all queries", ("replay",), DPSVRG(), one_noise_for_all_queries),
    Broken("the same key in all fits", ("replay",), DPGD(accounting="composition"), one_key_for_all_fits),
    Broken("the same key in all fits, SGD steps", ("replay",), DPSGD(), one_key_for_all_fits),
    Broken("plain float noise", ("low-bits",), DPGD(accounting="composition"), released_as(plain_float)),
    Broken("plain float noise, add_remove", ("low-bits",), DPSVRG(), released_as(plain_float), adjacency="add_remove"),
    Broken("twice the sampling rate", ("replay",), DPSVRG(sampling_rate=0.1), twice_the_rate),
    Broken("exact gradient in Algorithm 3", ("replay",), ExactSecondStep(), problem=BOUNDED),
    Broken("exact anchor in SVRG", ("replay", "black-box"), DPSVRG(), released_as(nothing, GradientQuery)),
    Broken("a quarter of the steps composed", ("black-box",), DPGD(n_steps=16, accounting="composition"),
           a_quarter_of_the_steps),
    Broken("the mean's sensitivity over 2n", ("replay",), DPGD(accounting="composition"),
           half_a_bound(GradientQuery, "sensitivity_at_norm")),
    Broken("half the bound on a difference", ("replay",), DPSVRG(),
           half_a_bound(DifferenceQuery, "sensitivity_at_distance"), adjacency="add_remove"),
    Broken("differences not clipped", ("replay",), DPSVRG(), differences_not_clipped, Problem(Jump(), L2(0.1))),
    Broken("a quarter of the bound on a minimiser", ("replay",), ChaudhuriOutput(), quarter_of_the_output_bound),
]  # fmt: skip
