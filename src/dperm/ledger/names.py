"""Names of datasets: two that look alike must not be two budgets."""

import unicodedata
from collections.abc import Iterable
from itertools import groupby

from dperm.errors import InvalidParameterError

_LONGEST = 200
# Letters and marks that are printable by their category, and that nobody sees.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(0xFE00 + place) for place in range(16)
}
# Scripts with letters that look like those of another one.
_LOOK_ALIKE_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")


def check_text(name: str, value: object) -> str:
    """Raise unless it is short text without control characters: what a ledger can hold."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameterError(f"{name} must be a non-empty string.")
    if len(value) > _LONGEST or any(unicodedata.category(character) in {"Cc", "Cs"} for character in value):
        raise InvalidParameterError(f"{name} must be at most {_LONGEST} characters, without control characters.")
    return value


def new_name(value: str, taken: Iterable[str]) -> str:
    """The name of a new budget, in Unicode's composed form (NFC), or one sentence if another could look like it.

    Parameters
    ----------
    value : str
        What was asked for.
    taken : iterable of str
        The names that the ledger has.
    """
    name = check_text("dataset", unicodedata.normalize("NFC", check_text("dataset", value)))
    if name != name.strip() or "  " in name:
        raise InvalidParameterError("dataset must not have leading, trailing or double spaces.")
    if not name.isprintable() or _INVISIBLE & set(name) or unicodedata.normalize("NFKC", name) != name:
        raise InvalidParameterError(
            f"dataset must consist of plain visible characters; {name!a} has an invisible or look-alike one."
        )
    if any(len(_scripts(word)) > 1 for word in _words(name)):
        raise InvalidParameterError(
            f"every word of dataset must use a single script; {name!a} mixes look-alike letters."
        )
    for other in taken:
        if other != name and _key(other) == _key(name):
            raise InvalidParameterError(f"there is a budget {other!a} already, which looks like {name!a}.")
    return name


def _words(name: str) -> list[str]:
    return ["".join(letters) for is_word, letters in groupby(name, _is_letter) if is_word]


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


def _scripts(word: str) -> set[str]:
    names = (unicodedata.name(character, "").split(" ")[0] for character in word)
    return {script for script in names if script in _LOOK_ALIKE_SCRIPTS}


def _key(name: str) -> str:
    """What is left of a name without case, spaces and everything that cannot be seen."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(character for character in folded if character.isprintable() and character not in _INVISIBLE | {" "})
