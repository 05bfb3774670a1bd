"""A generalized linear model in scikit-learn's shape: parameters, plan, fit, released coefficients."""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.guarantee import Guarantee
from dperm.accounting.ledger import Budget
from dperm.errors import InvalidParameter
from dperm.planning.fit_plan import FitPlan, Release, check_releasable
from dperm.planning.options import FitOptions, IsSlow, check_schema
from dperm.problem import Problem
from dperm.problem.domains import Domain, WholeSpace
from dperm.problem.losses import Loss
from dperm.problem.regularizers import L1, L2, NoRegularizer, Regularizer
from dperm.progress import ProgressBar
from dperm.release.content import content_of
from dperm.release.parameters import parameters_to_dict
from dperm.release.statement import PrivacyStatement
from dperm.schema import Amount, Classes, Schema
from dperm.solvers import Solver
from dperm.trusted.sources import Source, is_streamed, source_of
from dperm.trusted.sources.encoding import encode_rows
from dperm.trusted.sources.labels import read_table
from dperm.validation import one_of, positive

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


def read_penalty(penalty: object) -> Regularizer:
    """The regularizer that a penalty names; the strength of one that is named by a word is found by rule.

    Parameters
    ----------
    penalty : Regularizer, float, "auto", "l2", "l1" or None
        A number is the strength of an l2 penalty, and 0 stands for none.
    """
    if isinstance(penalty, Regularizer):
        return penalty
    if penalty is None or (isinstance(penalty, int | float) and not isinstance(penalty, bool) and penalty == 0):
        return NoRegularizer()
    if isinstance(penalty, str):
        return L1() if one_of("penalty", penalty, ("auto", "l2", "l1")) == "l1" else L2()
    if isinstance(penalty, int | float) and not isinstance(penalty, bool):
        return L2(positive("penalty", penalty))
    raise InvalidParameter(
        f"penalty must be 'auto', 'l2', 'l1', a number, a dperm Regularizer or None, got {penalty!r}."
    )


