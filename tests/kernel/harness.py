"""Record and replay: the same questions on a table and on its adversarial neighbours, seen before noise is added."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dperm import Guarantee, Problem
from dperm.accounting.calibration import calibrate
from dperm.kernel.exact.radial import add_radial
from dperm.kernel.exact.rounding import add_gaussian, add_laplace
from dperm.kernel.exact.selection import exponential_choice, laplace_choice
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import DifferenceQuery, GradientQuery, PrintedEpochQuery, StochasticStepsQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Loss
from dperm.rows.arrays import ArraySource

N, P = 200, 5


@dataclass(frozen=True, eq=False)
class RecordingNoise(Noise):
    """The real gate, and keeps what came to it and how much noise it got."""

    tape: "RecordingOracle"

    def _add(self, exact, distribution, scale):
        self.tape.exact.append(exact)
        self.tape.sigmas.append(scale)
        released = super()._add(exact, distribution, scale)
        self.tape.left_the_gate.append((released, scale, distribution))
        return released

    def choose(self, scores, sensitivity):
        self.tape.exact.append(scores)
        self.tape.sigmas.append(self._scale(sensitivity))
        return super().choose(scores, sensitivity)

    def release_steps(self, loop, sensitivity):
        def recorded(add_noise, scale, words):
            same_words = words.copy()
            iterates, directions = loop(add_noise, scale, words)
            for direction in directions:
                drawn = np.zeros(direction.size)  # the noise that it got, rounded
                add_gaussian(drawn, scale, same_words)
                self.tape.exact.append(direction - drawn)
            return iterates, directions

        self.tape.sigmas.append(self._scale(sensitivity))
        return super().release_steps(recorded, sensitivity)


class RecordingOracle(Oracle):
    """Answers as the real one, and keeps what came to the gate, `exact`, the noise's `sigmas`, and what left it."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.exact, self.sigmas, self.left_the_gate = [], [], []

    def _noise_of(self, item):
        return RecordingNoise(item, self._calibrated, self._randomness, self)


class BoundaryBreach(AssertionError):
    """A solver used a value that was never released."""


class Tainted:
    """An unreleased value: whatever is done with it, other than handing it back to the oracle, is a breach."""

    def __init__(self, value):
        object.__setattr__(self, "_Tainted__value", value)

    def __getattribute__(self, name):
        if name in ("__class__", "__dict__", "_Tainted__value"):
            return object.__getattribute__(self, name)
        raise BoundaryBreach(f"an unreleased value was touched ({name})")


def _breach(name):
    def method(self, *_arguments, **_more):
        raise BoundaryBreach(f"an unreleased value was touched ({name})")

    return method


_OPERATIONS = """
    add radd sub rsub mul rmul truediv rtruediv pow neg pos abs matmul rmatmul eq ne lt le gt ge hash bool float int
    index len iter getitem contains call repr str format array array_ufunc array_function round complex reduce_ex copy
"""
for _name in _OPERATIONS.split():
    setattr(Tainted, f"__{_name}__", _breach(_name))


def reveal(value):
    """Open a tainted value; only the oracle below does."""
    return object.__getattribute__(value, "_Tainted__value") if type(value) is Tainted else value


