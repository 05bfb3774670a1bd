"""Numbers and rules of the schema in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from dperm.ledger.accounts import rounded_up
from dperm.schema import Amount, Bins, Category, Classes, Column, Number, Schema
from dperm.schema.checks import as_text
from dperm.schema.crosses import CROSS_ENTRY, LEVELS
from dperm.schema.table import Target


def percent_up(share: float) -> str:
    r"""A share in percent with three digits, no less than it is.

    Examples
    --------
    >>> percent_up(0.001), percent_up(0.034567), percent_up(1.0)
    ('0.1\xa0%', '3.46\xa0%', '100\xa0%')
    """
    rounded = Context(prec=3, rounding=ROUND_CEILING).multiply(Decimal(repr(float(share))), 100)
    return f"{rounded.normalize():f}\N{NO-BREAK SPACE}%"


def plain(number: float) -> str:
    """A number in up to twelve digits, without an exponent where that is short.

    Examples
    --------
    >>> plain(1e-5), plain(17.0), plain(121093.75), plain(-0.5), plain(1e-30)
    ('0.00001', '17', '121093.75', '−0.5', '1e−30')
    """
    text = f"{number:.12g}"
    if "e" in text and 1e-7 <= abs(number) < 1e15:
        text = f"{Decimal(text):f}"
    return text.replace("-", "−")


def one_in(delta: float) -> str:
    """A small probability as one in this many, in round numbers and no less than it is."""
    times = math.floor(1.0 / delta * (1.0 + 1e-9))
    digits = max(0, len(str(times)) - 2)
    return f"1 in {times // 10**digits * 10**digits:,}" if times < 10**15 else f"less than 1 in {10**15:,}"


def factor(epsilon: float) -> str:
    """e^ε, no less than it is.

    Examples
    --------
    >>> factor(1.0), factor(20.0)
    ('2.719', 'e to the power of 20')
    """
    return rounded_up(math.exp(epsilon)) if epsilon < 14.0 else f"e to the power of {epsilon:g}"


def column_rule(column: Column) -> str:
    """What a column declares: its range or its categories, and what they become."""
    match column:
        case Number() if column.binned:
            low, *inner, high = map(plain, column.knots)
            return (
                f"A number from {low} to {high}, in {column.n_bins} bins cut at {', '.join(inner)}. It has an entry at "
                "each end of its bin, the larger the nearer; at an end itself the entry there is 1."
                f"{_logarithm(column)}"
            )
        case Number():
            low, high = map(plain, column.bounds)
            return f"A number from {low} to {high}. It becomes an entry from −1 to 1.{_logarithm(column)}"
        case Bins():
            edges = ", ".join(map(plain, column.edges))
            return f"A number, cut at {edges}. The entry of its bin is 1, the others are 0."
        case Category(values=(_,)):
            return "One value is declared. Its entry is 1 where the column holds it, else 0."
        case Category():
            return f"One of {len(column.values)} values. The entry of the value is 1, the others are 0."


def values_of(part: Column | Target) -> list[str]:
    """The declared categories or classes, each with all its spellings."""
    groups = part.values if isinstance(part, Category) else part.classes if isinstance(part, Classes) else ()
    return [" or ".join(map(as_text, group)) for group in groups]


def outside_rule(column: Column) -> str:
    """What becomes of a value that was not declared."""
    match column:
        case Number(outside="clip"):
            return "A number outside the range counts as the nearer end."
        case Number():
            return "A number outside the range counts as missing."
        case Bins():
            return "The first and the last bin are open: every number has one."
        case Category(unseen="missing"):
            return "Any other value counts as missing."
        case Category():
            return f"Any other value {_policy(column.unseen, 'other')}"


def missing_rule(column: Column) -> str:
    """What becomes of a missing value."""
    what = "A missing value" if isinstance(column, Category) else "A missing value, or text that is not a number,"
    if isinstance(column, Number) and column.missing == "column":
        return f"{what} gives 0, and a 1 in the entry “missing”."
    return f"{what} {_policy(column.missing, 'missing')}"


def _policy(policy: Any, entry: str) -> str:
    if isinstance(policy, Mapping):
        return f"counts as {as_text(policy['value'])}."
    if not isinstance(policy, str):
        return f"counts as {plain(policy)}."
    return {
        "middle": "counts as the middle of the range.",
        "none": "gives zeros only.",
        "column": f"gives a 1 in the entry “{entry}”.",
        "row": "drops the whole row.",
    }[policy]


def _logarithm(number: Number) -> str:
    """What is done to a number before it is scaled, if anything is."""
    of = {"log": "it", "log1p": "1 plus it"}
    return "" if number.transform is None else f" The logarithm of {of[number.transform]} is taken first."


def target_rule(target: Target) -> str:
    """What the target may hold."""
    if isinstance(target, Amount):
        low, high = map(plain, target.number.bounds)
        fitted = {
            None: "",
            "log": " The model is fitted to its logarithm.",
            "log1p": " The model is fitted to the logarithm of 1 plus it.",
        }
        return (
            f"A number from {low} to {high}. A number outside counts as the nearer end. Rows without a number are "
            f"dropped.{fitted[target.number.transform]}"
        )
    return f"One of {len(target.classes)} classes. Rows with any other label are dropped."


@dataclass(frozen=True)
class Rule:
    """What becomes of the values of one column, in sentences."""

    name: str
    sentences: tuple[str, ...]
    declared: list[str]
    released: bool
    released_bins: bool = False
    is_target: bool = False


def schema_rules(schema: Schema) -> list[Rule]:
    """Every column, then the target."""
    rules = [
        Rule(
            name,
            (column_rule(column), outside_rule(column), missing_rule(column)),
            values_of(column),
            name in schema.released_ranges,
            name in schema.released_edges,
        )
        for name, column in schema.columns.items()
    ]
    if schema.crosses:
        rules.append(
            Rule(
                f"{schema.interactions} interactions",
                (
                    f"Every column of an interaction is put into one of {LEVELS} levels: bins next to each other "
                    "together, categories by a public hash. The entry of the levels that a row has is "
                    f"{CROSS_ENTRY:g}.",
                ),
                [" × ".join(cross.columns) for cross in schema.crosses],
                released=False,
            )
        )
    target = schema.target
    released = target.column in schema.released_ranges
    return [*rules, Rule(target.column, (target_rule(target),), values_of(target), released, is_target=True)]