@dataclass(eq=False, repr=False)
class PrivateGLM(BaseEstimator):  # type: ignore[misc]
    """Parameters and steps common to all estimators; see a concrete one for their meaning.

    A new model is a small dataclass: its own parameters as fields, `kind`, `title`, its loss and its prediction.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    penalty: Regularizer | float | str | None = "auto"
    domain: Domain | None = None
    solver: str | Solver = "auto"
    row_norm: float = 1.0
    entry_bound: float | None = None
    fit_intercept: bool = True
    adjacency: str = "replace_one"
    noise: str | None = "certified"
    accountant: str = "pld"
    n: int | None = None
    schema: Schema | None = None
    budget: Budget | None = None
    random_state: Any = None
    verbose: bool = False
    row_warnings: bool = True

    coef_: Array = field(init=False)
    intercept_: Any = field(init=False)
    privacy_: PrivacyStatement = field(init=False)
    event_: Any = field(init=False)
    parameters_: dict[str, Any] | None = field(init=False)
    schema_: Schema | None = field(init=False)
    ledger_entry_: dict[str, Any] | None = field(init=False)
    feature_names_in_: NDArray[Any] = field(init=False)
    n_features_in_: int = field(init=False)

    # The model's name in files and on the command line, and in words.
    kind: ClassVar[str]
    title: ClassVar[str]
    # What a schema must declare about the target.
    target_kind: ClassVar[type[Classes] | type[Amount]]
    # Parameters that this model has and others have not, with a line for the command line's help.
    own_parameters: ClassVar[dict[str, str]] = {}

    @abstractmethod
    def _problem(self) -> Problem:
        """What a fit with these parameters minimises."""

    @abstractmethod
    def _read(self, X: Any, y: Any, options: FitOptions) -> Reading:
        """Check the table and the target, without looking at a value where that is possible."""

    @abstractmethod
    def _keep_coefficients(self, matrix: Array, intercepts: Array, release: Release) -> None:
        """Store released coefficients, one row per output, in scikit-learn's shapes and the target's own units."""

    @property
    def _bounded_norm(self) -> float:
        """The norm that rows are clipped to: the schema's, or the declared one."""
        return positive("row_norm", self.row_norm) if self.schema is None else self.schema.bound

    def _problem_with(self, loss: Loss, domain: Domain | None = None, weight_bound: float = 1.0) -> Problem:
        """The problem of this loss; `domain` is the model's own default."""
        default = WholeSpace() if domain is None else domain
        return Problem(
            loss=loss,
            regularizer=read_penalty(self.penalty),
            domain=default if self.domain is None else self.domain,
            row_norm=self._bounded_norm,
            intercept=bool(self.fit_intercept),
            weight_bound=weight_bound,
            entry_bound=self.entry_bound if self.schema is None else 1.0,
        )

    def options(self) -> FitOptions:
        """What a fit with these parameters is asked to do; raises if one of them is wrong, before any row is read."""
        if self.schema is not None:
            self._check_schema(check_schema(self.schema))
        check_releasable(self.budget, self.random_state)
        return FitOptions(
            self._problem(),
            guarantee=None if self.noise is None else Guarantee(self.epsilon, self.delta),
            solver=self.solver,
            adjacency=self.adjacency,
            noise=self.noise,
            accountant=self.accountant,
            n=self.n,
            schema=self.schema,
            strength_by_rule=isinstance(self.penalty, str),
            scaled_constant=True,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters; with `deep` also the numbers of a penalty object, as `penalty__strength`."""
        values: dict[str, Any] = super().get_params(deep)
        if deep and isinstance(self.penalty, Regularizer) and is_dataclass(self.penalty):
            values |= {f"penalty__{part.name}": getattr(self.penalty, part.name) for part in fields(self.penalty)}
        return values

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `penalty__strength` and the like make a new penalty object."""
        numbers = {name: params.pop(name) for name in list(params) if name.startswith("penalty__")}
        super().set_params(**params)
        if numbers:
            known = self.get_params()
            unknown = [name for name in numbers if name not in known]
            if unknown:
                raise InvalidParameter(f"{unknown[0]!r} is no parameter of the penalty {self.penalty!r}.")
            changed = {name.removeprefix("penalty__"): value for name, value in numbers.items()}
            self.penalty = replace(self.penalty, **changed)  # type: ignore[type-var]
        return self

    def _check_schema(self, schema: Schema) -> None:
        if not isinstance(schema.target, self.target_kind):
            needed, has = ("classes", "a range") if self.target_kind is Classes else ("a range", "classes")
            raise InvalidParameter(f"{self.title} needs a schema whose target has {needed}; this one's has {has}.")
        if self.row_norm != 1.0 or self.entry_bound is not None:
            raise InvalidParameter("with a schema leave row_norm and entry_bound out: it declares the bounds.")

    def plan(
        self, n: int | None = None, n_features: int | None = None, *, is_slow: IsSlow | None = None
    ) -> FitPlan:  # fmt: skip
        """The noise and the cost of a fit, from public numbers alone.

        Parameters
        ----------
        n, n_features : int
            Shape of the table that would be fitted; a schema may declare n, and knows the number of columns.
        is_slow : callable, optional
            Of the source that would be fitted, `FileSource.is_slow` for instance: "auto" then counts passes.

        Examples
        --------
        >>> from dperm import PrivateLogisticRegression
        >>> PrivateLogisticRegression(epsilon=1.0).plan(n=200_000, n_features=54).solver.name
        'dp-objective'
        """
        options = self.options()
        if n is not None and options.declared_n not in (None, n):
            raise InvalidParameter(
                f"n = {options.declared_n} is declared already, and n = {n} was given: leave one out."
            )
        return options.plan(n, n_features, is_slow)

    def fit(
        self, X: Any, y: Any = None, *, plan: FitPlan | None = None, save: Callable[[Self], object] | None = None
    ) -> Self:
        """Fit on sensitive rows and keep only what may be released.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (rows, columns)
            Rows are clipped to `row_norm`; one with a value that is not finite is ignored. With a schema, a pandas,
            polars or Arrow table, files (a path, a pattern with `*`, a folder, a pyarrow dataset), a Dask data frame,
            or a `FileSource` or `ClusterSource` with settings of its own.
        y : array of shape (rows,)
            Targets: labels, of which one that is not among `classes` makes its row ignored, or numbers, which are
            clipped. With a schema by default the table's own target column.
        plan : FitPlan, optional
            What `plan` returned for these parameters, so that it is not made again.
        save : callable, optional
            Called with the fitted model before the ledger is told of it: what was accounted for is on disk first.

        Returns
        -------
        self
        """
        options = self.options()
        if plan is not None and plan.options != options:
            raise InvalidParameter("the plan was made for other parameters; make it again with plan(n, n_features).")
        if is_streamed(X):
            if self.schema is None:
                raise InvalidParameter("rows in files or on a cluster are read by a schema: give the model one.")
            X = source_of(X, y)  # nothing is opened yet
        plan = plan or self._plan_by_shape(options, X)
        if plan is not None:
            plan.check_budget(self.budget)  # refused before a label is read
        self._forget()
        source, options, facts = self._read(X, y, options)
        if plan is None or plan.options != options:
            plan = options.plan(source.n_rows, source.n_features, source.is_slow)
        self.parameters_ = parameters_to_dict(self, plan.solver)
        with ProgressBar(type(self).__name__) if self.verbose else nullcontext() as progress:
            release = plan.run(
                source, budget=self.budget, random_state=self.random_state, progress=progress,
                row_warnings=self.row_warnings,
            )  # fmt: skip
        entry = release.reservation
        with nullcontext() if entry is None else entry.noted():
            self._keep(release, plan.problem, facts)
            if save is not None:
                save(self)
            if entry is not None:
                entry.settle(content_of(self)["fingerprint"])
        return self

    def _plan_by_shape(self, options: FitOptions, X: Any) -> FitPlan | None:
        """The plan from public numbers and the shape of X, None where they do not suffice; no value is looked at."""
        if isinstance(X, Source):
            return None if options.declared_n is None else options.plan(is_slow=X.is_slow)
        shape = getattr(X, "shape", ())
        return options.plan(*shape) if len(shape) == 2 and min(shape) > 0 else None

    def _forget(self) -> None:
        """Drop an earlier fit, so that a failing one does not leave a mixture."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _keep(self, release: Release, problem: Problem, facts: dict[str, Any]) -> None:
        """Store what was released, and nothing else."""
        matrix, constant = release.w.reshape(problem.loss.n_outputs, -1), problem.intercept_value
        columns = matrix[:, :-1] if problem.intercept else matrix
        intercepts = constant * matrix[:, -1] if problem.intercept else np.zeros(problem.loss.n_outputs)
        caveats = (*release.privacy.caveats, *facts.pop("caveats", ()))
        self.privacy_ = replace(release.privacy, **facts, caveats=caveats)
        self.event_, self.schema_, entry = release.event, release.schema, release.reservation
        if self.schema_ is not None:
            self.feature_names_in_ = np.asarray(list(self.schema_.columns), dtype=object)
            self.n_features_in_ = len(self.schema_.columns)
        self.ledger_entry_ = (
            None
            if entry is None
            else {
                "dataset": entry.budget.dataset,
                "number": entry.number,
                "digest": entry.digest,
                "fixed_in_advance": entry.fixed_in_advance,
            }
        )
        self._keep_coefficients(columns.copy(), intercepts, release)

    def encode(self, X: Any) -> Any:
        """The rows that the coefficients belong to: a table encoded by the schema, or X itself without one.

        Parameters
        ----------
        X : table or array
            What `predict` takes.
        """
        check_is_fitted(self, "coef_")
        if self.schema_ is None:
            return read_table(self, X, fitting=False)
        return encode_rows(X, self.schema_, fitting=False)

    def _margins(self, X: Any) -> Array:
        return np.asarray(self.encode(X) @ np.atleast_2d(self.coef_).T + self.intercept_)

    def _by_partition(self, X: Any, like: NDArray[Any]) -> Any:
        """`predict` for the partitions of a Dask frame, as a Dask series; nothing is computed yet."""
        import pandas as pd

        meta = pd.Series(like, index=X._meta.index, name="prediction")
        return X.map_partitions(_predict_partition, self, meta=meta, enforce_metadata=False)

    def _loss_coefficients(self) -> tuple[Array, Array]:
        """Coefficients, one row per output, and intercepts in the units of the loss, whatever the target's own are."""
        return np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)

    def diagnose(self, X: Any, y: Any = None) -> Any:
        """Exact facts about the rows of a fit, and what its noise did: for you who hold them, NOT FOR RELEASE.

        Parameters
        ----------
        X, y
            What was fitted.

        Returns
        -------
        Diagnosis
            Prints as a short block; see docs/diagnose.md.
        """
        from dperm.estimators.diagnosis import diagnose  # it imports this module

        check_is_fitted(self, "coef_")
        return diagnose(self, X, y)

    def to_sklearn(self) -> Any:
        """A plain scikit-learn estimator with the same coefficients, for rows as `encode` returns them."""
        raise InvalidParameter(f"scikit-learn has no estimator that predicts as {self.title} does.")

    def _as_plain(self, estimator: Any, **attributes: Any) -> Any:
        """Hand the coefficients over to an estimator of scikit-learn."""
        check_is_fitted(self, "coef_")
        estimator.coef_, estimator.intercept_ = np.array(self.coef_), np.array(self.intercept_)
        estimator.n_features_in_ = self.coef_.shape[-1]
        for name, value in attributes.items():
            setattr(estimator, name, value)
        return estimator

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are accepted, missing values are bounded, and noise may lower any score."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags


def _predict_partition(frame: Any, model: PrivateGLM) -> Any:
    import pandas as pd

    return pd.Series(model.predict(frame), index=frame.index, name="prediction")  # type: ignore[attr-defined]
