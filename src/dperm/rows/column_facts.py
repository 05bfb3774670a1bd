"""What is wrong with the columns of a table under a schema: exact, for the person who holds the rows, never to leave.

One pass, table by table. A column takes memory for its first `_MOST_COUNTED` different values, whatever the table's
size. No value of a row is in what is said.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidTableError
from dperm.printable import one_line
from dperm.privacy.unit import named_like_an_id
from dperm.rows.columns import Columns, as_numbers, different_entries, word
from dperm.rows.row_facts import outside
from dperm.schema import Amount, Category, Column, Number, Schema
from dperm.schema.checks import as_text

Array = NDArray[np.float64]

# Texts that usually stand for no value.
NOTHING = ("?", "-", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None")
# A smaller share of the rows is not worth a word; a larger one is serious; with this one the column is of no use.
_WORTH, _SERIOUS, _ALL = 0.01, 0.5, 0.99
# Different values of a column that are counted, and that are compared without regard to upper and lower case.
_MOST_COUNTED, _MOST_COMPARED = 2**16, 1000
# This many different values, in this many rows, before a column can be one of ids.
_FEWEST_IDS, _FEWEST_ROWS = 50, 100
# Counts have fewer different values than this; from this many on they are no codes of classes, which may begin at 1.
_MOST_COUNTS, _CODES = 1000, 20

_COMMA = r"^\s*[-+]?[0-9][0-9.]*,[0-9]+\s*$"
_DATE = (
    r"^\s*([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{2}|[0-9]{4}))"
    r"([T ][0-9]{1,2}:.*)?\s*$"
)
_NOT_UTF8 = "\ufffd".encode()

_POLICIES = {
    "middle": 'they count as the middle of the range; missing = "column" tells them apart',
    "none": 'they count as nothing; missing = "column" tells them apart',
    "row": "their rows are dropped",
}


@dataclass(frozen=True)
class Finding:
    """Something about one column of a table: exact, hence not for release.

    Attributes
    ----------
    column : str
        Its name.
    kind : str
        What it is: "missing", "no number", "decimal comma", "outside", "unseen", "absent value", "constant",
        "duplicate", "case", "encoding", "id", "count" or "date".
    share : float
        Of the rows.
    text : str
        In words, with what to do.
    serious : bool
        Whether a fit says it before anything is spent: half of the rows, or an id among the features.
    unusable : bool
        Whether nearly all rows (99 %) have nothing in this column that the schema can use.
    """

    column: str
    kind: str
    share: float
    text: str
    serious: bool = False
    unusable: bool = False

    def __str__(self) -> str:
        """One line."""
        return one_line(f"{self.column}: {self.text}")


def findings(
    tables: Iterable[Any], schema: Schema | None, names: Sequence[str], target: str | None = None
) -> tuple[Finding, ...]:
    """Look at columns once.

    Parameters
    ----------
    tables : iterable of tables
        With these columns, one after another.
    schema : Schema or None
        What was declared; without one, what can be said of a column on its own.
    names : sequence of str
        The columns to look at, in order.
    target : str, optional
        Which of them is to be predicted, where there is no schema.
    """
    columns = [_ColumnFacts(name, schema, target) for name in names]
    for table in tables:
        read = Columns(table)
        for column in columns:
            column.add(read.arrow(column.name))
    found, first = list[Finding](), dict[bytes, str]()
    for column in columns:
        own = column.found()
        twin = first.setdefault(column.digest, column.name)
        if twin != column.name and not column.says_nothing:
            remedy = "a feature that is the target predicts itself" if column.is_target else "leave one of them out"
            own.append(Finding(str(column.name), "duplicate", 1.0, f"the same as {twin} in every row: {remedy}"))
        found += own
    return tuple(found)


class _ColumnFacts:
    """Counts of one column, and what follows from them."""

    def __init__(self, name: str, schema: Schema | None, target: str | None) -> None:
        self.name = name
        self.is_target = name == (target if schema is None else schema.target.column)
        self.is_unit = schema is not None and schema.unit is not None and name == schema.unit.name
        self.rule = None if schema is None or self.is_unit else _rule(schema, name)
        self.has_schema = schema is not None
        self.missing = NOTHING if schema is None else tuple(map(as_text, schema.missing))
        self._missing_numbers = [number for number in map(_number, self.missing) if not np.isnan(number)]
        self.n = self.n_missing = self.n_texts = self.n_commas = self.n_dates = self.n_fractions = 0
        self.n_outside = self.n_unseen = self.n_otherwise_written = self.n_not_utf8 = self.n_counted = self.n_runs = 0
        self.low, self.high = np.inf, -np.inf
        self.counts: dict[Any, int] = {}
        self.full = False
        self.unreadable = ""
        self._places: dict[Any, str] = {}
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def digest(self) -> bytes:
        """The same for columns with the same values."""
        return self._digest.digest()

    @property
    def n_known(self) -> int:
        """Rows with a value."""
        return self.n - self.n_missing

    @property
    def n_different(self) -> int:
        """Different values, as far as they were counted."""
        return len(self.counts)

    @property
    def says_nothing(self) -> bool:
        """Whether there is no more than one value."""
        return bool(self.unreadable) or self.n_different < 2

    def add(self, column: Any) -> None:
        """Count a few rows more."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.n += len(column)
        is_date = pa.types.is_temporal(column.type)
        try:
            codes, values = different_entries(column.cast(pa.string()) if is_date else column, self.name)
        except (InvalidTableError, pa.ArrowException):
            self.unreadable = str(column.type)
            return
        of_each = np.bincount(codes[codes >= 0], minlength=len(values))
        known, numbers, is_text = self._known(values)
        self.n_missing += int(np.count_nonzero(codes < 0) + of_each[~known].sum())
        texts = known & np.isnan(numbers)
        self.n_texts += int(of_each[texts].sum())
        if is_text:
            for count, pattern in (("n_commas", _COMMA), ("n_dates", _DATE)):
                matches = pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False).astype(bool)
                setattr(self, count, getattr(self, count) + int(of_each[matches & texts].sum()))
            broken = pc.match_substring(values, _NOT_UTF8).to_numpy(zero_copy_only=False).astype(bool)
            self.n_not_utf8 += int(of_each[broken].sum())
        self._add_numbers(numbers[known & ~texts], of_each[known & ~texts])
        if isinstance(self.rule, Category):
            self._add_words(values, of_each, known)
        self._count(values, of_each, known, codes)
        if texts.any():
            self._digest.update(codes.tobytes() + b"\0".join(str(value).encode() for value in values.to_pylist()))
        else:
            self._digest.update(np.append(numbers, np.nan)[codes].tobytes())

    def _known(self, values: Any) -> tuple[Any, Array, bool]:
        """Which of the values are any, all as numbers, NaN for none, and whether they are texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        numbers, is_text = as_numbers(values, self.name), pa.types.is_binary(values.type)
        if is_text:
            text = pc.cast(values, options=pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True))
            nothing = pa.array(["", *self.missing], pa.string())
            known = ~pc.is_in(pc.ascii_trim_whitespace(text), nothing).to_numpy(zero_copy_only=False)
        else:
            known = ~np.isnan(numbers)
        # A number that stands for no value is found however it is written.
        return known & ~np.isin(numbers, self._missing_numbers), numbers, is_text

    def _add_numbers(self, numbers: Array, of_each: NDArray[Any]) -> None:
        if not numbers.size:
            return
        self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))
        self.n_fractions += int(of_each[np.floor(numbers) != numbers].sum())
        if isinstance(self.rule, Number) and not self.rule.private:
            self.n_outside += int(of_each[outside(numbers, *self.rule.bounds)].sum())

    def _add_words(self, values: Any, of_each: NDArray[Any], known: Any) -> None:
        """Which categories are declared, or would be in other letters."""
        assert isinstance(self.rule, Category)
        positions = self.rule.positions
        folded = {text.casefold() for text in positions}
        for value, rows, is_known in zip(values.to_pylist(), of_each.tolist(), known.tolist(), strict=True):
            if not is_known:
                continue
            kind = self._places.get(value)
            if kind is None:
                text = word(value)
                kind = text if text in positions else "\0case" if text.casefold() in folded else "\0unseen"
                if kind in positions or len(self._places) < _MOST_COUNTED:
                    self._places[value] = kind
            self.n_unseen += rows if kind[0] == "\0" else 0
            self.n_otherwise_written += rows if kind == "\0case" else 0

    def _count(self, values: Any, of_each: NDArray[Any], known: Any, codes: NDArray[Any]) -> None:
        """How often every value is there, until there are too many."""
        if self.full:
            return
        self.n_runs += int(np.count_nonzero(np.diff(codes))) + 1
        self.n_counted += int(of_each[known].sum())
        for value, rows, is_known in zip(values.to_pylist(), of_each.tolist(), known.tolist(), strict=True):
            if is_known and rows:
                self.counts[value] = self.counts.get(value, 0) + rows
        # Numbers with fractions are neither ids nor counts, so there is nothing more to learn from them.
        self.full = self.n_different >= (_MOST_COMPARED if self.n_fractions else _MOST_COUNTED)

    def found(self) -> list[Finding]:
        """What there is to say."""
        if self.n == 0:
            return []
        if self.unreadable:
            text = (
                f"holds {self.unreadable}, which a schema cannot describe: leave it out, or convert it to numbers or "
                "text"
            )
            return [self._finding("no number", self.n, text, unusable=True)]
        if self.is_unit:
            return [*self._missing(), *self._likely()]
        said = [*self._missing(), *self._wrong(), *self._alike()]
        if any(one.unusable for one in said):
            return [one for one in said if one.unusable or one.kind == "encoding"]
        return [*said, *self._likely()]

    def _finding(self, kind: str, rows: float, text: str, *, serious: bool = True, unusable: bool = False) -> Finding:
        share = rows / self.n
        is_serious = serious and (share >= _SERIOUS or kind == "id")
        return Finding(str(self.name), kind, share, text, is_serious, unusable and self.has_schema)

    def _is_all(self, rows: int) -> bool:
        return rows >= _ALL * self.n

    def _missing(self) -> list[Finding]:
        share = self.n_missing / self.n
        if self._is_all(self.n_missing):
            return [self._finding(
                "missing", self.n_missing, f"missing in {_percent(share)} of the rows: leave it out, or fix the table",
                unusable=True,
            )]  # fmt: skip
        if share < _WORTH:
            return []
        fate = "their rows are dropped" if self.is_target else ""
        if self.rule is not None and not self.is_target:
            fate = _POLICIES.get(str(self.rule.missing), "as the schema declares" if share >= _SERIOUS else "declared")
        elif self.is_unit:
            fate = "each such row is its own unit, or dropped (missing_units)"
        if fate == "declared":
            return []
        return [self._finding("missing", self.n_missing, f"{_percent(share)} missing{fate and ': '}{fate}")]

    def _wrong(self) -> list[Finding]:
        """Values that the schema cannot use."""
        found = []
        takes_numbers = self.rule is not None and not isinstance(self.rule, Category)
        if self.n_commas >= max(_WORTH * self.n, 1):
            found.append(self._finding(
                "decimal comma", self.n_commas,
                f"{_percent(self.n_commas / self.n)} are numbers with a comma, which are read as text: write decimal "
                "points, without separators of thousands",
                unusable=takes_numbers and self._is_all(self.n_commas + self.n_missing),
            ))  # fmt: skip
        dates = self.n_dates + (self.n_known if self._are_dates_in_digits() else 0)
        if dates >= _SERIOUS * max(self.n_known, 1):
            found.append(self._finding(
                "date", dates,
                f"{_percent(dates / self.n)} look like dates: write a number instead, such as days since a public day, "
                "or the year or month",
                unusable=takes_numbers and self._is_all(self.n_texts + self.n_missing),
            ))  # fmt: skip
        rest = self.n_texts - self.n_commas - self.n_dates
        if takes_numbers and rest >= _WORTH * self.n:
            found.append(self._finding(
                "no number", rest, f"{_percent(rest / self.n)} are text, not numbers, and count as missing: fix "
                "them, or declare values instead of a range",
                unusable=self._is_all(self.n_texts + self.n_missing),
            ))  # fmt: skip
        if isinstance(self.rule, Number) and self.n_outside >= _WORTH * self.n:
            low, high = self.rule.bounds
            fate = "count as missing" if self.rule.outside == "missing" else "are clipped"
            found.append(self._finding(
                "outside", self.n_outside, f"{_percent(self.n_outside / self.n)} outside {low:g} … {high:g}: widen the "
                f"range, or accept that they {fate}",
                unusable=self.n_outside >= _ALL * (self.n_known - self.n_texts),
            ))  # fmt: skip
        return [*found, *self._unseen()]

    def _unseen(self) -> list[Finding]:
        if not isinstance(self.rule, Category):
            return []
        found, (what, many) = [], ("class", "classes") if self.is_target else ("value", "values")
        if self.n_unseen >= _WORTH * self.n:
            share, written = self.n_unseen / self.n, self.n_otherwise_written / self.n
            remedy = f"declare them, or fix the spelling of the {many}"
            if written >= _WORTH:
                remedy = (
                    f"{_percent(written)} differ from a declared {what} in upper and lower case only; list both "
                    f'spellings as one {what}, such as ["yes", "Yes"]'
                )
            found.append(self._finding(
                "case" if written >= share / 2 else "unseen", self.n_unseen,
                f"{_percent(share)} are none of the declared "
                f"{many}{' and their rows are dropped' if self.is_target else ''}: {remedy}",
                unusable=self._is_all(self.n_unseen + self.n_missing),
            ))  # fmt: skip
        seen = {self.rule.positions[kind] for kind in self._places.values() if kind[0] != "\0"}
        absent = len(self.rule.values) - len(seen)
        if absent and seen:
            text = f"{absent} of {len(self.rule.values)} declared {many} occur in no row: check their spelling"
            found.append(self._finding("absent value", 0, text))
        return found

    def _alike(self) -> list[Finding]:
        found = []
        if self.n_different == 1 and not self.full and self.n_missing < _WORTH * self.n:
            remedy = "there is nothing to predict" if self.is_target else "leave it out, it only costs noise"
            found.append(self._finding("constant", self.n, f"always the same: {remedy}", serious=self.is_target))
        if self.n_not_utf8:
            share = _percent(self.n_not_utf8 / self.n)
            found.append(self._finding(
                "encoding", self.n_not_utf8, f"{share} hold bytes that are not UTF-8: convert the file first, such as "
                "with iconv -f cp1252 -t utf-8",
            ))  # fmt: skip
        if "\ufffd" in str(self.name):
            text = (
                "its name holds bytes that are not UTF-8: convert the file first, such as with iconv -f cp1252 -t utf-8"
            )
            found.append(self._finding("encoding", self.n, text))
        if self.n_texts >= _SERIOUS * max(self.n_known, 1) and self.n_different <= _MOST_COMPARED:
            rows = self._written_otherwise()
            if rows >= _WORTH * self.n:
                found.append(self._finding(
                    "case", rows, f"{_percent(rows / self.n)} differ from another label in upper and lower case only: "
                    'list both spellings as one value, such as ["yes", "Yes"]', serious=False,
                ))  # fmt: skip
        return found

    def _written_otherwise(self) -> int:
        """Rows with a spelling that is not the most frequent one of those that differ in upper and lower case only."""
        groups = dict[str, dict[Any, int]]()
        for value, rows in self.counts.items():
            text = word(value)
            # Spellings that are declared as one value are one; those that are not declared are found elsewhere.
            meant = self.rule.positions.get(text) if isinstance(self.rule, Category) else text
            if meant is not None:
                spelled = groups.setdefault(text.casefold(), {})
                spelled[meant] = spelled.get(meant, 0) + rows
        return sum(sum(spelled.values()) - max(spelled.values()) for spelled in groups.values())

    def _likely(self) -> list[Finding]:
        """What a column probably is, by its values and its name."""
        is_date = self.n_dates >= _SERIOUS * max(self.n_known, 1) or self._are_dates_in_digits()
        rows = self.n_counted / max(self.n_different, 1)
        if self.is_unit:
            if rows > 1.0 + _WORTH or self.n_known == 0:
                return []
            text = "hardly any is in more than one row, so the unit protects little more than single rows"
            return [self._finding("id", self.n, text)]
        if not self.is_target and not is_date and self._looks_like_an_id(rows):
            how = "nearly every row has its own" if rows <= 1.1 else f"each value is in about {rows:.1f} rows"
            remedy = "leave it out of the features" if self.has_schema else "it should not be a feature"
            text = (
                f"looks like an id, {how}: {remedy}; if it identifies the person, declare it as the privacy unit "
                f'(unit = "{self.name}")'
            )
            return [self._finding("id", self.n, text)]
        if self.is_target and self._looks_like_counts():
            return [self._finding(
                "count", self.n_known, "looks like counts: use a range (not classes) and --model poisson",
                serious=False,
            )]  # fmt: skip
        return []

    def _looks_like_an_id(self, rows: float) -> bool:
        """Texts or whole numbers, nearly all different; or fewer, if the name says so or each stands in one place."""
        if self.n_commas >= _SERIOUS * max(self.n_known, 1):  # numbers, once they are written with points
            return False
        if self.n_different < _FEWEST_IDS or self.n_fractions > 0 or self.n_counted < _FEWEST_ROWS:
            return False
        if rows <= (1.5 if self.full else 1.1):  # of many rows the first have fewer repetitions than all
            return True
        in_one_place = 1.5 <= rows <= 100.0 and self.n_runs <= 1.1 * self.n_different
        return named_like_an_id(str(self.name)) or in_one_place

    def _looks_like_counts(self) -> bool:
        """Whole numbers from 0 or 1 on, the large ones rare."""
        if self.n_texts or self.n_fractions or self.full or not 4 <= self.n_different <= _MOST_COUNTS:
            return False
        if self.n_different < _CODES and self.low > 0.0:
            return False
        usual = max(self.counts, key=lambda value: self.counts[value])
        rare = self.counts[max(self.counts, key=_number)] <= self.counts[usual] / 4
        return 0.0 <= self.low <= 1.0 and _number(usual) <= self.high / 2 and rare

    def _are_dates_in_digits(self) -> bool:
        """Whole numbers such as 20240131."""
        if self.n_texts or self.n_fractions or not 19000101 <= self.low <= self.high <= 21001231 or not self.counts:
            return False
        digits = [int(_number(value)) for value in self.counts]
        return all(1 <= number // 100 % 100 <= 12 and 1 <= number % 100 <= 31 for number in digits)


def _rule(schema: Schema, name: str) -> Column:
    """What is declared of a column; a target is a number or categories whose rows are ignored where it is neither."""
    if name != schema.target.column:
        return schema.columns[name]
    target = schema.target
    return target.number if isinstance(target, Amount) else Category(target.classes, missing="row")


def _number(value: Any) -> float:
    """A value as a number, true as 1; NaN for what is none."""
    text = word(value)
    try:
        return float({"true": 1, "false": 0}.get(text, text))
    except ValueError:
        return np.nan


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %" if share >= 0.1 else f"{100.0 * share:.1f} %"
