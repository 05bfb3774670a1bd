"""What a release consists of, as plain data: the contents of a file, and nothing else."""

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dperm.disk import fingerprint
from dperm.files.described import class_name
from dperm.schema import schema_to_dict
from dperm.version import __version__

FORMAT, VERSION = "dperm-release", 1

# What every file begins with.
HEAD = {"format": FORMAT, "version": VERSION, "library": f"dperm {__version__}"}


def content_of(model: Any) -> dict[str, Any]:
    """The contents of a fitted model's file; `model_file.load_model` reads them back.

    Parameters
    ----------
    model : estimator
        A fitted one.

    Returns
    -------
    dict
        Ready for JSON. "fingerprint" is the SHA-256 of everything else.
    """
    check_is_fitted(model, "privacy_")
    content = HEAD | model_content(model) | {"plan": model.plan_, "ledger": model.ledger_entry_}
    if hasattr(model, "search_"):
        content["search"] = model.search_.to_dict()
    return content | {"fingerprint": fingerprint(content)}


def model_content(model: Any) -> dict[str, Any]:
    """What a file says of a model, alone or as a step of a pipeline: the released numbers, and what they mean."""
    schema = model.schema_
    content = {
        "kind": kind_of(model),
        "columns": column_names(model),
        **model.released_numbers(),
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "schema": None if schema is None else schema_to_dict(replace(schema, n=model.privacy_.n)),
        "privacy": model.privacy_.to_dict(),
        "parameters": model.parameters_,
    }
    if model.uncertainty_ is not None:
        content["uncertainty"] = model.uncertainty_.to_dict()
    return content


def kind_of(model: Any) -> str:
    """The name of a model in a file: a short one for dperm's own, module and class for a user's."""
    name = class_name(type(model))
    return name if ":" in name else str(model.kind)


def column_names(model: Any) -> list[str]:
    """Names of the columns that the coefficients belong to."""
    if model.schema_ is not None:
        return list(model.schema_.feature_names)
    names = getattr(model, "feature_names_in_", None)
    return (
        [f"x{place}" for place in range(model.privacy_.n_features)] if names is None else [str(name) for name in names]
    )
