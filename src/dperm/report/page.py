"""The page of `dperm report`: what is released, what is promised, what to sign. Every number on it is public."""

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from dperm import __version__
from dperm.accounting.attack import true_positive_rates
from dperm.accounting.events import event_to_list
from dperm.audit.result import AuditResult, name_of_plan
from dperm.disk import as_path, write_whole
from dperm.errors import DpermError, InvalidParameterError
from dperm.files.model_file import fingerprint_of, read_content
from dperm.files.reading import release_from
from dperm.ledger import Budget
from dperm.models.base import PrivateEstimator
from dperm.pictures.bars import noise_reach
from dperm.printable import one_line
from dperm.privacy.assumptions import assumptions
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.markup import change_in_words
from dperm.privacy.statement import PrivacyStatement
from dperm.progress import ProgressBar
from dperm.report.bar import Bar, bar_of
from dperm.report.coefficients import interval_rows, layers_of, panels
from dperm.report.curves import MOST_DRAWINGS, effect_drawings, risk_drawing
from dperm.report.evaluation import scored
from dperm.report.release import render_release
from dperm.report.summary import summary_of_model
from dperm.report.templates import template
from dperm.report.titles import title_of
from dperm.report.words import factor, schema_rules
from dperm.verify.release import verify

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.05, 0.1)
_CURVE = (0.0, *np.geomspace(1e-3, 0.1, 12).tolist(), *np.linspace(0.125, 1.0, 36).tolist())


def write_report(
    model_path: str | Path,
    output: str | Path | None = None,
    ledger: str | None = None,
    audit: AuditResult | None = None,
    evaluation: dict[str, Any] | None = None,
) -> Path:
    """Write the page about a model file; a crash leaves the old page or none.

    Parameters
    ----------
    model_path : str or Path
        What `save_model` or `dperm fit` wrote.
    output : str or Path, optional
        Where to, by default beside the model file with the ending .html.
    ledger : str, optional
        Where the budget is kept: a URL, or the path of a SQLite file. The page then shows its history.
    audit : AuditResult, optional
        What an audit of the same plan found.
    evaluation : dict, optional
        What `model_file.read_content` returned for an evaluation of the same model.

    Returns
    -------
    Path
        Where the page is.
    """
    model_path = as_path(model_path)
    output = page_beside(model_path) if output is None else as_path(output)
    content = read_content(model_path)
    if output.exists() and (not output.is_file() or output.samefile(model_path)):
        raise InvalidParameterError(
            f"{output} cannot be written: {'it is the model' if output.is_file() else 'it is no file'}."
        )
    write_whole(output, render_report(content, ledger, model_path.name, audit, evaluation))
    return output


def page_beside(model_path: Path) -> Path:
    """Where the page goes if nobody says so."""
    try:
        return model_path.with_suffix(".html")
    except ValueError:  # the folder itself
        raise InvalidParameterError(f"{one_line(model_path)} cannot be read: it is not a file.") from None


