"""What every estimator is, in scikit-learn's shape: parameters, plan, fit, what was released."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError
from dperm.files.content import content_of
from dperm.files.described import NotDescribableError
from dperm.files.parameters import parameters_from_dict, parameters_to_dict
from dperm.files.plan_data import own_part, plan_to_dict, solver_from
from dperm.kernel.block import bounded_rows
from dperm.kernel.source import Source
from dperm.kernel.threads import threads_for
from dperm.ledger import Budget
from dperm.models.bounds import by_schema, encoded, names_of, saying_bounds, with_ids
from dperm.models.charged import Charged
from dperm.models.pictured import Pictured
from dperm.models.telling import check_verbose, guarantee_html, progress_bar, tell_plan, tell_release
from dperm.models.units import declared_unit, schema_with_unit, split_groups, unit_parameters, without_ids
from dperm.models.weights import check_given, check_policy
from dperm.plan.fit_plan import FitPlan, Release
from dperm.plan.options import FitOptions, IsSlow, check_schema
from dperm.plan.start import LinearStart
from dperm.plan.transaction import check_budget, check_releasable
from dperm.plan.uncertainty import Uncertainty
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.statement import FitStatement, Promised
from dperm.problem import Problem
from dperm.rows.columns import array_names
from dperm.rows.labels import read_table
from dperm.rows.table import Table, taken
from dperm.schema import Amount, Classes, Schema
from dperm.solvers import Solver
from dperm.validation import agreed_n, count

Array = NDArray[np.float64]


class Reading(NamedTuple):
    """What a fit needs of a table besides its plan.

    Attributes
    ----------
    source : Source
        The rows.
    options : FitOptions
        What is asked for; other than planned only where classes had to be read from the rows.
    facts : dict
        What the statement says of the run.
    """

    source: Source
    options: FitOptions
    facts: dict[str, Any]


def n_scores(n_classes: int) -> int:
    """How many scores tell this many classes apart; none stands for a regression, which predicts one number."""
    return n_classes if n_classes > 2 else 1


@dataclass(eq=False, repr=False)
class PrivateEstimator(Charged, Pictured, BaseEstimator):  # type: ignore[misc]
    """Parameters and steps common to all estimators; see a concrete one for their meaning.

    A new model is a small dataclass: its own parameters as fields, `kind`, `title`, its problem, its prediction, and
    how what was released is kept and stands in a file.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    solver: str | Solver = "auto"
    adjacency: str = "replace_one"
    noise: str | None = "certified"
    accountant: str = "pld"
    n: int | None = None
    schema: Schema | None = None
    bounds: Any = None
    budget: Budget | None = None
    weight_bound: float = 1.0
    private_weights: bool = False
    unit: str | None = None
    max_rows_per_unit: int | None = None
    contribution: str = "limit"
    missing_units: str = "separate"
    n_jobs: int | None = None
    random_state: Any = None
    verbose: bool | int = False
    row_warnings: bool = True

    privacy_: FitStatement = field(init=False)
    event_: Any = field(init=False)
    plan_: dict[str, Any] | None = field(init=False)
    parameters_: dict[str, Any] | None = field(init=False)
    schema_: Schema | None = field(init=False)
    ledger_entry_: dict[str, Any] | None = field(init=False)
    uncertainty_: Uncertainty | None = field(init=False)
    feature_names_in_: NDArray[Any] = field(init=False)
    n_features_in_: int = field(init=False)

    # The model's name in files and on the command line, and in words.
    kind: ClassVar[str]
    title: ClassVar[str]
    # What a schema must declare about the target.
    target_kind: ClassVar[type[Classes] | type[Amount]]
    # Parameters that this model has and others have not; `cli/choices.py` describes them.
    own_parameters: ClassVar[tuple[str, ...]] = ()
    # Those that are code, which no file holds.
    code_parameters: ClassVar[tuple[str, ...]] = ()
    # Whether all of its parameters can be written there.
    on_command_line: ClassVar[bool] = True

    @abstractmethod
    def _problem(self) -> Problem:
        """What a fit with these parameters minimises."""

    @abstractmethod
    def _read(
        self, X: Any, y: Any, options: FitOptions, sample_weight: Any = None, groups: Any = None
    ) -> Reading:  # fmt: skip
        """Check the table and what goes with it, without looking at a value where that is possible."""

    @abstractmethod
    def _move_target(self, column: str, y: Any) -> Classes | Amount:
        """The target that the parameters declare, as a schema's; they then declare none."""

    @abstractmethod
    def _keep_coefficients(self, release: Release, problem: Problem) -> None:
        """Store released coefficients in scikit-learn's shapes and the target's own units."""

    @abstractmethod
    def released_numbers(self) -> dict[str, Any]:
        """The coefficients, as a model file holds them."""

    @abstractmethod
    def take_numbers(self, content: dict[str, Any], n_columns: int) -> None:
        """Read back what `released_numbers` gave, for rows of this many entries; raise if they do not fit together."""

    def options(self) -> FitOptions:
        """What a fit with these parameters is asked to do; raises if one of them is wrong, before any row is read."""
        if self.bounds is not None:
            raise InvalidParameterError("bounds are for fit and plan; here pass a schema with the columns x0, x1, ….")
        if self.schema is not None:
            self._check_schema(check_schema(self.schema))
        check_policy(self)
        check_verbose(self.verbose)
        threads_for(self.n_jobs)
        check_releasable(self.budget, self.random_state)
        schema = schema_with_unit(self)
        if schema is not None and schema.unit is not None and self.n is not None:
            schema = replace(schema, n=self.n)  # by which a source knows an empty line for a unit
        return FitOptions(
            self._problem(),
            guarantee=None if self.noise is None else Guarantee(self.epsilon, self.delta),
            solver=self.solver,
            adjacency=self.adjacency,
            noise=self.noise,
            accountant=self.accountant,
            n=self.n,
            schema=schema,
            unit=declared_unit(self) if self.schema is None else None,
            start=self._linear_start(),
            **self._rules(),
        )

    def _linear_start(self) -> LinearStart | None:
        """Where a linear model begins, if the user says so."""
        return None

    def _rules(self) -> dict[str, Any]:
        """What the plan finds by rule, and what it asks besides: options of `FitOptions`."""
        return {}

    def _check_schema(self, schema: Schema) -> None:
        if not isinstance(schema.target, self.target_kind):
            needed, has = ("classes", "a range") if self.target_kind is Classes else ("a range", "classes")
            raise InvalidParameterError(f"{self.title} needs a schema whose target has {needed}; this one's has {has}.")

    def plan(
        self, n: int | None = None, n_features: int | None = None, *, is_slow: IsSlow | None = None
    ) -> FitPlan:  # fmt: skip
        """The noise and the cost of a fit, from public numbers alone.

        Parameters
        ----------
        n, n_features : int
            Shape of the table that would be fitted; a schema may declare n, and knows the number of columns. With a
            unit, n is the number of units.
        is_slow : callable, optional
            Of the source that would be fitted, its `is_slow`: "auto" then counts passes.

        Examples
        --------
        >>> from dperm import PrivateLogisticRegression
        >>> PrivateLogisticRegression(epsilon=1.0).plan(n=200_000, n_features=54).solver.name
        'dp-objective'
        """
        if self.bounds is None:
            return self._options_with(n).plan(n, n_features, is_slow)
        with saying_bounds():
            asked: Self = by_schema(self, array_names(count("n_features", n_features)))
            return asked.plan(n, n_features, is_slow=is_slow)

    def _options_with(self, n: int | None) -> FitOptions:
        """What a fit is asked to do, if this is not another n than the declared one."""
        options = self.options()
        agreed_n(options.declared_n, n)
        return options

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, *,
        plan: FitPlan | None = None, save: Callable[[Self], object] | None = None,
    ) -> Self:  # fmt: skip
        """Fit on sensitive rows and keep only what may be released.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (rows, columns)
            Rows are clipped to `row_norm`, or their columns scaled by `bounds`; one with a value that is not finite
            is ignored. With a schema whatever `dperm.rows.Table` takes, or such a table with settings of its own: a
            pandas, polars or Arrow table, files (a path, a pattern with `*`, a folder, a pyarrow dataset), a Dask data
            frame.
        y : array of shape (rows,)
            Targets: labels, of which one that is not among `classes` drops its row, or numbers, which are
            clipped. With a schema by default the table's own target column.
        sample_weight : array of shape (rows,), or str
            A weight for every row, of at most `weight_bound`; the mean of the weighted losses is over n, not over the
            sum of the weights. With a schema also the name of a column of the table.
        groups : array of shape (rows,)
            The id of every row's `unit`, for rows without a schema; by default the column of that name of a data frame.
        plan : FitPlan, optional
            What `plan` returned for these parameters, so that it is not made again.
        save : callable, optional
            Called with the fitted model before the ledger is told of it: what was accounted for is on disk first.

        Returns
        -------
        self
        """
        if self.bounds is not None:
            return self._fit_by_schema(X, y, sample_weight, groups, plan, save)
        options = self.options()
        if plan is not None and plan.options != options:
            raise InvalidParameterError("the plan was made for other parameters; call plan(n, n_features) again.")
        X = self._taken(X, y)
        check_given(self, X, sample_weight)
        X, groups = split_groups(self, X, groups)
        if sample_weight is not None and options.intervals:  # scores then vary by another law than curvatures say
            raise InvalidParameterError("intervals cannot be combined with sample_weight.")
        plan = plan or self._plan_by_shape(options, X)
        if plan is not None:
            check_budget(plan, self.budget)  # refused before a label is read
        self.forget()
        source, options, facts = self._read(X, y, options, sample_weight, groups)
        if plan is None or plan.options != options:
            if source.unit is not None and source._n_units == 0:
                raise InvalidParameterError(f"no row has a usable {source.unit.name!r}.")
            plan = options.plan(source._n_units, source.n_features, source.is_slow)
        self._describe(plan, must=save is not None)
        tell_plan(self, plan, facts.get("caveats", ()))
        with plan.transaction(source, self.budget, self.random_state) as transaction:
            with progress_bar(self) as progress:
                release = plan.answer(transaction, progress, self.row_warnings, self.n_jobs)
            self._keep(release, plan.problem, facts)
            transaction.write(self, lambda: str(content_of(self)["fingerprint"]), save)
        tell_release(self, release)
        return self

    def _fit_by_schema(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, plan: FitPlan | None,
        save: Callable[[Self], object] | None,
    ) -> Self:  # fmt: skip
        """A fit with bounds is that of the schema that they stand for."""
        asked = by_schema(self, names_of(self, X), y)
        if y is None:
            raise InvalidParameterError("bounds require y: fit(X, y).")

        def take_over(fitted: Self) -> None:
            self.forget()
            for name in [name for name in vars(fitted) if name.endswith("_")]:
                setattr(self, name, getattr(fitted, name))
            if save is not None:
                save(self)

        with saying_bounds():
            asked.fit(with_ids(self, X, groups), y, sample_weight, plan=plan, save=take_over)
        return self

    @property
    def partial_fit(self) -> Any:
        """Not there: every call would be another release from the same rows."""
        raise AttributeError(
            f"{type(self).__name__} has no partial_fit: every call would be a further release; call fit once, or "
            "several times with budget=Budget(...), which accounts for all of them."
        )

    def _taken(self, X: Any, y: Any) -> Any:
        """A table in memory as it is, any other as a source of rows of which nothing is opened yet."""
        X = taken(X)
        if not isinstance(X, Table):
            return X
        if self.schema is None:
            raise InvalidParameterError("files and clusters require a schema: pass schema=.")
        return X.source(y)

    def _plan_by_shape(self, options: FitOptions, X: Any) -> FitPlan | None:
        """The plan from public numbers and the shape of X, None where they do not suffice; no value is looked at."""
        if options.declared_n is None and (isinstance(X, Source) or options.protected_unit is not None):
            return None
        if isinstance(X, Source):
            return options.plan(is_slow=X.is_slow)
        shape = getattr(X, "shape", ())
        return options.plan(*shape) if len(shape) == 2 and min(shape) > 0 else None

    def _keep(self, release: Release, problem: Problem, facts: dict[str, Any]) -> None:
        """Store what was released, and nothing else."""
        caveats = (*release.privacy.caveats, *facts.pop("caveats", ()))
        started = getattr(self, "start", None) is not None
        self.privacy_ = replace(release.privacy, **facts, caveats=caveats, public_start=started)
        self.event_, self.schema_ = release.event, release.schema
        if self.schema_ is not None:
            self.feature_names_in_ = np.asarray(list(self.schema_.columns), dtype=object)
            self.n_features_in_ = len(self.schema_.columns)
        self.ledger_entry_ = release.ledger_entry
        self.uncertainty_ = release.uncertainty
        self._keep_coefficients(release, problem)

    def encode(self, X: Any) -> Any:
        """The rows that the coefficients belong to, as in the fit: a table encoded by the schema, or X, clipped.

        Rows longer than the declared bound are scaled down to it, as the fit scales its own.

        Parameters
        ----------
        X : table or array
            What `predict` takes.
        """
        check_is_fitted(self, "privacy_")
        bounds = self.privacy_.row_norm, self.privacy_.entry_bound
        if self.schema_ is not None:
            return encoded(X, self.schema_, *bounds)
        rows = read_table(self, without_ids(self, X), fitting=False)
        return rows if bounds[0] == math.inf else bounded_rows(rows, *bounds)

    def _by_partition(self, X: Any, like: NDArray[Any]) -> Any:
        """`predict` for the partitions of a Dask frame, as a Dask series; nothing is computed yet."""
        import pandas as pd

        meta = pd.Series(like, index=X._meta.index, name="prediction")
        return X.map_partitions(_predict_partition, self, meta=meta, enforce_metadata=False)

    def _describe(self, plan: FitPlan, *, must: bool) -> None:
        """Write down what will run, for a file; where that is not possible and a file is wanted, raise."""
        self.plan_ = self.parameters_ = None
        try:
            self.plan_, self.parameters_ = plan_to_dict(plan), parameters_to_dict(self, plan.schema)
        except NotDescribableError:
            if must:
                raise

    def description(self) -> dict[str, Any]:
        """What a file says of parameters that it cannot hold."""
        return {}

    @classmethod
    def from_description(cls, values: dict[str, Any], n_outputs: int) -> dict[str, Any]:
        """Parameters with which the same fit is planned, from those of a file and the number of its scores."""
        return values

    def as_asked(self) -> Self:
        """A fresh estimator with the parameters of the fit, from a file as well: it plans what ran.

        Its solver is the one that ran, whether it was named or chosen.
        """
        check_is_fitted(self, "privacy_")
        if self.privacy_.noise != "certified":
            raise InvalidParameterError("the fit cannot be replanned: its noise is not certified.")
        if self.plan_ is None:
            raise InvalidParameterError("the fit cannot be replanned: the model does not describe it as plain data.")
        n_outputs = n_scores(len(getattr(self, "classes_", ())))
        try:
            asked = self.parameters_of_fit()
        except (ValueError, KeyError, TypeError, AttributeError):  # of a file that somebody has written
            raise InvalidParameterError("the fit cannot be replanned: its description is invalid.") from None
        return type(self)(**self.from_description(asked, n_outputs))

    def parameters_of_fit(self) -> dict[str, Any]:
        """What the fit was asked to do as far as its file says: parameters of the estimator, from what was released."""
        statement, unit = self.privacy_, self.privacy_.unit
        found: dict[str, Any] = {}
        if self.plan_ is not None:
            found = parameters_from_dict(self.parameters_) | {"solver": solver_from(own_part(self))}
        found |= {"adjacency": statement.adjacency, "noise": None}
        if math.isfinite(statement.epsilon):  # there was noise
            found |= {"epsilon": statement.epsilon, "delta": statement.delta, "noise": statement.noise}
        schema = found.pop("schema", self.schema_)
        if schema is not None:
            return found | {"schema": replace(schema, unit=unit)}
        if hasattr(self, "classes_"):
            found["classes"] = self.classes_.tolist()
        return found | unit_parameters(unit)

    def diagnose(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Any:
        """Linear models can be diagnosed."""
        raise InvalidParameterError(f"there is no diagnosis of a {self.title}: it is for linear models.")

    def summary(self, level: float = 0.95) -> Any:
        """Linear models have coefficients to sum up."""
        raise InvalidParameterError(f"there is no summary of a {self.title}: its single weights have no meaning.")

    def to_sklearn(self) -> Any:
        """A plain scikit-learn estimator that predicts the same, for rows as they were fitted.

        With a schema of a table's columns that is for rows as `encode` returns them.
        """
        raise InvalidParameterError(f"scikit-learn has no estimator that predicts as {self.title} does.")

    @property
    def promised(self) -> Promised:
        """The guarantee that covers the model, including the search that selected it."""
        search = getattr(self, "search_", None)
        if search is None:
            return Promised(self.privacy_, self.event_)
        note = f"for the search and the last fit together; the last fit alone has ε = {self.privacy_.epsilon:.4g}"
        return Promised(search.statement, search.event, note)

    def _html_repr(self) -> str:
        """scikit-learn's diagram for notebooks, and below it what is promised or, once fitted, the statement."""
        if not hasattr(self, "privacy_"):
            return str(super()._html_repr()) + guarantee_html(self)
        statement, _, note = self.promised
        told = f"<p>This is promised {note}.</p>" if note else ""
        return str(super()._html_repr()) + statement._repr_html_() + told

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are accepted, missing values are bounded, and noise may lower any score."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags


def _predict_partition(frame: Any, model: PrivateEstimator) -> Any:
    import pandas as pd

    return pd.Series(model.predict(frame), index=frame.index, name="prediction")  # type: ignore[attr-defined]
