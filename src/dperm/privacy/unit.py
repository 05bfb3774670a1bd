"""The privacy unit, if it is not one row: a person, a day, a device, with all of its rows."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.validation import count, one_of

CONTRIBUTIONS = ("limit", "average")
MISSING = ("separate", "ignore")

# What columns of ids are called besides what their entries stand for.
_OF_IDS = {"guid", "id", "ids", "identifier", "key", "no", "nr", "num", "number", "uuid"}
# Words that end in "id" for another reason, paid and solid, are many; these do for this one.
_ID = r"(p|u|account|case|client|customer|device|employee|household|member|patient|person|student|subject|user)id"


def counted(unit: "PrivacyUnit | None") -> str:
    """What n is the number of, in a word."""
    return "rows" if unit is None else "units"


@dataclass(frozen=True)
class PrivacyUnit:
    """A privacy unit: which rows are protected together, and how they are weighted. Proof: docs/proofs/units.md.

    Neighbouring datasets differ in all rows of one unit: replaced under replace_one, added or removed under add_remove.
    n is the number of units.

    Parameters
    ----------
    name : str
        The column that identifies the privacy unit, e.g. "patient_id".
    max_rows : int, optional
        Use at most this many rows of each unit, chosen at random. Required for "limit".
    contribution : {"limit", "average"}
        Weight of a unit's row: 1/max_rows, so that all rows count the same, or 1/(rows used of the unit), so that all
        units do.
    missing : {"separate", "ignore"}
        Rows without a usable id: count each as its own unit, or drop them.

    Examples
    --------
    >>> unit = PrivacyUnit("patient_id", 5)
    >>> unit.described
    'one patient, with up to 5 rows'
    >>> unit.rows_in_words
    'at most 5 rows of one patient are used, chosen at random, each weighs 1/5'
    """

    name: str
    max_rows: int | None = None
    contribution: str = "limit"
    missing: str = "separate"

    def __post_init__(self) -> None:
        """Refuse what bounds nobody."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidParameterError(
                f"unit must be the name of the column that identifies the privacy unit, got {self.name!r}."
            )
        object.__setattr__(self, "name", str(self.name))
        if self.max_rows is not None:
            object.__setattr__(self, "max_rows", count("max_rows_per_unit", self.max_rows))
        one_of("contribution", self.contribution, CONTRIBUTIONS)
        one_of("missing_units", self.missing, MISSING)
        if self.max_rows is None and self.contribution == "limit":
            raise InvalidParameterError(
                f"with unit = {self.name!r} pass max_rows_per_unit, or average the rows of each unit (contribution = "
                '"average").'
            )

    @property
    def word(self) -> str:
        """What one is called: the column's name without its "_id", unless that is a row, or several of something."""
        words = _words(self.name)
        while len(words) > 1 and words[-1].lower() in _OF_IDS:
            words.pop()
        if len(words) > 1 and words[0].lower() == "id":
            del words[0]
        word = " ".join(words).lower() if words else self.name
        return f"unit of {self.name}" if word == "row" or word.endswith("s") else word

    @property
    def described(self) -> str:
        """One of them, in words."""
        if self.max_rows is None:
            return f"one {self.word}, with all of its rows"
        return f"one {self.word}, with up to {self.max_rows} row{'s' if self.max_rows > 1 else ''}"

    def numbered(self, n: int) -> str:
        """A number of them: "1 unit", "20 units"."""
        return f"{n} unit{'' if n == 1 else 's'}"

    @property
    def rows_in_words(self) -> str:
        """How the rows of one are used, without a full stop."""
        if self.max_rows is None:
            return f"all rows of one {self.word} are used, each weighs one over their number"
        if self.max_rows == 1:
            return f"at most one row of one {self.word} is used, chosen at random"
        weighs = "one over their number" if self.contribution == "average" else f"1/{self.max_rows}"
        return f"at most {self.max_rows} rows of one {self.word} are used, chosen at random, each weighs {weighs}"

    @property
    def missing_in_words(self) -> str:
        """How rows without an id are treated, without a full stop."""
        fate = f"count as one {self.word} each" if self.missing == "separate" else "are dropped"
        return f"rows without a usable {self.name} {fate}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> "PrivacyUnit":
        """Read what `to_dict` wrote."""
        if not isinstance(content, dict) or set(content) != {"name", "max_rows", "contribution", "missing"}:
            raise ValueError("unit")
        return cls(**content)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s._-]+|(?<=[a-z])(?=[A-Z])", name) if word]


def named_like_an_id(name: str) -> bool:
    """Whether a column's name begins or ends as those of ids do: patient_id, customerNumber, ID_case, userid."""
    words = [word.lower() for word in _words(name)]
    return bool(words) and (words[-1] in _OF_IDS or words[0] == "id" or re.fullmatch(_ID, words[-1]) is not None)
