"""What every private transformer is: a few noisy sums over rows, and a map that is computed from them alone."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.events import Event
from dperm.disk import fingerprint
from dperm.errors import InvalidParameterError
from dperm.files.content import HEAD
from dperm.files.described import check_types, class_name, described, value_of
from dperm.files.plan_data import plan_to_dict
from dperm.kernel.units import Membership
from dperm.ledger import Budget
from dperm.mechanisms.setting import PublicTable
from dperm.models.charged import Charged
from dperm.models.units import declared_unit, split_groups, unit_parameters, without_ids
from dperm.plan.sums import Parts, ReleasedSums, Sum, SumsPlan, plan_sums
from dperm.plan.transaction import Transaction, check_releasable
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.statement import PrivacyStatement
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.ids import membership_of_array
from dperm.rows.labels import read_table
from dperm.rows.table import NumberColumns, Table, made_up_row, taken
from dperm.validation import agreed_n, count, finite

Array = NDArray[np.float64]

# Beyond this squares of numbers would be far from exact next to each other.
_LARGEST = 1e100
# What a file may state: more would only fill memory.
_MOST_COLUMNS = 10**6


@dataclass(eq=False, repr=False)
class PrivateTransformer(Charged, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Parameters and steps common to all; a concrete one says which sums it needs and what it makes of them."""

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    adjacency: str = "replace_one"
    n: int | None = None
    budget: Budget | None = None
    random_state: Any = None
    unit: str | None = None
    max_rows_per_unit: int | None = None
    contribution: str = "limit"
    missing_units: str = "separate"

    privacy_: PrivacyStatement = field(init=False)
    event_: Event = field(init=False)
    plan_: dict[str, Any] = field(init=False)
    ledger_entry_: dict[str, Any] | None = field(init=False)
    n_features_in_: int = field(init=False)

    # The share of a pipeline's precision that it takes unless told otherwise.
    share: ClassVar[float] = 0.1
    # Whether sums become means by the public n, which rows must then weigh in all.
    divides_by_n: ClassVar[bool] = False
    # Columns are numbers, described by what is declared here.
    schema: ClassVar[None] = None

    @abstractmethod
    def _sums(self, table: PublicTable, n_features: int, distribution: str) -> Sequence[Sum]:
        """What is released about a table; raises where a public parameter is wrong."""

    @abstractmethod
    def _parts(self, X: Any) -> Sequence[Parts]:
        """What rows add to each of the sums."""

    @abstractmethod
    def _learn(self, sums: ReleasedSums, n: int) -> None:
        """Keep what follows from noisy sums."""

    @abstractmethod
    def transform(self, X: Any) -> Any:
        """Apply the released map to rows."""

    @property
    def _relative_noise(self) -> Sequence[float] | None:
        """The noise of each sum over its sensitivity, beside the others'."""
        return None

    def n_features_out(self, n_features: int) -> int:
        """How many columns come out of this many: public."""
        return n_features

    def plan(self, n: int | None = None, n_features: int | None = None) -> SumsPlan:
        """The noise and the cost of a fit, from public numbers alone.

        Parameters
        ----------
        n, n_features : int
            Shape of the table that would be fitted; a declared n may be left out. With a unit, n counts units.
        """
        rows = agreed_n(self.n, n)
        check_releasable(self.budget, self.random_state)
        return self.plan_for(
            Guarantee(self.epsilon, self.delta), Adjacency.parse(self.adjacency), rows, n_features, declared_unit(self)
        )  # fmt: skip

    def plan_for(
        self, guarantee: Guarantee, adjacency: Adjacency, n: int | None, n_features: int | None,
        unit: PrivacyUnit | None,
    ) -> SumsPlan:  # fmt: skip
        """The plan for another guarantee than its own, as one step of several has it.

        Parameters
        ----------
        guarantee, adjacency
            What must hold of this step.
        n, n_features : int
            Shape of the table.
        unit : PrivacyUnit or None
            Whose rows are protected together.
        """
        if unit is not None and unit.contribution == "limit" and self.divides_by_n:
            raise InvalidParameterError(
                f"{type(self).__name__} divides sums by n, so it requires contribution='average'."
            )
        table = PublicTable(count("n", n), adjacency, unit)
        distribution = "Laplace" if guarantee.delta == 0.0 else "Gaussian"
        return plan_sums(
            self._sums(table, count("n_features", n_features), distribution), guarantee, self._relative_noise
        )

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn from sensitive rows and keep only what may be released.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns), files or Dask data frame
            Whatever `dperm.rows.Table` takes. Every row is clipped to what is declared; nothing is raised for a value.
            Of files and Dask frames all columns are read, a few rows at a time.
        y : ignored
        groups : array of shape (rows,)
            The id of every row's `unit`; by default the column of that name of a data frame.

        Returns
        -------
        self
        """
        self.forget()
        unit = declared_unit(self)
        table, membership = self._read(taken(X), groups, unit)
        n_rows, n_features = table.shape
        found = n_rows if membership is None else membership.n
        plan = self.plan(None if self.n is not None else found, n_features)
        with Transaction(
            plan, self.budget, self.random_state, found=found, unit=unit, n_declared=self.n is not None
        ) as transaction:
            self._answer(transaction, table, plan, membership)
        return self

    def _read(self, X: Any, groups: Any, unit: PrivacyUnit | None) -> tuple[Any, Membership | None]:
        """The rows as numbers, in an array or read piece by piece, and whose every row is."""
        if not isinstance(X, Table):
            X, groups = split_groups(self, X, groups)
            table = self.read(X, fitting=True)
            return table, membership_of_array(groups, table.shape[0], unit)
        if groups is not None:
            raise InvalidParameterError("groups cannot be combined with files: ids are the column that unit names.")
        stored = X.opened()
        names = [name for name in stored.names if unit is None or name != unit.name]
        stored.require(names)
        self.read(made_up_row(names), fitting=True)
        return NumberColumns(stored, tuple(names)), stored.membership(unit)

    def run(
        self, X: Any, plan: SumsPlan, *, random_state: Any, caveats: tuple[Caveat, ...], membership: Membership | None
    ) -> None:  # fmt: skip
        """Fit by a plan whose cost is reserved already: what a pipeline does.

        Parameters
        ----------
        X : table
            The rows, as this step gets them.
        plan : SumsPlan
            What `plan_for` returned.
        random_state : int or None
            Seed. Makes the run reproducible, and the result not for release.
        caveats : tuple of Caveat
            What keeps this step alone from being released.
        membership : Membership or None
            Whose every row is, where the plan protects a unit.
        """
        self.forget()
        table = self.read(X, fitting=True)
        found, unit = (table.shape[0], None) if membership is None else (membership.n, membership.unit)
        with Transaction(plan, None, random_state, found=found, unit=unit) as transaction:
            self._answer(transaction, table, plan, membership, caveats)

    def _answer(
        self, transaction: Transaction, table: Any, plan: SumsPlan, membership: Membership | None,
        caveats: tuple[Caveat, ...] = (),
    ) -> None:  # fmt: skip
        sums = plan.answer(transaction, self._parts(table), membership, caveats)
        self._learn(sums, plan.n)
        self.privacy_, self.event_, self.ledger_entry_ = sums.statement, sums.event, transaction.ledger_entry
        self.plan_ = plan_to_dict(plan)
        transaction.write(self, lambda: fingerprint(self.content()))

    def read(self, X: Any, *, fitting: bool) -> NDArray[Any]:
        """Check a table the scikit-learn way, but never for the values in it.

        Parameters
        ----------
        X : table
            Dense.
        fitting : bool
            Whether names and number of columns are to be kept, or compared with those that are.
        """
        if not fitting:
            check_is_fitted(self, "privacy_")
        if sparse.issparse(X):
            raise InvalidParameterError(
                f"{type(self).__name__} does not support sparse rows: shifting columns would fill them; pass "
                "X.toarray()."
            )
        return np.asarray(read_table(self, without_ids(self, X), fitting=fitting))

    def content(self) -> dict[str, Any]:
        """What a file of it holds, but for the fingerprint."""
        check_is_fitted(self, "privacy_")
        return HEAD | self.told() | {"plan": self.plan_, "ledger": self.ledger_entry_}

    def told(self) -> dict[str, Any]:
        """What a file says of it, alone or as a step of a pipeline: the released numbers, and what they mean."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "kind": class_name(type(self)),
            "columns": None if names is None else [str(name) for name in names],
            "n_features": int(self.n_features_in_),
            "parameters": {name: described(getattr(self, name)) for name in self._own(init=True)},
            "released": {name: described(getattr(self, name)) for name in self._own(init=False)},
            "privacy": self.privacy_.to_dict(),
        }

    @classmethod
    def from_told(cls, content: dict[str, Any]) -> Self:
        """Read what `told` gave; raises if it does not fit together."""
        values = {name: value_of(value) for name, value in content["parameters"].items()}
        check_types(cls, values)
        step = cls(**values)
        if (set(content["parameters"]), set(content["released"])) != (
            set(cls._own(init=True)),
            set(cls._own(init=False)),
        ):
            raise ValueError("parameters")
        for name, numbers in content["released"].items():
            value = value_of(numbers)
            setattr(step, name, np.array(value, dtype=np.float64) if isinstance(value, tuple) else value)
        step.n_features_in_ = count("n_features", content["n_features"])
        if step.n_features_in_ > _MOST_COLUMNS:
            raise ValueError("n_features")
        step.privacy_ = statement = PrivacyStatement.from_dict(content["privacy"])
        str(statement)  # its numbers are numbers
        step.epsilon, step.delta, step.adjacency = statement.epsilon, statement.delta, statement.adjacency
        step.set_params(**unit_parameters(statement.unit))
        with np.errstate(all="ignore"):
            step.transform(np.zeros((1, step.n_features_in_)))  # what does not fit together fails here
        if content["columns"] is not None:
            step.feature_names_in_ = np.array(content["columns"], dtype=object)  # type: ignore[attr-defined]
            if len(step.feature_names_in_) != step.n_features_in_:  # type: ignore[attr-defined]
                raise ValueError("columns")
        return step

    @classmethod
    def _own(cls, *, init: bool) -> list[str]:
        """The parameters that are not common to all, or the attributes that a fit leaves."""
        common = {part.name for part in fields(PrivateTransformer)}
        return [part.name for part in fields(cls) if part.init is init and part.name not in common]

    def __sklearn_tags__(self) -> Any:
        """Missing values are bounded like all others."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags


class Bounds(NamedTuple):
    """The declared ranges of columns.

    Attributes
    ----------
    low, high : array
        One number per declared column.
    columns : array of int
        Which they are; the others are passed on as they are.
    n_features : int
        How many columns there are in all.
    """

    low: Array
    high: Array
    columns: NDArray[np.intp]
    n_features: int

    @property
    def ends(self) -> tuple[Array, Array]:
        """The low and the high ends."""
        return self.low, self.high

    def of(self, X: NDArray[Any]) -> NDArray[Any]:
        """The declared columns of a table."""
        return X if len(self.columns) == self.n_features else X[:, self.columns]

    def filled(self, values: Array, otherwise: float) -> Array:
        """Numbers of the declared columns, along the last axis, with another for all that are passed on."""
        table = np.full((*values.shape[:-1], self.n_features), otherwise)
        table[..., self.columns] = values
        return table

    def with_changed(self, X: NDArray[Any], changed: Array) -> Array:
        """A table with what became of its declared columns, and the others as they are."""
        table = np.array(X, dtype=np.float64)
        table[:, self.columns] = changed
        return table


def check_bounds(bounds: Any, n_features: int) -> Bounds:
    """Read declared ranges, or raise: they are never taken from the rows.

    Parameters
    ----------
    bounds : pair, or sequence of pairs
        One (low, high) for all columns, or one for each, None for a column that is passed on as it is.
    n_features : int
        Columns.
    """
    if bounds is None:
        raise InvalidParameterError(
            "bounds must be declared, as (low, high) for all columns or one pair for each: they must not be read "
            "from the rows."
        )
    try:
        pairs = list(bounds)
        shape = np.shape([pair for pair in pairs if pair is not None])
    except (TypeError, ValueError):  # no list, or one of lists of different lengths
        pairs, shape = [], ()
    if shape == (2,) == (len(pairs),):
        pairs = [pairs] * n_features
    elif not (len(shape) == 2 and shape[1] == 2 and len(pairs) == n_features):
        raise InvalidParameterError(
            f"bounds must be one pair (low, high), or {n_features} of them, one per column, with None for a column "
            "that is passed through."
        )
    declared = [(place, pair) for place, pair in enumerate(pairs) if pair is not None]
    for _, pair in declared:
        low, high = (finite("a bound", float(end) if isinstance(end, np.number) else end) for end in pair)
        if not (low < high and max(abs(low), abs(high)) <= _LARGEST):
            raise InvalidParameterError(f"bounds must be pairs with low < high, of numbers up to 1e100; got {pair!r}.")
        if high - low < 1e-9 * max(abs(low), abs(high)):
            raise InvalidParameterError(
                f"the bounds {pair!r} are too close relative to their magnitude; centre the column first."
            )
    table = np.array([pair for _, pair in declared], dtype=np.float64)
    places = np.array([place for place, _ in declared], dtype=np.intp)
    return Bounds(table[:, 0].copy(), table[:, 1].copy(), places, n_features)
