"""A search among models under one guarantee."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError, NoiseTooLargeError, PlanExceededError
from dperm.files.content import content_of
from dperm.files.described import NotDescribableError
from dperm.files.plan_data import plan_to_dict
from dperm.files.search_record import SearchRecord
from dperm.kernel.noise import seed_from
from dperm.ledger import Budget
from dperm.models.base import Array, PrivateEstimator
from dperm.models.candidates import SCORES, Candidates, read_candidates
from dperm.models.charged import Charged
from dperm.models.trials import Trials
from dperm.plan.fit_plan import FitPlan
from dperm.plan.search import SearchOptions, SearchPlan, plan_search
from dperm.plan.transaction import Transaction, check_budget, check_releasable, undeclared_n
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.statement import PrivacyStatement
from dperm.rows.cells import as_rows, number_table
from dperm.solvers import Solver
from dperm.validation import agreed_n, count


def _has(name: str) -> Callable[["PrivateSearch"], bool]:
    """Whether the model that won, or the first candidate, has a method."""

    def check(search: "PrivateSearch") -> bool:
        model = getattr(search, "best_estimator_", None) or search._first()
        return hasattr(model, name)

    return check


@dataclass(eq=False, repr=False)
class PrivateSearch(Charged, BaseEstimator):  # type: ignore[misc]
    """Select a model by a private score on held-out rows and refit the winner, all under one (ε, δ).

    Rows are split at random: candidates are fitted on one part and scored on the other. The winner is fitted on all
    rows with the remaining budget. The whole search is reserved in the ledger once, before a row is read.
    See docs/search.md.

    Parameters
    ----------
    estimator : estimator of dperm
        The model that `param_grid` varies. Its own ε, budget, n and seed are not used.
    param_grid : dict or list of dict
        As in scikit-learn's `GridSearchCV`.
    epsilon, delta : float
        The guarantee of search and final fit together.
    candidates : list of estimators
        Instead of an estimator and a grid: models of different losses, encodings, solvers.
    scoring : {"auto", "accuracy", "log_loss", "squared_error"}
        Score on held-out rows. "squared_error" is the Brier score of a classifier's probabilities; "auto" uses it, or
        the accuracy if a candidate has no probabilities.
    method : {"auto", "composition", "random-trials"}
        Fit every candidate and choose by noisy max, or keep the best of a random number of trials; "auto" takes the
        one that leaves more precision for each trial.
    share : float
        Approximate share of the precision (μ²) spent on the search.
    held_out : float
        Share of rows held out for scoring.
    trials : int, optional
        Expected number of random trials.
    noisy_trials : bool
        Search even if noise is expected to dominate a trial but not the final fit. Such a search mostly costs more than
        it gains; by default it is refused, with nothing spent.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    n : int, optional
        The public number of rows, or of privacy units if the candidates declare one (`unit`, `max_rows_per_unit`,
        `contribution`, `missing_units`). All rows of a unit are then on the same side of the split.
    budget : Budget, optional
        The dataset's budget in a ledger.
    random_state : int, optional
        Seed. Makes the search reproducible, and the result not for release.
    row_warnings : bool
        As in the estimators, for the final fit.

    Attributes
    ----------
    best_index_, best_params_ : int, dict
        The winner.
    best_estimator_ : estimator
        The winner, fitted to all rows; its `privacy_` covers that fit alone, its `search_` everything.
    privacy_ : PrivacyStatement
        The guarantee of everything together.
    event_ : Event
        The accounting event of everything.
    ledger_entry_ : dict or None
        The one entry in the ledger.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLogisticRegression, PrivateSearch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(8000, 3)) / 3; y = X[:, 0] > 0
    >>> search = PrivateSearch(PrivateLogisticRegression(), {"penalty": [1.0, 1e-3]}, epsilon=1.0, delta=1e-6)
    >>> search.fit(X, y).best_params_
    {'penalty': 0.001}
    """

    estimator: PrivateEstimator | None = None
    param_grid: Any = None
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-5
    candidates: Any = None
    scoring: str = "auto"
    method: str = "auto"
    share: float = 0.25
    held_out: float = 0.25
    trials: int | None = None
    noisy_trials: bool = False
    adjacency: str = "replace_one"
    n: int | None = None
    budget: Budget | None = None
    random_state: Any = None
    row_warnings: bool = True

    best_index_: int = field(init=False)
    best_params_: dict[str, Any] = field(init=False)
    best_estimator_: PrivateEstimator = field(init=False)
    privacy_: PrivacyStatement = field(init=False)
    event_: Any = field(init=False)
    ledger_entry_: dict[str, Any] | None = field(init=False)

    def plan(self, n: int | None = None, n_features: int | None = None) -> SearchPlan:
        """What the search would cost, from public numbers alone.

        Parameters
        ----------
        n, n_features : int
            Shape of the table; a schema may declare n, and knows the number of columns.
        """
        candidates = self._read()
        return self._plan(candidates, agreed_n(candidates.declared_n(self.n), n), n_features)

    def check(self) -> None:
        """Raise if a parameter is wrong, whatever the table; nothing is planned or read."""
        self._options(self._read())

    def _read(self) -> Candidates:
        check_releasable(self.budget, self.random_state)
        adjacency = Adjacency.parse(self.adjacency)
        return read_candidates(self.estimator, self.param_grid, self.candidates, adjacency.value, self.scoring)

    def _options(self, candidates: Candidates) -> SearchOptions:
        return SearchOptions(
            Guarantee(self.epsilon, self.delta), Adjacency.parse(self.adjacency), SCORES[candidates.score],
            self.method, self.share, self.held_out, self.trials, candidates.unit,
        )  # fmt: skip

    def _plan(self, candidates: Candidates, n: int | None, n_features: int | None) -> SearchPlan:
        options = self._options(candidates)

        n = count("n", n)

        def choose(place: int, guarantee: Guarantee, rows: int) -> Solver:
            return candidates.chosen_solver(place, guarantee, rows, n_features)

        def plan_fit(place: int, guarantee: Guarantee, rows: int, solver: Solver) -> FitPlan:
            return candidates.plan(place, guarantee, rows, n_features, solver)

        return plan_search(options, n, len(candidates), choose, plan_fit)

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, *, save: Callable[[PrivateEstimator], object] | None = None
    ) -> Self:  # fmt: skip
        """Search on sensitive rows, fit the winner, and keep only what may be released.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (rows, columns)
            With a schema a pandas, polars or Arrow table, or whatever `dperm.rows.Table` takes: files and Dask frames
            are read into memory.
        y : array of shape (rows,)
            As of the estimators.
        groups : array of shape (rows,)
            As of the estimators: the id of every row's unit, for rows without a schema.
        save : callable, optional
            Called with the fitted winner before the ledger is told of it.

        Returns
        -------
        self
        """
        candidates = self._read()
        X = candidates.in_memory(X)
        X, groups = candidates.split_groups(as_rows(X, majority=candidates.unit is None), groups)
        if candidates.models[0].schema is None:  # what most cells of a column are is decided once, by all rows
            X = number_table(X, majority=candidates.unit is None)
        candidates.with_classes(y)
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if len(shape) != 2 or min(shape) < 1:
            raise InvalidParameterError("a search needs a table with at least one row and one column.")
        declared = candidates.declared_n(self.n)
        membership = candidates.membership(X, groups, shape[0])
        found = shape[0] if membership is None else membership.n
        n = found if declared is None else declared
        plan = self._plan(candidates, n, shape[1])
        if plan.drowned and not self.noisy_trials:
            raise NoiseTooLargeError(
                f"noise would hide {candidates.name(plan.drowned[0])} in its trial (ε = "
                f"{plan.trials[0].statement.epsilon:.2g}) but not in the final fit, so noise would decide the "
                "search: use fewer candidates, a larger epsilon, or noisy_trials=True to search anyway."
            )
        check_budget(plan, self.budget)  # refused before a label is read
        told = self._described(plan, must=save is not None)
        candidates.check_table(X, y, groups)
        self.forget()
        with Transaction(plan, self.budget, self.random_state, found=found, unit=candidates.unit) as transaction:
            seed = None if self.random_state is None else seed_from(self.random_state)
            run = Trials(plan, candidates, seed)
            winner = run.winner(X, y, membership)
            # An n that nobody declared is public under replace_one, and a caveat of the fit under add_remove.
            public = declared if undeclared_n(plan.options.adjacency, candidates.unit) else n
            refit = plan.refits[winner]
            model = candidates.built(winner, refit.guarantee, public, run.next_seed(), refit.solver)
            model.row_warnings = self.row_warnings
            model.fit(X, y, groups=groups, plan=None if public is None else refit)
            if model.event_ != refit.event:
                raise PlanExceededError("the last fit is not the one that was planned.")
            statement = plan.statement.of_run(seeded=seed is not None, caveats=model.privacy_.caveats)
            model.search_ = SearchRecord(statement, plan.event, winner, len(candidates), plan.n - plan.n_train)
            model.plan_ = told
            model.ledger_entry_ = transaction.ledger_entry
            self.best_index_, self.best_params_, self.best_estimator_ = winner, candidates.params[winner], model
            self.privacy_, self.event_, self.ledger_entry_ = statement, plan.event, model.ledger_entry_
            transaction.write(model, lambda: str(content_of(model)["fingerprint"]), save)
        return self

    @staticmethod
    def _described(plan: SearchPlan, *, must: bool) -> dict[str, Any] | None:
        """The plan as plain data, as of the estimators."""
        try:
            return plan_to_dict(plan)
        except NotDescribableError:
            if must:
                raise
        return None

    def _first(self) -> Any:
        return self.estimator if self.candidates is None else next(iter(self.candidates), None)

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, of a search among classifiers."""
        return np.asarray(self._best().classes_)

    @property
    def n_features_in_(self) -> int:
        """Columns of the table that was fitted."""
        return int(self._best().n_features_in_)

    def predict(self, X: Any) -> Array:
        """What the winner predicts."""
        return self._best().predict(X)  # type: ignore[no-any-return]

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probability of every class, by the winner."""
        return self._best().predict_proba(X)  # type: ignore[no-any-return]

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """The winner's scores."""
        return self._best().decision_function(X)  # type: ignore[no-any-return]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The winner's accuracy or R². Of sensitive rows it is a fact about them, which no guarantee covers."""
        return float(self._best().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Those of the first candidate."""
        tags = super().__sklearn_tags__()
        first = self._first()
        if isinstance(first, PrivateEstimator):
            theirs = get_tags(first)
            tags.estimator_type, tags.classifier_tags = theirs.estimator_type, theirs.classifier_tags
            tags.regressor_tags, tags.input_tags = theirs.regressor_tags, theirs.input_tags
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags
