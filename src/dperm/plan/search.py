"""A search among candidates under one guarantee: trial fits, a choice, and a last fit, planned from public numbers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from typing import cast

from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import COARSE_GRID, gaussian_epsilon, gaussian_mu
from dperm.accounting.events import Composed, Event, Gaussian, Pure, RandomTrials
from dperm.errors import InvalidParameterError, NoiseTooLargeError
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.held_out import HeldOutChoice
from dperm.mechanisms.plan import CalibratedPlan, Planned, plan_of_sums
from dperm.mechanisms.setting import PublicTable
from dperm.plan.beside import plan_beside, share_of
from dperm.plan.fit_plan import FitPlan
from dperm.plan.release_plan import Promise, ReleasePlan, Together
from dperm.plan.verdict import is_mostly_noise
from dperm.privacy.guarantee import ROWS_ALLOWED_PER_DECLARED, SMALLEST_EPSILON, Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit, counted
from dperm.solvers import Solver
from dperm.validation import count, finite, one_of

METHODS = ("composition", "random-trials")

# Trials that are expected where nobody says how many: two for every candidate, and no more than these.
_TRIALS_PER_CANDIDATE, _MOST_TRIALS = 2, 64

# A coin that stops trials must be one that can be tossed exactly (kernel/apart.py).
LARGEST_TRIALS = 2048

# How closely the precision of a trial is found.
_TOLERANCE = 1e-3

# Trials may take a little more than their share, of which the last fit then has less; how often the share is corrected.
_SPARE, _MOST_STEPS = 1.05, 8

# Of one candidate: its index, the guarantee, the number of rows, and for the plan of its fit the solver.
Choose = Callable[[int, Guarantee, int], Solver]
PlanFit = Callable[[int, Guarantee, int, Solver], FitPlan]


@dataclass(frozen=True)
class SearchOptions:
    """How a search is done.

    Attributes
    ----------
    guarantee : Guarantee
        What search and last fit keep together.
    adjacency : Adjacency
        Neighbouring relation: one record replaced, or one added/removed.
    what : str
        The score, in words.
    method : {"auto", "composition", "random-trials"}
        How the trials are accounted for; "auto" takes what leaves more precision for each of them.
    share : float
        About the share of the precision that the search takes.
    held_out : float
        The share of rows that candidates are scored on.
    trials : int or None
        How many random trials are expected.
    unit : PrivacyUnit or None
        Whose rows are protected together, and put apart together: what the candidates declare.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    what: str
    method: str = "auto"
    share: float = 0.25
    held_out: float = 0.25
    trials: int | None = None
    unit: PrivacyUnit | None = None

    @property
    def rows(self) -> str:
        """What n counts, in a word."""
        return counted(self.unit)

    def __post_init__(self) -> None:
        """Degenerate shares are mistakes."""
        one_of("method", self.method, ("auto", *METHODS))
        for name, value in (("share", self.share), ("held_out", self.held_out)):
            if not 0.01 <= finite(name, value) <= 0.99:
                raise InvalidParameterError(f"{name} must lie between 0.01 and 0.99, got {value!r}.")
        if self.trials is not None and count("trials", self.trials) > LARGEST_TRIALS:
            raise InvalidParameterError(f"trials must be at most {LARGEST_TRIALS}, got {self.trials}.")


