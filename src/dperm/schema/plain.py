"""Schemas as TOML and as plain data."""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from dperm.disk import read_text
from dperm.errors import InvalidParameterError
from dperm.printable import one_line
from dperm.privacy.unit import PrivacyUnit
from dperm.schema.columns import Bins, Category, Column
from dperm.schema.number import Number
from dperm.schema.table import Amount, Classes, Schema, Target

_MOST_BYTES = 2**24

# Keys of [table] that declare a unit, and what they are called there.
_OF_THE_UNIT = {"unit": "name", "max_rows": "max_rows", "contribution": "contribution", "missing_units": "missing"}


def load_schema(path: str | Path) -> Schema:
    """Read a schema from a TOML file; `dperm schema draft` writes a first one.

    Parameters
    ----------
    path : str or Path
        Where it is.
    """
    try:
        content = tomllib.loads(read_text(path, _MOST_BYTES))
        return schema_from_dict(content)
    except UnicodeDecodeError:
        raise InvalidParameterError(f"{one_line(path)} is not UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameterError(f"{one_line(path)} is not TOML: {one_line(error)}.") from None
    except RecursionError:
        raise InvalidParameterError(f"{one_line(path)} is not a schema: it is nested too deeply.") from None
    except InvalidParameterError as error:
        message = str(error)
    except ValueError:  # a whole number of thousands of digits
        message = "it is not TOML that can be used."
    raise InvalidParameterError(message if message.startswith(one_line(path)) else f"{one_line(path)}: {message}")


def schema_from_dict(content: Any) -> Schema:
    """Read a schema from the tables of its TOML file."""
    content = _table("the schema", content, {"table", "columns", "target", "derived_from_data"})
    if "target" not in content or not isinstance(content.get("columns"), Mapping):
        raise InvalidParameterError("a schema needs a [target] and at least one [columns.NAME].")
    facts = _table(
        "[table]",
        content.get("table", {}),
        {"n", "missing", "header", "separator", "row_norm", "range_share", "encode", "interactions", *_OF_THE_UNIT},
    )
    unit = _named("[table]", _unit, {name: facts.pop(name) for name in _OF_THE_UNIT if name in facts})
    columns = {name: _named(f"[columns.{name}]", _column, text) for name, text in content["columns"].items()}
    derived = content.get("derived_from_data", False)
    return Schema(
        columns, _named("[target]", _target, content["target"]), derived_from_data=derived, unit=unit, **facts
    )


def schema_to_dict(schema: Schema) -> dict[str, Any]:
    """As plain data, for JSON and TOML; `schema_from_dict` reads it back."""
    facts = {name: getattr(schema, name) for name in ("n", "missing", "header", "row_norm")}
    if schema.private_ranges:
        facts["range_share"] = schema.range_share
    for name, default in (("separator", ","), ("encode", "auto"), ("interactions", 0)):
        if getattr(schema, name) != default:
            facts[name] = getattr(schema, name)
    if schema.unit is not None:
        own = _settings(schema.unit)
        facts |= {name: own[entry] for name, entry in _OF_THE_UNIT.items() if entry in own}
    content = {
        "table": {name: _plain(value) for name, value in facts.items() if value not in (None, ())},
        "target": _settings(schema.target),
        "columns": {name: _settings(column) for name, column in schema.columns.items()},
    }
    return {"derived_from_data": True, **content} if schema.derived_from_data else content


def _table(name: str, content: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise InvalidParameterError(f"{name} must be a table of keys and values.")
    unknown = sorted(set(content) - known)
    if unknown:
        raise InvalidParameterError(f"{name} has no key {unknown[0]!r}; its keys are {', '.join(sorted(known))}.")
    return dict(content)


def _named(place: str, build: Callable[[str, Any], Any], content: Any) -> Any:
    try:
        return build(place, content)
    except InvalidParameterError as error:
        message = str(error)
        raise InvalidParameterError(message if message.startswith("[") else f"{place}: {message}") from None


def _column(place: str, content: Any) -> Column:
    chosen = [key for key in ("range", "bins", "values") if isinstance(content, Mapping) and key in content]
    if chosen == ["range", "bins"] and isinstance(content["bins"], str):
        chosen = ["range"]  # where the bins of a number are cut
    if len(chosen) != 1:
        raise InvalidParameterError("a column has exactly one of range, bins and values.")
    if chosen == ["bins"]:
        values = _table(place, content, {"bins", "missing"})
        return Bins(values.pop("bins"), **values)
    kind = Number if chosen == ["range"] else Category
    return kind(**_table(place, content, {part.name for part in fields(kind)}))


def _target(place: str, content: Any) -> Target:
    kind = Classes if isinstance(content, Mapping) and "classes" in content else Amount
    values = _table(place, content, {part.name for part in fields(kind)})
    if "column" not in values or (kind is Amount and "range" not in values):
        raise InvalidParameterError("a target has a column, and classes or a range.")
    return kind(**values)


def _unit(place: str, content: dict[str, Any]) -> PrivacyUnit | None:
    if "unit" not in content:
        if content:
            raise InvalidParameterError(f"{next(iter(content))} requires unit.")
        return None
    return PrivacyUnit(**{_OF_THE_UNIT[name]: value for name, value in content.items()})


def _settings(part: Column | Target | PrivacyUnit) -> dict[str, Any]:
    """What was set, the defaults left out."""
    settings = {}
    for entry in fields(part):
        value = getattr(part, entry.name)
        if value != entry.default:
            settings["bins" if isinstance(part, Bins) and entry.name == "edges" else entry.name] = _plain(value)
    return settings


def _plain(value: Any) -> Any:
    """Tuples as lists; a single spelling stands alone."""
    if isinstance(value, tuple):
        return [_plain(entry[0]) if isinstance(entry, tuple) and len(entry) == 1 else _plain(entry) for entry in value]
    return dict(value) if isinstance(value, Mapping) else value


def schema_to_toml(schema: Schema) -> str:
    """A TOML file that `load_schema` reads."""
    content = schema_to_dict(schema)
    lines = []
    if content.get("derived_from_data"):
        lines += [
            "# A draft, read from the data: its ranges, categories and n would tell something about the rows"
            + ("." if schema.unit is None else ", and so would max_rows."),
            "# Correct every number and list to what is public knowledge, then remove the next line: `fit` refuses it.",
            "derived_from_data = true",
            "",
        ]
    tables = {"table": content["table"], "target": content["target"]}
    tables |= {f"columns.{_text(name)}": settings for name, settings in content["columns"].items()}
    for name, settings in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_value(value)}" for key, value in settings.items()), ""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_value(entry)}' for key, entry in value.items())} }}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.1f}"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
