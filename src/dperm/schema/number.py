"""Numeric columns: one linear entry, or an entry at each end of the bin that a number is in."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.schema.checks import Range, interval, sequence
from dperm.validation import count, finite, one_of

# Ranges that are not known in advance: their ends are sought among 0 and ± these, or evenly where bounds are known.
_MAGNITUDES = tuple(float(f"{2.0 ** (power / 8):.3g}") for power in range(-160, 481))
_EVEN_CANDIDATES = 1000

ENCODINGS = ("auto", "linear", "bins")

# What may be done to numbers before they are scaled: the function, its inverse, and what they must be larger than.
_TRANSFORMS = {"log": (np.log, np.exp, 0.0), "log1p": (np.log1p, np.expm1, -1.0)}


@dataclass(frozen=True)
class Number:
    """A numeric column with a range, which becomes [−1, 1], or bins.

    Parameters
    ----------
    range : (float, float) or "private"
        The public range; or "private" where it is not public knowledge, and then a share of the budget finds one.
    within : (float, float), optional
        Public bounds on a private range: it is then found among evenly spaced numbers between them.
    outside : {"clip", "missing"}
        What a number out of range becomes: the nearer end, or a missing value.
    missing : "middle", "column", "row", or a number
        What a missing value, or a text that is not a number, becomes: the middle of the range, the middle and a 1 in a
        separate column, nothing (the whole row is dropped in a fit), or this number.
    released : bool
        Whether the range came out of a fit, which accounted for it.
    encode : {"auto", "linear", "bins"}, optional
        One entry from −1 to 1, or an entry at each end of the bin that the number is in, the larger the nearer;
        "auto" decides from public numbers when a fit is planned. By default as the schema says.
    bins : {"even", "private"}, optional
        Where bins are cut: evenly in the range, or at quantiles that a share of the budget finds. Decided with the
        plan if it is left out.
    n_bins : int, optional
        How many bins, from 2 to 64. Decided with the plan if it is left out.
    edges : sequence of float, optional
        Where private bins were cut by the fit that released them.
    transform : {"log", "log1p"}, optional
        Take the logarithm of x, or of 1 + x, before anything is scaled or cut: for numbers of very different sizes. The
        range must lie above 0, or above −1.

    Examples
    --------
    >>> Number((17, 90)).column_names("age")
    ('age',)
    >>> Number((0, 80), encode="bins", bins="even", n_bins=2).column_names("age")
    ('age at 0', 'age at 40', 'age at 80')
    """

    range: Range | str
    within: Range | None = None
    outside: str = "clip"
    missing: float | str = "middle"
    released: bool = False
    encode: str | None = None
    bins: str | None = None
    n_bins: int | None = None
    edges: tuple[float, ...] | None = None
    transform: str | None = None

    def __post_init__(self) -> None:
        """Check every word and number."""
        one_of("outside", self.outside, ("clip", "missing"))
        if isinstance(self.range, str):
            one_of("range", self.range, ("private",))
            if self.within is not None:
                object.__setattr__(self, "within", interval("within", self.within, narrowest=1e-6))
        else:
            object.__setattr__(self, "range", interval("range", self.range))
            if self.within is not None:
                raise InvalidParameterError('within goes with range = "private".')
        if isinstance(self.missing, str):
            one_of("missing", self.missing, ("middle", "column", "row"))
        else:
            object.__setattr__(self, "missing", finite("missing", self.missing))
        if not isinstance(self.released, bool) or (self.released and self.private):
            raise InvalidParameterError("released must be true or false, and requires a range of numbers.")
        self._check_bins()
        self._check_transform()

    def _check_transform(self) -> None:
        if self.transform is None:
            return
        one_of("transform", self.transform, tuple(_TRANSFORMS))
        ends = self.within if self.private else self.bounds
        floor = _TRANSFORMS[self.transform][2]
        if ends is not None and not ends[0] > floor:
            raise InvalidParameterError(
                f'transform = "{self.transform}" needs a range above {floor:g}'
                + ('; for one that begins at 0 take "log1p".' if floor == 0.0 else ".")
            )
        if not self.private:
            interval("the logarithm of range", self.span)

    def transformed(self, numbers: Any) -> NDArray[np.float64]:
        """Numbers of the range as they are scaled: themselves, or their logarithms."""
        values = np.asarray(numbers, dtype=np.float64)
        return values if self.transform is None else np.asarray(_TRANSFORMS[self.transform][0](values))

    def in_range(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers, NaN for those out of range where they count as missing."""
        low, high = self.bounds
        is_outside = (numbers < low) | (numbers > high)
        return np.where(is_outside, np.nan, numbers) if self.outside == "missing" else numbers

    def taken_back(self, values: Any) -> NDArray[np.float64]:
        """The way back from `transformed`."""
        values = np.asarray(values, dtype=np.float64)
        return values if self.transform is None else np.asarray(_TRANSFORMS[self.transform][1](values))

    @property
    def span(self) -> Range:
        """The range of transformed numbers."""
        low, high = self.transformed(self.bounds).tolist()
        return low, high

    @property
    def middle(self) -> float:
        """What stands in the middle of the range, by the numbers that are scaled."""
        low, high = self.span
        return float(self.taken_back(low / 2 + high / 2))

    def _check_bins(self) -> None:
        if self.encode is not None:
            one_of("encode", self.encode, ENCODINGS)
        if self.bins is not None:
            one_of("bins", self.bins, ("even", "private"))
        if self.encode == "linear" and (self.bins, self.n_bins) != (None, None):
            raise InvalidParameterError('bins and n_bins go with encode = "bins".')
        if self.n_bins is not None and not 2 <= count("n_bins", self.n_bins) <= 64:
            raise InvalidParameterError(f"n_bins must lie between 2 and 64, got {self.n_bins}.")
        if self.edges is None:
            return
        edges = tuple(finite("edges", edge) for edge in sequence("edges", self.edges))
        if self.bins != "private" or self.private or len(edges) + 1 != self.n_bins:
            raise InvalidParameterError('edges are written by a fit with bins = "private", one fewer than n_bins.')
        if any(low >= high for low, high in pairwise((self.bounds[0], *edges, self.bounds[1]))):
            raise InvalidParameterError("edges must increase within the range.")
        object.__setattr__(self, "edges", edges)

    @property
    def private(self) -> bool:
        """Whether a fit finds the range itself, with a share of its privacy budget."""
        return isinstance(self.range, str)

    @property
    def bounds(self) -> Range:
        """The range as two numbers."""
        if isinstance(self.range, str):
            raise InvalidParameterError("a private range is known only after a fit.")
        return self.range

    @property
    def candidates(self) -> tuple[float, ...]:
        """Where the ends of a private range may lie, in rising order."""
        if self.within is not None:
            low, high = self.within
            return tuple(low + (high - low) * step / _EVEN_CANDIDATES for step in range(_EVEN_CANDIDATES + 1))
        everywhere = (*(-size for size in reversed(_MAGNITUDES)), 0.0, *_MAGNITUDES)
        return (
            everywhere
            if self.transform is None
            else tuple(end for end in everywhere if end > _TRANSFORMS[self.transform][2])
        )

    @property
    def binned(self) -> bool:
        """Whether it is decided that the number becomes bins."""
        return self.encode == "bins" and self.bins is not None and self.n_bins is not None

    @property
    def private_edges(self) -> bool:
        """Whether a fit must still find where the bins are cut."""
        return self.binned and self.bins == "private" and self.edges is None

    @property
    def knots(self) -> tuple[float, ...]:
        """The ends of all bins, rising, from one end of the range to the other."""
        low, high = self.bounds
        if self.edges is not None:
            return (low, *self.edges, high)
        if self.n_bins is None or self.private_edges:
            raise InvalidParameterError("private bins are known only after a fit.")
        first, last = self.span
        even = (first + (last - first) * (step / self.n_bins) for step in range(1, self.n_bins))
        return (low, *(float(self.taken_back(knot)) for knot in even), high)

    def column_names(self, name: str) -> tuple[str, ...]:
        """Names of the columns in an encoded row; one for a number that is not binned, or not yet."""
        names = self._knot_names(name) if self.binned else (name,)
        return (*names, f"{name}: missing") if self.missing == "column" else names

    def _knot_names(self, name: str) -> tuple[str, ...]:
        assert self.n_bins is not None
        if self.private or self.private_edges:
            return tuple(f"{name} at knot {place}" for place in range(1, self.n_bins + 2))
        # In digits that tell all of them apart.
        texts = [[f"{knot:.{digits}g}" for knot in self.knots] for digits in (4, 6, 9, 13, 17)]
        apart = next(written for written in texts if len(set(written)) == len(written))
        return tuple(f"{name} at {knot}" for knot in apart)
