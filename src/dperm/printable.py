"""Text from outside on its way to a person: it cannot end a line, reorder one, or fail to be printed."""

import unicodedata

# Control characters, line and paragraph separators, halves of surrogate pairs.
_UNPRINTABLE = frozenset(("Cc", "Zl", "Zp", "Cs"))
# What makes a terminal show characters in another order than they are in.
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def one_line(text: object) -> str:
    r"""The text with everything escaped that could end a line or reorder it; other text is as it was.

    Examples
    --------
    >>> one_line("m.json\nverified")
    'm.json\\nverified'
    """
    return "".join(_escaped(character) for character in str(text))


def _escaped(character: str) -> str:
    if character in _REORDERING or unicodedata.category(character) in _UNPRINTABLE:
        return character.encode("unicode_escape").decode("ascii")
    return character
