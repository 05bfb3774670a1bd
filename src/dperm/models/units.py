"""The unit of a fit: what its parameters declare, and where the ids of its rows come from."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

from dperm.errors import InvalidParameterError
from dperm.privacy.unit import PrivacyUnit
from dperm.schema import Schema


class Protecting(Protocol):
    """What an estimator says about units."""

    unit: str | None
    max_rows_per_unit: int | None
    contribution: str
    missing_units: str

    @property
    def schema(self) -> Schema | None:
        """How rows are encoded; None where they are numbers already."""
        ...


@dataclass
class Declared:
    """The same for objects that are not estimators."""

    unit: str | None = None
    max_rows_per_unit: int | None = None
    contribution: str = "limit"
    missing_units: str = "separate"
    schema: Schema | None = None


def declared_unit(model: Protecting) -> PrivacyUnit | None:
    """The unit that the parameters declare, None if they name none."""
    if model.unit is not None:
        return PrivacyUnit(model.unit, model.max_rows_per_unit, model.contribution, model.missing_units)
    if not _says_nothing(model):
        raise InvalidParameterError("max_rows_per_unit, contribution and missing_units require unit.")
    return None


def _says_nothing(model: Protecting) -> bool:
    """Whether all that a unit has besides its name is left at its default."""
    return (model.max_rows_per_unit, model.contribution, model.missing_units) == (None, "limit", "separate")


def unit_parameters(unit: PrivacyUnit | None) -> dict[str, Any]:
    """The parameters that declare a unit, for an estimator without a schema."""
    if unit is None:
        return {}
    return {
        "unit": unit.name, "max_rows_per_unit": unit.max_rows, "contribution": unit.contribution,
        "missing_units": unit.missing,
    }  # fmt: skip


def schema_with_unit(model: Protecting) -> Schema | None:
    """The schema, with the unit that it declares itself or the parameters name."""
    declares = None if model.schema is None else model.schema.unit
    if declares is not None and model.unit is None and not _says_nothing(model):
        raise InvalidParameterError(
            f"the schema declares the unit {declares.name!r}: change max_rows, contribution and missing_units there."
        )
    unit = declared_unit(model)
    if model.schema is None or unit is None:
        return model.schema
    if declares not in (None, unit):
        raise InvalidParameterError(
            f"the schema declares {declares.described} ({declares.contribution}), the parameters {unit.described} "
            f"({unit.contribution}): leave one out."
        )
    return replace(model.schema, unit=unit)


def protected_unit(model: Protecting) -> PrivacyUnit | None:
    """The privacy unit, whether declared by the schema or by a parameter."""
    schema = schema_with_unit(model)
    return declared_unit(model) if schema is None else schema.unit


def split_groups(model: Protecting, X: Any, groups: Any) -> tuple[Any, Any]:
    """Rows without a schema and the ids of their units: those that were given, or the frame's own column.

    Raises
    ------
    InvalidParameterError
        If ids are given where nothing says what they stand for, or are not where they should be.
    """
    if model.schema is not None:
        if groups is not None:
            raise InvalidParameterError("groups cannot be combined with a schema: ids are a column of the table.")
        return X, None
    if model.unit is None:
        if groups is not None:
            raise InvalidParameterError("groups requires unit, the name of the privacy unit, e.g. unit='patient'.")
        return X, None
    if groups is not None:
        if _has_ids(model, X):
            raise InvalidParameterError(f"ids are in the column {model.unit!r} and in groups: remove one.")
        return X, groups
    if not _has_ids(model, X):
        raise InvalidParameterError(
            f"there is no column {model.unit!r}: pass the ids as groups, or a frame with this column."
        )
    return without_ids(model, X), X[model.unit]


def without_ids(model: Protecting, X: Any) -> Any:
    """A frame without the column of ids, which is never a feature."""
    if not _has_ids(model, X):
        return X
    return X.drop(columns=[model.unit]) if hasattr(X, "iloc") else X.drop(model.unit)


def _has_ids(model: Protecting, X: Any) -> bool:
    names = getattr(X, "column_names", getattr(X, "columns", ()))  # Arrow's, or those of frames
    return model.unit is not None and model.schema is None and model.unit in list(names)
