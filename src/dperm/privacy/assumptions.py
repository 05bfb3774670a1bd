"""What a release rests on, in sentences that a person can sign."""

from typing import Any

from dperm.privacy.guarantee import ROWS_ALLOWED_PER_DECLARED, Adjacency
from dperm.privacy.statement import FitStatement, PrivacyStatement
from dperm.privacy.unit import PrivacyUnit
from dperm.schema import Schema


def assumptions(
    statement: PrivacyStatement, schema: Schema | None, entry: dict[str, Any] | None, *, searched: bool = False
) -> list[str]:  # fmt: skip
    """The assumptions of one release.

    Parameters
    ----------
    statement : PrivacyStatement
        What is promised.
    schema : Schema or None
        What was declared about the table.
    entry : dict or None
        What the ledger holds for it, if a budget was charged: "dataset", and whether it is for releases that are
        "fixed_in_advance".
    searched : bool
        Whether a search under the same guarantee chose the model.
    """
    signed = _about_rows(statement) if statement.unit is None else _about_the_unit(statement, statement.unit)
    if isinstance(statement, FitStatement):
        signed += _about_the_fit(statement, schema, searched=searched)
    else:
        signed.append("Every bound and every parameter was chosen without looking at the rows.")
    if getattr(statement, "noise", "certified") != "none" and not statement.seeded:
        signed.append(
            "The noise was keyed by the operating system of the machine that ran the fit. Nobody could read its "
            "memory, and how long the fit took is not published."
        )
    if entry is None:
        signed.append(
            "No budget was charged for it. Any other release from the same rows adds to what an attacker can learn."
        )
    else:
        charged = (
            f"Every release from these rows is charged to the budget of {entry['dataset']!r}, and so was this one."
        )
        if entry["fixed_in_advance"]:
            charged += " No release depended on the results of earlier ones."
        signed.append(charged)
    return signed


def _about_the_fit(statement: FitStatement, schema: Schema | None, *, searched: bool) -> list[str]:
    signed: list[str] = []
    if schema is None:
        signed.append("The columns, the classes and the bounds on rows were chosen without looking at the rows.")
    else:
        signed += _about_the_schema(statement, schema)
    signed.append(
        "The candidates, and every parameter of the search among them, were chosen without looking at the rows. The "
        "search chose this model, and its cost is part of the guarantee."
        if searched
        else "Every parameter of the fit (model, penalty, domain, solver, ε, δ) was chosen without looking at the rows."
    )
    signed += _about_weights_and_start(statement)
    if statement.gradient_clip is not None:
        signed.append(
            "The model's function and the weights it started from were chosen without looking at the rows. Compiled "
            "code computes a row's gradient the same way at every position of a batch, as was checked on synthetic "
            "rows."
        )
    return signed


def _about_rows(statement: PrivacyStatement) -> list[str]:
    signed = ["One person is one row. A person with several rows is protected row by row only."]
    if statement.adjacency == Adjacency.REPLACE_ONE:
        signed.append(
            "Adjacency is replace_one: neighbouring datasets differ in the contents of one row. That the table has "
            f"{statement.n} rows is public."
        )
    else:
        most = int(ROWS_ALLOWED_PER_DECLARED * statement.n + 1)
        signed.append(
            f"Adjacency is add_remove: neighbouring datasets differ by one row more or less. n = {statement.n} was "
            f"declared without counting the rows, and there were at most {most} of them."
        )
    return signed


def _about_the_unit(statement: PrivacyStatement, unit: PrivacyUnit) -> list[str]:
    word, n = unit.word, statement.n
    signed = [
        f"The column {unit.name!r} identifies the {word} correctly, and each {word} has one {unit.name} in all rows. "
        f"A {word} with several of them is protected under each separately."
    ]
    if statement.adjacency == Adjacency.REPLACE_ONE:
        change = f"Adjacency is replace_one: neighbouring datasets differ in all rows of one {word}."
        if unit.missing == "separate":
            there = f"That there {'is' if n == 1 else 'are'} {unit.numbered(n)}"
            signed.append(f"{change} {there} is public, and how many rows they have is not.")
        else:  # one that is replaced by rows without an id is not counted
            signed.append(f"{change} n = {unit.numbered(n)} was declared without counting them.")
    else:
        most = int(ROWS_ALLOWED_PER_DECLARED * n + 1)
        signed.append(
            f"Adjacency is add_remove: neighbouring datasets differ by one {word} more or less, with all rows. n = "
            f"{unit.numbered(n)} was declared without counting them, and there were at most {most}."
        )
    if unit.missing == "separate":
        signed.append(
            f"A row without a usable {unit.name} counts as its own {word}, also in n: a {word} with several such "
            "rows is protected row by row only."
        )
    chosen = f"contribution = {unit.contribution!r} was"
    if unit.max_rows is not None:
        chosen = f"max_rows = {unit.max_rows} and contribution = {unit.contribution!r} were"
    signed.append(
        f"{chosen} chosen without looking at the rows, or from a release whose cost is not part of this one's ε."
    )
    return signed


def _about_weights_and_start(statement: FitStatement) -> list[str]:
    signed = []
    if statement.weights == "public":
        signed.append(
            f"The weight of every row is public, at most {statement.weight_bound:g}, and was not found by looking at "
            "the rows."
        )
    if statement.weights == "private":
        signed.append(
            f"The weight of a row belongs to the row and is protected with it. Its bound, {statement.weight_bound:g}, "
            "is public and was declared without looking at the weights."
        )
    if statement.public_start:
        signed.append(
            "The starting point of the fit is public: it was chosen without looking at the rows, or came out of a "
            "release whose cost is not part of this one's ε."
        )
    return signed


def _about_the_schema(statement: FitStatement, schema: Schema) -> list[str]:
    kinds = (
        ("ranges", schema.released_ranges, statement.private_ranges),
        ("bins", schema.released_edges, statement.private_edges),
    )
    released = [f"the {what} of {', '.join(names)}" for what, names, _ in kinds if names]
    but = f", but for {' and '.join(released)}" if released else ""
    signed = [
        "The columns, ranges, categories, classes and meanings of missing values in the schema are public "
        f"knowledge{but}; no other was read from these rows."
    ]
    for what, names, private in kinds:
        if private:
            signed.append(f"The {what} of {', '.join(private)} came out of this fit, and their cost is part of its ε.")
        earlier = [name for name in names if name not in private]
        if earlier:
            signed.append(
                f"The {what} of {', '.join(earlier)} came out of an earlier release, whose cost is not part of this "
                "one's ε."
            )
    return signed