@dataclass(frozen=True)
class SearchPlan(ReleasePlan):
    """A search that is planned and calibrated, with no row read yet: finding the winner, then fitting it to all rows.

    Attributes
    ----------
    options : SearchOptions
        What was asked for.
    n_train : int
        Of the public rows or units, the part that candidates are tried on.
    trials, refits : tuple of FitPlan
        One for each candidate: to be tried, and to be fitted to all rows if it wins.
    scores : CalibratedPlan
        How the held-out score of all candidates, or of one trial, gets its noise.
    """

    _: KW_ONLY
    options: SearchOptions
    n_train: int
    trials: tuple[FitPlan, ...]
    refits: tuple[FitPlan, ...]
    scores: CalibratedPlan

    @property
    def method(self) -> str:
        """How the trials are accounted for."""
        return "composition" if self.random_trials is None else "random-trials"

    @property
    def random_trials(self) -> int | None:
        """How many of them are expected, None where every candidate is tried."""
        search = self.parts[0]
        return search.expected_trials if isinstance(search, ReleasePlan) else None

    @property
    def n_trials(self) -> int:
        """Fits to a part of the rows: one for each candidate, or so many in the mean."""
        return self.random_trials or len(self.trials)

    @property
    def slots(self) -> tuple[int, int]:
        """Positions that rows are put at, and how many of them are to fit on (kernel/apart.py)."""
        if self.options.adjacency is Adjacency.REPLACE_ONE:
            return self.n, self.n_train
        return tuple(math.floor(ROWS_ALLOWED_PER_DECLARED * rows) + 1 for rows in (self.n, self.n_train))  # type: ignore[return-value]

    @property
    def released(self) -> tuple[str, ...]:
        """What is released, in words."""
        size, trial, refit = len(self.trials), self.trials[0].statement, self.refits[0].statement
        rows = f"{self.options.what} on {self.n - self.n_train} held-out {self.options.rows}"
        scale = self.scores.sigma(self.scores.plan.planned[0])
        if self.method == "composition":
            how = f"after {size} fits with ε = {trial.epsilon:.3g} each; Gumbel noise, scale {scale:.3g}"
        else:
            noise = self.scores.plan.planned[0].query.distribution
            how = (
                f"the best of about {self.n_trials} random trials with ε = {trial.epsilon:.3g} each, how many "
                f"is hidden; {noise} noise, scale {scale:.3g}"
            )
        return (
            f"which of {size} candidates has the least {rows} ({how})",
            f"a fit of the winner to all {self.n} {self.options.rows} (ε = {refit.epsilon:.4g} alone)",
        )

    @cached_property
    def drowned(self) -> tuple[int, ...]:
        """The candidates that are mostly noise in a trial and not in the last fit: trials would not tell what they are.

        From public numbers, as the verdict of a plan.
        """
        pairs = enumerate(zip(self.trials, self.refits, strict=True))
        return tuple(place for place, (trial, refit) in pairs if is_mostly_noise(trial) and not is_mostly_noise(refit))

    def __str__(self) -> str:
        """The statement, marked as a plan, and what it takes."""
        takes = f"about {self.n_trials} fits to {self.n_train} {self.options.rows}, and one to {self.n}"
        return f"{self.privacy}\ntakes:      {takes}\nverdict:    {self.verdict}"

    @cached_property
    def verdict(self) -> str:
        """Whether it is worth it, from public numbers."""
        lost, all_of_them = sum(map(is_mostly_noise, self.refits)), len(self.refits)
        cost = "noise is expected to cost half of the loss of a constant predictor or more"
        if self.drowned:
            return f"doubtful: in the trials of {len(self.drowned)} of {all_of_them} candidates {cost}"
        if lost:
            return f"doubtful: even in the last fit of {lost} of {all_of_them} candidates {cost}"
        return "no trial is expected to lose half of the loss of a constant predictor to noise"


@dataclass(frozen=True)
class _Expected(ReleasePlan):
    """A fit with a pure ε that is not planned yet: its event is known without a plan."""

    @cached_property
    def event(self) -> Event:
        return Pure(self.guarantee.epsilon)


def plan_search(options: SearchOptions, n: int, n_candidates: int, choose: Choose, plan_fit: PlanFit) -> SearchPlan:
    """Find the noise with which trials, choice and last fit together keep the guarantee; no data is touched.

    Parameters
    ----------
    options : SearchOptions
        What is asked for.
    n : int
        The public number of rows, or of units.
    n_candidates : int
        How many there are to choose from.
    choose : callable
        The solver of one of them.
    plan_fit : callable
        Plans the fit of one of them.
    """
    guarantee, adjacency, places = options.guarantee, options.adjacency, range(n_candidates)
    n_train = n - max(1, round(options.held_out * n))
    if n_train < 1:
        raise InvalidParameterError(
            f"{n} {options.rows} cannot be split into {options.rows} to fit on and {options.rows} to score on."
        )
    trials = options.trials or min(_TRIALS_PER_CANDIDATE * n_candidates, _MOST_TRIALS)
    method, precision = cheapest(options, n_candidates, trials)
    part = Promise(None, adjacency, n, options.unit)

    def search_of(fits: Sequence[ReleasePlan], scores: CalibratedPlan) -> ReleasePlan:
        """A row is either fitted on or scored on, so that one of the two shows it."""
        if method == "composition":
            return ReleasePlan(part, (ReleasePlan(part, tuple(fits)), scores), Together.ONE_OF)
        one = ReleasePlan(part, (*fits, scores), Together.ONE_OF)
        return ReleasePlan(part, (one,), Together.RANDOM_TRIALS, expected_trials=trials)

    planned = cache(plan_fit)

    def fits(promised: Guarantee, rows: int, solvers: list[Solver], *, all_planned: bool) -> tuple[ReleasePlan, ...]:
        return tuple(
            planned(place, promised, rows, solver)
            if all_planned or not solver.is_pure(promised)
            else _Expected(replace(part, guarantee=promised), ())
            for place, solver in zip(places, solvers, strict=True)
        )

    tried = guarantee_of(precision, guarantee.delta)
    solvers = [choose(place, tried, n_train) for place in places]
    last = _last(options)
    alone = epsilon_of(last, guarantee.delta, adjacency)
    for _ in range(_MOST_STEPS):
        tried, scores = guarantee_of(precision, guarantee.delta), _scores(options, method, n, n_candidates, precision)
        # Not every fit composes as Gaussians do.
        tries = fits(tried, n_train, solvers, all_planned=False)
        together = Composed((search_of(tries, scores).event, last))
        cost = epsilon_of(together, guarantee.delta, adjacency, COARSE_GRID)
        if cost - alone <= _SPARE * (guarantee.epsilon - alone):
            break
        precision *= max(0.3, ((guarantee.epsilon - alone) / (cost - alone)) ** 0.7)
    plans = fits(tried, n_train, solvers, all_planned=True)
    search = search_of(plans, scores)
    left = share_of(guarantee, 1.0 - options.share)
    solvers = [choose(place, left, n) for place in places]
    for all_planned in (False, True):
        refits = plan_beside(
            search.event, guarantee, adjacency,
            lambda left, known=all_planned: ReleasePlan(  # type: ignore[misc]
                replace(part, guarantee=left), fits(left, n, solvers, all_planned=known), Together.ONE_OF
            ),
            left,
        )  # fmt: skip
        left = refits.guarantee
    return SearchPlan(
        Promise(guarantee, adjacency, n, options.unit), (search, refits), options=options, n_train=n_train,
        trials=cast("tuple[FitPlan, ...]", plans), refits=cast("tuple[FitPlan, ...]", refits.parts), scores=scores,
    )  # fmt: skip


