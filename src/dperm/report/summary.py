"""What a page says, for registries that read no prose: JSON-LD with terms of schema.org (docs/tables.md)."""

import math
from collections.abc import Mapping
from typing import Any

from dperm import __version__
from dperm.privacy.statement import FitStatement, PrivacyStatement
from dperm.report.bar import Bar

_CONTEXT = "https://schema.org"


def summary_of_model(
    title: str,
    content: Mapping[str, Any],
    statement: FitStatement,
    promised: PrivacyStatement,
    *,
    verified: bool,
) -> dict[str, Any]:
    """The page about a model.

    Parameters
    ----------
    title : str
        Of the page.
    content : mapping
        Of the model file.
    statement : FitStatement
        Of its fit.
    promised : PrivacyStatement
        What holds for everything that was released with it.
    verified : bool
        Whether all that was checked holds.
    """
    return summary_of_release(
        title,
        content,
        promised,
        verified=verified,
        for_release=statement.for_release,
        max_rows_per_unit=None if promised.unit is None else promised.unit.max_rows,
        mechanism=statement.mechanism,
        noise=statement.noise,
        searched="search" in content,
        epsilon_of_last_fit=statement.epsilon if "search" in content else None,
    )


def summary_of_release(
    title: str,
    content: Mapping[str, Any],
    promised: PrivacyStatement,
    *,
    verified: bool,
    for_release: bool,
    **more: Any,
) -> dict[str, Any]:
    """The page about any release; parameters as of `summary_of_model`, and whatever else is known of this kind."""
    entry = content["ledger"] or {}
    return {
        "@context": _CONTEXT,
        "@type": "CreativeWork",
        "name": title,
        "identifier": f"sha256:{content.get('fingerprint')}",
        "additionalProperty": _properties(
            epsilon=promised.epsilon,
            delta=promised.delta,
            adjacency=promised.adjacency,
            unit="row" if promised.unit is None else promised.unit.name,
            n=promised.n,
            **more,
            fingerprint=str(content.get("fingerprint")),
            for_release=for_release,
            verified=verified,
            dataset=entry.get("dataset"),
            ledger_entry=entry.get("number"),
            ledger_digest=entry.get("digest"),
            library=str(content.get("library")),
            page_written_by=f"dperm {__version__}",
        ),
    }


def summary_of_budget(title: str, bar: Bar, largest: float) -> dict[str, Any]:
    """The page about a budget, with a part for every release.

    Parameters
    ----------
    title : str
        Of the page.
    bar : Bar
        The budget.
    largest : float
        ε of the largest further release.
    """
    account = bar.account
    return {
        "@context": _CONTEXT,
        "@type": "Dataset",
        "name": account.dataset,
        "description": title,
        "dateCreated": account.created,
        "additionalProperty": _properties(
            epsilon=account.guarantee.epsilon,
            delta=account.guarantee.delta,
            adjacency=account.adjacency.value,
            unit="row" if account.unit is None else account.unit,
            fixed_in_advance=account.rule.fixed_in_advance,
            spent=account.spent,
            spent_if_chosen_in_view_of_results=account.filtered,
            spent_if_fixed_in_advance=account.composed,
            left_at_least=account.left,
            largest_further_release=largest,
            releases=len(bar.lines),
            not_settled=bar.reserved,
            ledger_verified=True,  # there is no account of a ledger that is not
            newest_entry=None if account.newest is None else account.newest.number,
            newest_digest=None if account.newest is None else account.newest.digest,
            page_written_by=f"dperm {__version__}",
        ),
        "hasPart": [
            {
                "@type": "CreativeWork",
                "dateCreated": line.release.reserved_on,
                "additionalProperty": _properties(
                    ledger_entry=line.release.number,
                    ledger_digest=line.release.digest,
                    epsilon_alone=line.release.epsilon,
                    spent_after=line.after,
                    settled=line.release.is_settled,
                    fingerprint=line.release.fingerprint,
                ),
            }
            for line in bar.lines
        ],
    }


def _properties(**values: Any) -> list[dict[str, Any]]:
    """What is known, by name; an infinite number is the text "inf", as in model files."""
    return [
        {"@type": "PropertyValue", "name": name, "value": _plain(value)}
        for name, value in values.items()
        if value is not None
    ]


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
