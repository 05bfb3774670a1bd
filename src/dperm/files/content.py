"""What a release consists of, as plain data: the contents of a model file, and nothing else."""

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dperm.accounting.events import event_to_list
from dperm.disk import fingerprint
from dperm.privacy.assumptions import assumptions
from dperm.schema import schema_to_dict
from dperm.version import __version__

FORMAT, VERSION = "dperm-model", 2

# All that a file may hold.
KEYS = frozenset(
    (
        "format", "version", "library", "kind", "columns", "coef", "intercept", "weights", "classes", "schema",
        "statement", "privacy", "assumptions", "events", "fit", "search", "ledger", "uncertainty", "fingerprint",
    )
)  # fmt: skip


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
    schema, entry = model.schema_, model.ledger_entry_
    content = {
        "format": FORMAT,
        "version": VERSION,
        "library": f"dperm {__version__}",
        "kind": model.kind,
        "columns": column_names(model),
        **model.released_numbers(),
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "schema": None if schema is None else schema_to_dict(replace(schema, n=model.privacy_.n)),
        "statement": str(model.privacy_).splitlines(),
        "privacy": model.privacy_.to_dict(),
        "assumptions": assumptions(model.privacy_, schema, entry, searched=hasattr(model, "search_")),
        "events": event_to_list(model.event_),
        "fit": model.parameters_,
        "ledger": entry,
    }
    if model.uncertainty_ is not None:
        content["uncertainty"] = model.uncertainty_.to_dict()
    if hasattr(model, "search_"):
        content["search"] = model.search_.to_dict()
    return content | {"fingerprint": fingerprint(content)}


def column_names(model: Any) -> list[str]:
    """Names of the columns that the coefficients belong to."""
    if model.schema_ is not None:
        return list(model.schema_.feature_names)
    names = getattr(model, "feature_names_in_", None)
    return (
        [f"x{place}" for place in range(model.privacy_.n_features)] if names is None else [str(name) for name in names]
    )
