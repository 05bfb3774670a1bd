"""Files of releases: JSON, read back as what was released. No pickle, so opening one runs nothing."""

import json
from pathlib import Path
from typing import Any

from dperm.disk import as_path, fingerprint, read_json, read_text, write_whole
from dperm.errors import InvalidParameterError
from dperm.evaluation.result import PrivateEvaluation
from dperm.files.content import FORMAT, VERSION, content_of
from dperm.files.reading import release_from
from dperm.models.base import PrivateEstimator
from dperm.models.search import PrivateSearch
from dperm.pipelines.pipeline import PrivatePipeline
from dperm.plan.rows_per_unit import RowsPerUnit
from dperm.printable import one_line
from dperm.transformers.base import PrivateTransformer

# More than five million coefficients need.
_MOST_BYTES = 2**28


def save_model(release: Any, path: str | Path) -> None:
    """Write what was released to a file; a crash leaves the old file or none, never half of one.

    Parameters
    ----------
    release : estimator, PrivatePipeline, transformer, PrivateEvaluation or RowsPerUnit
        A fitted one.
    path : str or Path
        Where to.
    """
    write_whole(as_path(path), release_text(release))


def release_text(release: Any) -> str:
    """The text of a release's file; raises if there can be none."""
    if isinstance(release, PrivateSearch):
        raise InvalidParameterError("a search has no model file: save search.best_estimator_.")
    if isinstance(release, PrivateEstimator):
        content = content_of(release)
    elif isinstance(release, PrivatePipeline | PrivateTransformer):
        content = release.content()
        content |= {"fingerprint": fingerprint(content)}
    elif isinstance(release, PrivateEvaluation | RowsPerUnit):
        content = release.to_dict()
    else:
        raise InvalidParameterError(f"a file stores a dperm release, got {type(release).__name__}.")
    if content["plan"] is None:
        raise InvalidParameterError(
            f"cannot save this {type(release).__name__}: it contains code, or an object that is not a frozen "
            "dataclass of numbers (docs/file_format.md)."
        )
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read_content(path: str | Path) -> dict[str, Any]:
    """Read a file's contents as they stand, or raise if it is none; `verify` says whether they are true."""
    try:
        content = read_json(read_text(path, _MOST_BYTES))
    except InvalidParameterError:
        raise
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _no_release(path)
    if type(content.get("version")) is not int or content["version"] != VERSION:
        raise _no_release(path)
    return content


def _no_release(path: str | Path) -> InvalidParameterError:
    return InvalidParameterError(f"{one_line(path)} is not a dperm model file of version {VERSION}.")


def load_model(path: str | Path) -> Any:
    """Read a file back: an estimator that predicts, with its statement in `privacy_` and the fit's parameters.

    Its solver is the one that ran. n, a budget and a seed are not among the parameters: they belong to one fit. A file
    of another release gives that: a pipeline, a transformer, a `PrivateEvaluation` or a `RowsPerUnit`.

    Parameters
    ----------
    path : str or Path
        What `save_model` or `dperm fit` wrote.

    Raises
    ------
    InvalidParameterError
        If it is not a file of dperm, was changed after it was written, or names a class that is not imported.
    """
    content = read_content(path)
    if not is_unchanged(content):
        raise InvalidParameterError(f"{one_line(path)} was modified after it was written (fingerprint mismatch).")
    release = release_from(content)
    if release is None:
        raise _no_release(path)
    return release


def load_estimator(path: str | Path) -> PrivateEstimator:
    """The same of a model's file; raises if it is one of another release."""
    release = load_model(path)
    if not isinstance(release, PrivateEstimator):
        raise InvalidParameterError(f"{one_line(path)} does not contain a model, but a {type(release).__name__}.")
    return release


def is_unchanged(content: dict[str, Any]) -> bool:
    """Whether the fingerprint is that of the rest."""
    return bool(content.get("fingerprint") == fingerprint_of(content))


def fingerprint_of(content: dict[str, Any]) -> str:
    """The fingerprint that the contents have, whatever they say it is."""
    return fingerprint({key: value for key, value in content.items() if key != "fingerprint"})
