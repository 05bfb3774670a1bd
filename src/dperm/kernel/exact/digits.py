"""Real numbers of which only some digits are known: what every exact draw is made of."""

from collections.abc import Callable, Iterator
from fractions import Fraction

# Gives the next uniformly random digit in base 2^width.
Word = Callable[[], int]

WIDTH = 32


class Uniform:
    """A number in [0, 1) whose digits are drawn when they are asked for.

    Parameters
    ----------
    word : callable
        Gives the next random digit.
    width : int
        Bits of a digit: 32, and fewer in tests, where numbers then are often equal in their first digits.
    """

    def __init__(self, word: Word, width: int = WIDTH) -> None:
        self._word, self.width = word, width
        self.digits: list[int] = []
        self.extend()

    def extend(self) -> None:
        """Draw one more digit. The digits that were not looked at are independent of all that was decided so far."""
        self.digits.append(self._word())

    def __lt__(self, other: "Uniform") -> bool:
        """Compare by as many digits as that takes."""
        i = 0
        while True:
            for number in (self, other):
                if len(number.digits) == i:
                    number.extend()
            if self.digits[i] != other.digits[i]:
                return self.digits[i] < other.digits[i]
            i += 1

    def is_below(self, ends: Iterator[tuple[Fraction, Fraction]]) -> bool:
        """Whether it is less than a real number that lies between ever closer ends."""
        low, high = next(ends)
        while True:
            mine_low, mine_high = self.ends()
            if mine_high <= low:
                return True
            if mine_low >= high:
                return False
            if mine_high - mine_low > high - low:
                self.extend()
            else:
                low, high = next(ends)

    def ends(self) -> tuple[Fraction, Fraction]:
        """Between which numbers it lies."""
        whole = 0
        for digit in self.digits:
            whole = (whole << self.width) | digit
        unit = Fraction(1, 1 << (self.width * len(self.digits)))
        return whole * unit, (whole + 1) * unit


class Number:
    """sign · (whole + part) with a part in [0, 1)."""

    def __init__(self, whole: int, part: Uniform, sign: int = 1) -> None:
        self.whole, self.part, self.sign = whole, part, sign

    def extend(self) -> None:
        """Draw one more digit."""
        self.part.extend()

    def ends(self) -> tuple[Fraction, Fraction]:
        """Between which numbers it lies, the lower one first."""
        low, high = (self.sign * (self.whole + end) for end in self.part.ends())
        return min(low, high), max(low, high)
