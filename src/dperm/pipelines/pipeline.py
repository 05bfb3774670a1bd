"""A pipeline of private steps under one guarantee."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags

from dperm.accounting.events import Composed, Event
from dperm.disk import fingerprint
from dperm.errors import InvalidParameterError, PlanExceededError
from dperm.files.content import HEAD, model_content
from dperm.files.described import NotDescribableError
from dperm.files.plan_data import plan_to_dict
from dperm.kernel.noise import seed_from
from dperm.kernel.units import Membership
from dperm.ledger import Budget
from dperm.models.base import PrivateEstimator
from dperm.models.charged import Charged
from dperm.models.classifier import check_classes
from dperm.models.steps import instead_of, is_nothing, is_public, step_to_dict
from dperm.models.telling import untold
from dperm.models.units import declared_unit
from dperm.pipelines.plan import PipelinePlan
from dperm.pipelines.public_step import through
from dperm.pipelines.public_steps import form_of, made_up, tried, width_of
from dperm.plan.beside import plan_beside, share_of
from dperm.plan.fit_plan import FitPlan
from dperm.plan.release_plan import Promise
from dperm.plan.sums import SumsPlan
from dperm.plan.transaction import Transaction, check_releasable
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.statement import PrivacyStatement
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.cells import as_rows, number_table
from dperm.rows.ids import membership_of_array
from dperm.rows.labels import class_numbers, numeric_target, read_table, read_target
from dperm.rows.table import Table, taken
from dperm.transformers.base import PrivateTransformer
from dperm.validation import agreed_n, count, positive

KIND = "pipeline"

# What the steps do not have of their own.
_SHARED = (
    "epsilon", "delta", "adjacency", "n", "budget", "random_state", "unit", "max_rows_per_unit", "contribution",
    "missing_units",
)  # fmt: skip
# Transformers never take more than this of the precision unless told.
_MOST_FOR_TRANSFORMERS = 0.5


class PrivatePipeline(Charged, Pipeline):  # type: ignore[misc]
    """A scikit-learn pipeline of private transformers and one model of dperm's under one (ε, δ).

    All steps are planned from public numbers before a row is read, and are charged to the budget once. What a private
    step released is used by the next one: the whole is an adaptive composition (docs/proofs/preprocessing.md).

    Parameters
    ----------
    steps : list of (name, step)
        `PrivateStandardScaler` and the like, a model of dperm's as the last, and between them any steps that learn
        nothing from rows: FunctionTransformer, PolynomialFeatures, OneHotEncoder with declared categories, … Steps that
        learn without noise are refused.
    epsilon, delta : float
        The guarantee of everything together. The steps' own are not used, and must be left at their defaults.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    n : int, optional
        The public number of rows or privacy units; by default that of X.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together by all
        steps. `fit` takes the ids as `groups`.
    max_rows_per_unit, contribution, missing_units
        As in `PrivateLogisticRegression`.
    budget : Budget, optional
        The dataset's budget in a ledger: everything is reserved there before a row is read.
    shares : dict of str to float, optional
        By the names of private transformers, the share of the precision (of μ², or of ε where δ = 0) that each takes.
        By default 0.1, and 0.25 for `PrivatePCA`; if that is more than half, half in proportion. The model has the
        rest.
    random_state : int, optional
        Seed. Makes the fit reproducible, and the result not for release.

    Attributes
    ----------
    privacy_ : PrivacyStatement
        The guarantee of all steps together.
    event_ : Event
        The accounting event of all of them.
    ledger_entry_ : dict or None
        Its ledger entry.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLogisticRegression, PrivateStandardScaler, make_private_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([40, 3000], [10, 800], size=(20_000, 2)); y = X[:, 0] / 10 + X[:, 1] / 800 > 7.75
    >>> pipe = make_private_pipeline(
    ...     PrivateStandardScaler(bounds=[(0, 100), (0, 10_000)]), PrivateLogisticRegression(row_norm=1.5),
    ...     epsilon=1.0, delta=1e-6,
    ... )
    >>> bool(pipe.fit(X, y).score(X, y) > 0.9)
    True
    """

    # Nothing is kept between fits, and nothing is printed during them.
    memory = None
    verbose = False
    transform_input = None
    # Its steps take numbers, or what a public step makes of other columns.
    schema: ClassVar[None] = None

    def __init__(
        self,
        steps: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        adjacency: str = "replace_one",
        n: int | None = None,
        budget: Budget | None = None,
        shares: dict[str, float] | None = None,
        random_state: Any = None,
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        contribution: str = "limit",
        missing_units: str = "separate",
    ) -> None:
        self.steps = steps
        self.epsilon, self.delta, self.adjacency, self.n = epsilon, delta, adjacency, n
        self.budget, self.shares, self.random_state = budget, shares, random_state
        self.unit, self.max_rows_per_unit = unit, max_rows_per_unit
        self.contribution, self.missing_units = contribution, missing_units

    def check_steps(self) -> None:
        """Raise if a step does not belong into a private pipeline, or has a guarantee of its own."""
        self._validate_steps()
        final = self.steps[-1][1]
        if not isinstance(final, PrivateEstimator):
            hint = instead_of(final)
            raise InvalidParameterError(
                f"the last step must be a dperm model, got {type(final).__name__}"
                + (f"; take {hint}." if hint else ", which would learn from the rows without noise.")
            )
        if final.noise != "certified" or final.accountant != "pld" or final.schema is not None:
            raise InvalidParameterError(
                "in a private pipeline the model must have certified noise, the accountant 'pld' and no schema."
            )
        for name, step in self.steps[:-1]:
            if isinstance(step, PrivateTransformer) or is_public(step):
                continue
            hint = instead_of(step)
            raise InvalidParameterError(
                f"the step {name!r} ({type(step).__name__}) learns from the rows without noise"
                + (f"; take {hint}." if hint else ": only private and public steps may come before the model.")
            )
        for name, step in self.steps:
            for parameter in _SHARED if isinstance(step, Charged) else ():
                value = getattr(step, parameter)
                if value not in (getattr(type(step), parameter), getattr(self, parameter)):
                    raise InvalidParameterError(
                        f"the step {name!r} has {parameter}={value!r} set: all steps share the pipeline's; set "
                        f"{parameter} there instead."
                    )

    def _shares(self) -> dict[str, float]:
        """Of the private transformers."""
        private = {name: step for name, step in self.steps[:-1] if isinstance(step, PrivateTransformer)}
        if self.shares is None:
            usual = {name: step.share for name, step in private.items()}
            scale = min(1.0, _MOST_FOR_TRANSFORMERS / max(sum(usual.values()), _MOST_FOR_TRANSFORMERS))
            return {name: scale * share for name, share in usual.items()}
        if not isinstance(self.shares, dict) or set(self.shares) != set(private):
            raise InvalidParameterError(
                f"shares must name exactly the private transformers: {', '.join(private) or 'none'}."
            )
        shares = {name: positive(f"the share of {name!r}", self.shares[name]) for name in private}
        if not sum(shares.values()) < 1.0:
            raise InvalidParameterError("shares must add up to less than 1: the model gets the rest.")
        return shares

    def plan(self, n: int | None = None, n_features: int | None = None) -> PipelinePlan:
        """The noise and the cost of all steps, from public numbers alone.

        Parameters
        ----------
        n, n_features : int
            Shape of the table that would be fitted; a declared n may be left out.
        """
        n = agreed_n(self.n, n)
        rows = np.empty((0, count("n_features", n_features)))
        return self._plan(count("n", n), rows)

    def _plan(self, n: int, X: Any, classes: list[bool] | None = None) -> PipelinePlan:
        """The plan for a table of which only shape, names and types are used, with classes that y declares by type."""
        self.check_steps()
        check_releasable(self.budget, self.random_state)
        guarantee, adjacency = Guarantee(self.epsilon, self.delta), Adjacency.parse(self.adjacency)
        unit = declared_unit(self)
        shares, planned = self._shares(), dict[str, SumsPlan]()
        rows = given = made_up(X)
        for name, step in self.steps[:-1]:
            if isinstance(step, PrivateTransformer):
                width = width_of(rows)
                if rows is not given:  # of rows as they were passed it is asked when they are read
                    _check_numbers(name, step, rows)
                planned[name] = step.plan_for(share_of(guarantee, shares[name]), adjacency, n, width, unit)
                rows = made_up(np.empty((0, step.n_features_out(width))))
            else:
                rows = tried(name, step, rows)
        name, final = self.steps[-1]
        width = width_of(rows)

        def plan_final(left: Guarantee) -> FitPlan:
            with self._as_part(left, n, classes=classes):
                return final.plan(n, width)  # type: ignore[no-any-return]

        if planned:
            others = Composed(tuple(step.event for step in planned.values()))
            last = plan_beside(
                others, guarantee, adjacency, plan_final, share_of(guarantee, 1.0 - sum(shares.values()))
            )
        else:
            last = plan_final(guarantee)
        promise = Promise(guarantee, adjacency, n, unit)
        return PipelinePlan(promise, (*planned.values(), last), steps=planned, final_name=name, final=last)

    def fit(self, X: Any, y: Any = None, groups: Any = None, **params: Any) -> Self:
        """Fit all steps on sensitive rows and keep only what may be released.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns), files or Dask data frame
            What the first step takes, or whatever `dperm.rows.Table` takes: files and Dask frames are read into memory.
        y : array of shape (rows,), or str
            Targets; of files and Dask frames the name of their column.
        groups : array of shape (rows,), or str
            The id of every row's `unit`, which is not a column of X; of files and Dask frames the name of their column.
        **params
            None are taken.

        Returns
        -------
        self
        """
        if params:
            raise InvalidParameterError(
                f"a private pipeline does not pass parameters to its steps, got {next(iter(params))!r}."
            )
        self.check_steps()
        # A list of texts holds rows; paths in a list must be of the type of paths.
        texts = isinstance(X, list | tuple) and any(issubclass(type(row), str) for row in X)
        table = X if texts else taken(X)
        X, y, groups = self._from_stored(table, y, groups) if isinstance(table, Table) else (table, y, groups)
        unit = self._check_groups(X, groups)
        first = next(step for _, step in self.steps if not is_nothing(step))
        X = self._rows(first, X, unit)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        labels = read_target(self.steps[-1][1], y, n_rows)
        classes = self._classes_by_type(labels)
        membership = membership_of_array(groups, n_rows, unit)
        found = n_rows if membership is None else membership.n
        plan = self._plan(found if self.n is None else self.n, X, classes)
        self._check_rows(first, X, labels)
        self.forget()
        with Transaction(
            plan, self.budget, self.random_state, found=found, unit=unit, n_declared=self.n is not None
        ) as transaction:
            self._run(X, y, plan, classes, groups, membership, transaction.caveats)
            self.ledger_entry_ = transaction.ledger_entry
            transaction.write(self, lambda: fingerprint(self.content()))
        return self

    def _from_stored(self, table: Table, y: Any, groups: Any) -> tuple[Any, Any, Any]:
        """Features, target and ids of a table in files or on a cluster, all of it in memory."""
        if not isinstance(y, str) or not (groups is None or isinstance(groups, str)):
            raise InvalidParameterError("with files and Dask frames, y and groups must be names of columns.")
        read, final = table.opened(), self.steps[-1][1]
        X = read.frame([name for name in read.names if name not in (y, groups)])
        ids = None if groups is None else read.ids(groups)
        if hasattr(final, "classes"):
            return X, read.labels(y, final.classes), ids
        return X, read.numbers([y], majority=False).column(0).to_numpy(), ids

    @staticmethod
    def _rows(first: Any, X: Any, unit: PrivacyUnit | None) -> Any:
        """Rows for the first step: numbers, cell by cell, where it takes numbers only."""
        if isinstance(first, PrivateTransformer | PrivateEstimator):
            return number_table(X, majority=unit is None)
        rows = as_rows(X, majority=unit is None)
        if hasattr(X, "shape") or rows.ndim < 2:  # by its types, or a list of texts
            return X
        return rows if get_tags(first).input_tags.string else number_table(rows, majority=unit is None)

    def _check_groups(self, X: Any, groups: Any) -> PrivacyUnit | None:
        """The unit; raises where rows have ids and it does not say of what, or the other way round."""
        unit = declared_unit(self)
        if unit is None and groups is not None:
            raise InvalidParameterError("groups requires unit, the name of the privacy unit, e.g. unit='patient'.")
        if unit is not None and (groups is None or unit.name in list(getattr(X, "columns", ()))):
            raise InvalidParameterError(
                f"in a private pipeline pass the ids as groups, and leave {unit.name!r} out of X."
            )
        return unit

    def _classes_by_type(self, labels: NDArray[Any]) -> list[bool] | None:
        """The classes of a boolean target, which need no declaration; None if they are declared, or there are none."""
        final = self.steps[-1][1]
        if not hasattr(final, "classes") or final.classes is not None:
            return None
        if labels.dtype.kind != "b":
            raise InvalidParameterError(
                f"in a private pipeline the classes must be declared: {type(final).__name__}(classes=[...])."
            )
        return [False, True]

    def _check_rows(self, first: Any, X: Any, labels: NDArray[Any]) -> None:
        """Raise for tables and targets that a step would refuse later, when their cost is reserved."""
        final = self.steps[-1][1]
        if not hasattr(final, "classes"):
            numeric_target(labels, self.unit is None)
        elif final.classes is not None:
            class_numbers(labels, check_classes(final.classes), self.unit is None)
        if isinstance(first, PrivateTransformer):
            first.read(X, fitting=True)
        elif isinstance(first, PrivateEstimator):
            read_table(first, X, fitting=True)

    def _run(
        self, X: Any, y: Any, plan: PipelinePlan, classes: list[bool] | None, groups: Any,
        membership: Membership | None, caveats: tuple[Caveat, ...],
    ) -> None:  # fmt: skip
        """Read the rows, whose cost is reserved."""
        given = X
        seeds: list[int | None] = [None] * len(self.steps)
        if self.random_state is not None:
            words = np.random.SeedSequence(seed_from(self.random_state)).generate_state(len(self.steps), np.uint32)
            seeds = [int(word) for word in words]
        for (name, step), seed in zip(self.steps[:-1], seeds, strict=False):
            if isinstance(step, PrivateTransformer):
                step.run(X, plan.steps[name], random_state=seed, caveats=(Caveat.ONE_STEP,), membership=membership)
                X = step.transform(X)
            elif step is not None and not isinstance(step, str):
                X = through(step, X, tried(name, step, made_up(X)))
        final = self.steps[-1][1]
        # Of a part nothing is told: the plan of all was, and an n that nobody declared is not public.
        with self._as_part(plan.final.guarantee, plan.n, seeds[-1], classes), untold():
            final.fit(X, y, groups=groups, plan=plan.final)
        if final.event_ != plan.final.event:
            final.forget()
            raise PlanExceededError("the last step is not the one that was planned.")
        caveats = (*final.privacy_.caveats, *caveats)
        self.privacy_: PrivacyStatement = plan.statement.of_run(seeded=self.random_state is not None, caveats=caveats)
        self.event_: Event = plan.event
        # A step's own statement is about its own noise, and what it saw came from steps before it.
        final.privacy_ = replace(final.privacy_, caveats=(*final.privacy_.caveats, Caveat.ONE_STEP))
        self.form_, self.told_, self.plan_ = form_of(made_up(given)), None, None
        with suppress(NotDescribableError):  # a step of code: there will be no file
            self.told_, self.plan_ = [[name, _told(step)] for name, step in self.steps], plan_to_dict(plan)

    @contextmanager
    def _as_part(
        self, guarantee: Guarantee, n: int, random_state: Any = None, classes: list[bool] | None = None
    ) -> Iterator[None]:  # fmt: skip
        """The model with what it has of the guarantee, for as long as this lasts; nothing is charged twice."""
        final: PrivateEstimator = self.steps[-1][1]
        values = {name: getattr(self, name) for name in _SHARED} | {
            "epsilon": guarantee.epsilon, "delta": guarantee.delta, "n": n, "budget": None,
            "random_state": random_state,
        } | ({} if classes is None else {"classes": classes})  # fmt: skip
        before = {name: getattr(final, name) for name in values}
        final.set_params(**values)
        try:
            yield
        finally:
            final.set_params(**before)

    def forget(self) -> None:
        """Drop an earlier fit of all steps, so that a failing one does not leave a mixture."""
        super().forget()
        for _, step in self.steps:
            if isinstance(step, PrivateTransformer | PrivateEstimator):
                step.forget()

    def content(self) -> dict[str, Any]:
        """What a file of it holds, but for the fingerprint."""
        return HEAD | {
            "kind": KIND,
            "rows": self.form_,
            "steps": self.told_,
            "privacy": self.privacy_.to_dict(),
            "plan": self.plan_,
            "ledger": self.ledger_entry_,
        }

    def __getitem__(self, place: Any) -> Any:
        """A step by its place or name; of a slice an ordinary pipeline of the same steps."""
        return Pipeline(self.steps[place]) if isinstance(place, slice) else super().__getitem__(place)


def _told(step: Any) -> Any:
    """A step as plain data."""
    if isinstance(step, PrivateEstimator):
        if step.plan_ is None:
            raise NotDescribableError("a part of the model is code.")
        return model_content(step)
    return step.told() if isinstance(step, PrivateTransformer) else step_to_dict(step)


def _check_numbers(name: str, step: PrivateTransformer, rows: Any) -> None:
    """Raise if synthetic rows are not what a private transformer takes: whether they are follows from types alone."""
    if sparse.issparse(rows):
        raise InvalidParameterError(
            f"the step {name!r} ({type(step).__name__}) does not support sparse rows: make them dense first, e.g. "
            "with sparse_output=False."
        )
    kinds = [kind.kind for kind in rows.dtypes] if hasattr(rows, "dtypes") else [np.asarray(rows).dtype.kind]
    if not set(kinds) <= set("fiub"):
        raise InvalidParameterError(f"the step {name!r} ({type(step).__name__}) requires numbers: encode text first.")


def make_private_pipeline(
    *steps: Any,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    adjacency: str = "replace_one",
    n: int | None = None,
    budget: Budget | None = None,
    shares: dict[str, float] | None = None,
    random_state: Any = None,
    unit: str | None = None,
    max_rows_per_unit: int | None = None,
    contribution: str = "limit",
    missing_units: str = "separate",
) -> PrivatePipeline:
    """A `PrivatePipeline` of steps that are named after their classes, in lower case.

    Parameters
    ----------
    *steps : estimators
        Private transformers, public steps, and a model of dperm's as the last.
    epsilon, delta, adjacency, n, budget, shares, random_state, unit, max_rows_per_unit, contribution, missing_units
        As of `PrivatePipeline`.

    Examples
    --------
    >>> from dperm import PrivateLinearRegression, PrivatePCA, make_private_pipeline
    >>> pipe = make_private_pipeline(
    ...     PrivatePCA(row_norm=1.0, n_components=2), PrivateLinearRegression(row_norm=1.0), epsilon=2.0
    ... )
    >>> plan = pipe.plan(n=10_000, n_features=5)
    >>> plan.privacy.certified_epsilon <= 2.0
    True
    """
    return PrivatePipeline(
        make_pipeline(*steps).steps, epsilon=epsilon, delta=delta, adjacency=adjacency, n=n, budget=budget,
        shares=shares, random_state=random_state, unit=unit, max_rows_per_unit=max_rows_per_unit,
        contribution=contribution, missing_units=missing_units,
    )  # fmt: skip