def _last(options: SearchOptions) -> Event:
    """About what the last fit costs, whoever wins: all but the search's share."""
    left = share_of(options.guarantee, 1.0 - options.share)
    if left.delta == 0.0:
        return Pure(left.epsilon)
    return Gaussian(options.adjacency.records_moved / gaussian_mu(left))


def _scores(options: SearchOptions, method: str, n: int, n_candidates: int, precision: float) -> CalibratedPlan:
    """The noise of the held-out scores: what a row may cost that is fitted on, it may cost if it is scored on."""
    table = PublicTable(n, options.adjacency, options.unit)  # fewer rows are held out: rounding is padded for more
    pure = options.guarantee.delta == 0.0
    query: HeldOutChoice | BoundedSum
    if method == "composition":
        query = HeldOutChoice(table, options.what, n_candidates)
        # A range of 2μ has the ρ of a Gaussian with this μ.
        total = precision * n_candidates / 2.0 if pure else precision * math.sqrt(n_candidates)
    else:
        query = BoundedSum(table, options.what, 1, 1.0, True, "Laplace" if pure else "Gaussian")
        total = precision
    return plan_of_sums((Planned(query),)).with_noise(1.0 / total)


def guarantee_of(precision: float, delta: float) -> Guarantee:
    """Of one trial: its μ, or its pure ε."""
    epsilon = precision if delta == 0.0 else gaussian_epsilon(precision, delta)
    if epsilon < SMALLEST_EPSILON:
        raise NoiseTooLargeError("the guarantee is too small for this many candidates; use fewer, or a larger epsilon.")
    return Guarantee(epsilon, delta)


def cheapest(options: SearchOptions, n_candidates: int, trials: int) -> tuple[str, float]:
    """The method, and the precision of one trial: its μ, or its pure ε.

    Both are found for Gaussian trials and a Gaussian last fit that has all but the search's share.
    """
    guarantee, moved = options.guarantee, options.adjacency.records_moved
    if guarantee.delta == 0.0:
        total, size = options.share * guarantee.epsilon, n_candidates
        by_random = options.method == "random-trials" or (options.method == "auto" and size > 3)
        return ("random-trials", total / 3.0) if by_random else ("composition", total / size)
    mu = gaussian_mu(guarantee)
    equal, last = math.sqrt(options.share / n_candidates) * mu, _last(options)

    def keeps(precision: float) -> bool:
        together = Composed((RandomTrials(Gaussian(moved / precision), 1.0 / trials), last))
        return epsilon_of(together, guarantee.delta, options.adjacency, COARSE_GRID) <= guarantee.epsilon

    if options.method == "composition" or (options.method == "auto" and not keeps(equal)):
        return "composition", equal
    high = math.sqrt(options.share) * mu
    low = high
    while not keeps(low):
        low, high = 0.5 * low, low
        if low < 1e-6 * mu:
            raise NoiseTooLargeError("the guarantee leaves nothing for random trials; use method='composition'.")
    while high > low * (1.0 + _TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return "random-trials", low