def render_report(
    content: dict[str, Any],
    ledger: str | None = None,
    file_name: str = "model.json",
    audit: AuditResult | None = None,
    evaluation: dict[str, Any] | None = None,
) -> str:
    """The page about a model file's contents, as HTML that needs nothing else.

    Parameters
    ----------
    content : dict
        What `model_file.read_content` returned.
    ledger : str, optional
        Also show the history of the budget that was charged.
    file_name : str
        How the page names the model file.
    audit : AuditResult, optional
        What an audit of the same plan found.
    evaluation : dict, optional
        What `model_file.read_content` returned for an evaluation of the same model.

    Raises
    ------
    InvalidParameterError
        If the contents do not fit together, so that there is nothing to show, the audit is of another plan, or the
        evaluation of another model.
    """
    page = template("page.html")
    model = release_from(content)
    if model is None:
        raise InvalidParameterError(f"{file_name}: the contents do not fit together, so there is nothing to report.")
    if not isinstance(model, PrivateEstimator):
        if audit is not None or evaluation is not None:
            raise InvalidParameterError(f"an audit or an evaluation is of a model, and {file_name} holds none.")
        return render_release(content, model, ledger, file_name)
    if audit is not None and audit.plan != name_of_plan(content["privacy"], event_to_list(model.event_)):
        raise InvalidParameterError(
            f"the audit is of another plan than that of {file_name}; audit it with `dperm audit --of`."
        )
    shown_evaluation = None if evaluation is None else scored(evaluation, fingerprint_of(content), file_name, ledger)
    statement, schema, entry = model.privacy_, model.schema_, model.ledger_entry_
    findings = verify(content, ledger)
    verified = all(finding.holds for finding in findings)
    # Events that are not those of the fit can take hours to account for, and say nothing about it.
    accounted = statement.noise != "certified" or any(
        one.holds and one.text.startswith("the recorded events") for one in findings
    )
    search = getattr(model, "search_", None)
    promised, event, _ = model.promised
    shown, axis = panels(model) if hasattr(model, "coef_") else ([], None)
    dataset, title = None if entry is None else entry["dataset"], title_of(model)
    change = change_in_words(statement.adjacency, statement.unit)

    def for_people(text: str) -> str:
        """With the adjacency in words."""
        return text.replace(f"adjacency {statement.adjacency}", change).replace(
            f"({statement.adjacency})", f"({change})"
        )

    return str(
        page.render(
            title=title,
            summary=summary_of_model(str(title), content, statement, promised, verified=verified),
            file_name=one_line(file_name),
            quoted_file=one_line(shlex.quote(file_name)),
            for_people=for_people,
            change=change,
            change_in_words=change_in_words,
            kind=model.title,
            target=None if schema is None else schema.target.column,
            classes=[str(label) for label in getattr(model, "classes_", [])],
            n_columns=len(model.feature_names_in_),
            fingerprint=str(content.get("fingerprint")),
            findings=findings,
            verified=verified,
            broken=[finding.text for finding in findings if not finding.holds],
            statement=statement,
            lines=str(statement),
            adjacency=statement.adjacency,
            unit=statement.unit,
            attack=_attack(event, promised) if accounted else None,
            promised=promised,
            search=search,
            audit=audit,
            evaluation=shown_evaluation,
            panels=shown,
            layers=layers_of(model),
            axis=axis,
            intervals=interval_rows(model),
            groups=model.uncertainty_ is not None and bool(model.uncertainty_.groups),
            reach=noise_reach(model),
            effects=effect_drawings(model),
            most_effects=MOST_DRAWINGS,
            score_words=getattr(model, "score_words", ""),
            interactions=0 if schema is None else schema.interactions,
            risk=risk_drawing(model),
            rules=None if schema is None else schema_rules(schema),
            missing_texts=[] if schema is None else schema.missing,
            entry=entry,
            dataset=dataset,
            history=None if entry is None or ledger is None else _history(entry, ledger),
            assumptions=assumptions(statement, schema, entry, searched=search is not None),
            library=str(content.get("library")),
            version=__version__,
        )
    )


def _attack(event: Any, statement: PrivacyStatement) -> dict[str, Any] | None:
    """What any attacker can do, as rows of a table and as points of a curve; None if nothing is promised or known."""
    if math.isinf(statement.epsilon):
        return None
    adjacency = Adjacency.parse(statement.adjacency)
    wrong = (*FALSE_POSITIVE_RATES, *_CURVE)
    try:
        pairs = list(zip(wrong, true_positive_rates(event, adjacency, wrong), strict=True))
    except (ArithmeticError, ValueError):  # numbers that no run has
        return None
    return {
        "rows": pairs[: len(FALSE_POSITIVE_RATES)],
        "points": pairs[len(FALSE_POSITIVE_RATES) :],
        "factor": factor(statement.epsilon),
    }


def _history(entry: dict[str, Any], ledger: str) -> Bar | str:
    """The state of the budget that was charged, or why it cannot be shown."""
    try:
        account = Budget(entry["dataset"], ledger).account()
    except DpermError as error:
        return str(error)
    with ProgressBar("composing releases") as progress:
        return bar_of(account, (entry.get("number"), entry.get("digest")), progress)