class TaintedOracle(Oracle):
    """Like the real one, but the rows and every sum over them are tainted, but for the time that an answer takes."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self._sums = Tainted(self._sums)
        self.asked = 0

    def _spend(self, item):
        self.asked += 1
        super()._spend(item)

    def ask(self, *question, **more):
        tainted, self._sums = self._sums, reveal(self._sums)
        try:
            return super().ask(*question, **more)
        finally:
            self._sums = tainted


def _blind(function):
    def blind(values, *rest):
        values[:] = 0.0
        return function(values, *rest)

    return blind


class BlindNoise(Noise):
    """A gate that lets nothing but noise out, whatever comes to it."""

    adders: ClassVar = {
        "Gaussian": _blind(add_gaussian),
        "Laplace": _blind(add_laplace),
        "Gamma": _blind(add_radial),
    }
    choosers: ClassVar = {
        "Gumbel": _blind(exponential_choice),
        "Laplace": _blind(laplace_choice),
    }


class BlindOracle(TaintedOracle):
    """Answers that know nothing of the rows: a solver must then do the same on every table."""

    def _noise_of(self, item):
        return BlindNoise(item, self._calibrated, self._randomness)


def _add_given(values, scale, given):
    first = int(given[0])
    values += given[first : first + values.size]
    given[0] = first + values.size


def gate_with(noise):
    """What a loop of steps gets of the gate, with noise that is given instead of drawn."""
    return _add_given, 1.0, np.concatenate([[1.0], np.ravel(noise)])


@dataclass
class Table:
    X: np.ndarray
    y: np.ndarray
    name: str = "base"
    weights: np.ndarray | None = field(default=None)
    groups: np.ndarray | None = field(default=None)


def base_table(seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P))
    return Table(X, rng.integers(0, n_classes, N).astype(float) if n_classes > 2 else np.sign(rng.normal(size=N)))


def hostile_rows():
    """Rows that an attacker would put in: (name, features, target)."""
    unit = np.eye(P)[0]
    return [
        ("aligned", unit, 1.0),
        ("opposed", -unit, 1.0),
        ("wrong label", unit, -1.0),
        ("huge", 1e6 * unit, 1.0),
        ("gigantic", np.full(P, 1e308), 1.0),
        ("almost too large", np.full(P, 1e150), -1.0),
        ("nan", np.full(P, np.nan), 1.0),
        ("one nan", np.where(np.arange(P) == 2, np.nan, 1.0), 1.0),
        ("infinite", np.full(P, -np.inf), 1.0),
        ("zero", np.zeros(P), -1.0),
        ("denormal", np.full(P, 5e-324), 1.0),
        ("float32 overflow", np.full(P, 1e39), 1.0),
        ("nan target", unit, np.nan),
        ("infinite target", unit, np.inf),
        ("gigantic target", unit, 1e308),
        ("gigantic negative target", unit, -1e308),
        ("unknown class", unit, 77.0),
    ]


def neighbours(table, adjacency):
    """The table with one row replaced, or with one row more."""
    for name, x, target in hostile_rows():
        if adjacency is Adjacency.REPLACE_ONE:
            X, y = table.X.copy(), table.y.copy()
            X[0], y[0] = x, target
        else:
            X, y = np.vstack([table.X, x]), np.append(table.y, target)
        yield Table(X, y, name)


def setting_of(problem, adjacency, n=N, n_features=P):
    return Setting(problem.constants(n_features), n, adjacency)


def replay(
    problem, table, adjacency, query, questions, noise=1.0, relative_noise=1.0, seed=3, as_rows=None,
    oracle_type=RecordingOracle, **more,
):  # fmt: skip
    """Ask the query at every tuple of points; return the oracle with its answers and what it computed before noise.

    `noise` is the noise multiplier, None for no noise, or a function that calibrates a plan.
    """
    item = PlannedQuery(query, len(questions), relative_noise)
    plan = Plan("test", (item,), {})
    X = table.X if as_rows is None else as_rows(table.X)
    source = ArraySource(X, table.y, table.weights, table.groups, query.setting.unit)
    calibrated = noise(plan) if callable(noise) else CalibratedPlan(plan, noise)
    with oracle_type(source, problem, query.setting, calibrated, Randomness.from_random_state(seed)) as oracle:
        oracle.answers = [oracle.ask(item, *points, **more) for points in questions]
    return oracle


def record(problem, table, adjacency, points, rate=1.0, seed=3, as_rows=None):
    """Ask for the gradient at every point; return the oracle with what it saw."""
    query = GradientQuery(setting_of(problem, adjacency), rate)
    noise = 1.0 if rate < 1 else lambda plan: calibrate(plan, Guarantee(1.0, 1e-6))
    questions = [(w,) for w in points]
    return replay(problem, table, adjacency, query, questions, noise, seed=seed, as_rows=as_rows), query


def record_differences(problem, table, adjacency, pairs, rate=1.0, **more):
    """The same for the difference of gradients at every pair (w, anchor)."""
    query = DifferenceQuery(setting_of(problem, adjacency), rate)
    return replay(problem, table, adjacency, query, pairs, **more), query


def record_epochs(problem, table, adjacency, pairs, rate=1.0, n_steps=1, share=0.4, step_size=1.0, **more):
    """The same for printed epochs from every pair (start, anchor)."""
    query = PrintedEpochQuery(setting_of(problem, adjacency), rate, n_steps, share)
    return replay(problem, table, adjacency, query, pairs, step_size=step_size, **more), query


def record_steps(problem, table, adjacency, starts, rate=1.0, step_sizes=(1.0,), n_steps=None, **more):
    """The same for stochastic steps from every start; `exact` has the mean of every step."""
    query = StochasticStepsQuery(setting_of(problem, adjacency), rate, n_steps or len(step_sizes))
    questions = [(start,) for start in starts]
    return replay(problem, table, adjacency, query, questions, step_size=np.array(step_sizes), **more), query


def ignored_table(n=N):
    """Rows that are ignored: whatever is answered about them is noise."""
    return Table(np.full((n, P), np.nan), np.ones(n), "ignored")


def only_row(x, target, weight=1.0):
    """One row that counts, followed by rows that do not."""
    table = ignored_table()
    table.X[0], table.y[0] = x, target
    return Table(table.X, table.y, "only", np.full(N, weight))


@dataclass(frozen=True)
class Liar(Loss):
    """Its slope is a billion times what it declares, its sign follows the target: only the kernels bound a row."""

    name = "liar"
    convex = True
    target_range = (-1.0, 1.0)
    value = staticmethod(lambda margin, target: 0.5e9 * target * margin**2)
    derivative = staticmethod(lambda margin, target: 1e9 * target * margin)
    encode = staticmethod(lambda target: np.clip(target, -1.0, 1.0))

    def slope_bound(self, margin_bound):
        return 1.0

    def curvature_bound(self, margin_bound):
        return 0.25

    def check_bounds(self, margin_bound):
        """Would find out."""


def _steep_slopes(margin, target, slope):
    for k in range(slope.shape[0]):
        slope[k] = 1e9 * target * margin[k]


@dataclass(frozen=True)
class VectorLiar(Liar):
    """The same with three outputs."""

    n_outputs = 3
    derivative = staticmethod(_steep_slopes)


def logistic_problem(**more):
    from dperm.problem import L2, Logistic

    return Problem(Logistic(), L2(0.1), **more)
