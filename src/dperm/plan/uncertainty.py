"""What is released beside coefficients so that their uncertainty is known, and the intervals that follow from it.

Everything here is post-processing of released numbers; the argument is in docs/proofs/intervals.md.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dperm.errors import InvalidParameterError
from dperm.validation import count, finite, nonnegative, positive

Array = NDArray[np.float64]

# How finely the part of the Hessian's noise along w − w₀ is scanned, and after how many steps an end must be found.
_SHIFTS, _MOST_STEPS = 21, 200
# Ends of intervals are found to this share of their distance.
_TOLERANCE = 1e-6
# Numbers that are held a few times over while ends are sought.
_NUMBERS_AT_ONCE = 1_000_000
# How firmly levels are held to add up to 0, over the largest curvature.
_HOLD = 100.0
# No number of a fit is larger; squares of larger ones leave the range of floats.
_LARGEST = 1e60
# How often the second-order term is found again.
_CORRECTIONS = 5
# A load on directions that noise hides is taken for noise in an eigenvector up to this quantile.
_LOAD_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """A noisy gradient and a noisy Hessian of the mean loss without its penalty, at a released point.

    All numbers are in the units of the loss, with the constant column's coefficient last.

    Attributes
    ----------
    point : array of shape (p,)
        w₀, where both were asked for.
    gradient : array of shape (p,)
        The mean gradient there, with independent noise of standard deviation `gradient_noise` on every number.
    hessian : array of shape (p, p)
        The mean Hessian there, with symmetric noise: `hessian_noise` on the diagonal, 1/√2 of that off it.
    gradient_noise, hessian_noise : float
        Standard deviations; 0 for a fit without noise.
    dispersion : float
        φ: scores of one row have the variance φ times the Hessian. 1 for logistic and Poisson models, the variance of
        residuals for least squares.
    bend : float
        A bound on how fast curvature changes, |ℓ'''|/ℓ'' times the longest row; 0 for least squares.
    skew : float
        ℓ'''/ℓ'' where it is the same for every row: 1 for Poisson losses; 0 where it is not known, or 0.
    constant : float
        Value of the constant column, 0 without one.
    n : int
        The public number of rows.
    groups : tuple of (int, int)
        First and last place, the last not included, of the levels of every category. A constant column, or another
        category, makes one of them redundant: they are given relative to their mean, so that they add up to 0.
    """

    point: Array
    gradient: Array
    hessian: Array
    gradient_noise: float
    hessian_noise: float
    dispersion: float
    bend: float
    skew: float
    constant: float
    n: int
    groups: tuple[tuple[int, int], ...] = ()

    @property
    def redundant(self) -> tuple[tuple[int, int], ...]:
        """The categories whose levels are held to add up to 0: without a constant column all but the first."""
        return self.groups if self.constant else self.groups[1:]

    def nearer_point(self) -> Array:
        """A point that is likely nearer to where the loss without its penalty is least: for asking again there.

        It moves along the directions in which it is off by more than noise explains, and never so far that the
        curvature of a row could change by more than e⁴.
        """
        known = _Directions.of(self, 4.0)
        step, noise = known.step, self.hessian_noise**2 / 2.0
        spread = (known.variances + noise * (step @ step + known.hidden_size)) / known.curvatures**2
        moved = known.loads @ (step * np.maximum(0.0, 1.0 - spread / np.maximum(step**2, 1e-300)))
        length = self.bend * float(np.linalg.norm(moved))
        return self.point + moved * min(1.0, 4.0 / max(length, 1e-300))

    def estimates(self) -> tuple[Array, Array]:
        """One step from the point to where the loss without its penalty is least, and its standard errors.

        Where the interval of 95 % is infinite the standard error is infinite too.
        """
        known = _Directions.of(self, chi2.ppf(0.95, 1))
        estimate, step = known.estimate, known.step
        noise = self.hessian_noise**2 / 2.0
        spread = (known.variances + noise * (step @ step + known.hidden_size)) / known.curvatures**2
        along = noise * (known.loads @ (step / known.curvatures)) ** 2  # of the noise along the step itself
        errors = np.sqrt(known.loads**2 @ spread + along)
        return estimate, np.where(np.isinf(self.intervals(0.95)[1]), np.inf, errors)

    def intervals(self, level: float = 0.95) -> tuple[Array, Array]:
        """Both ends of every coefficient's interval: what noise and sampling do not exclude at this level.

        w is in the joint set where rᵀ Σ⁻¹ r ≤ χ²(level), with r = H̃(w − w₀) + g̃ and Σ its covariance at w: sampling,
        the noise of the gradient, and that of the Hessian, which grows with ‖w − w₀‖. An interval holds what a
        coefficient can be in that set. It is infinite where the set has no end.
        """
        if not 0.0 < finite("level", level) < 1.0:
            raise InvalidParameterError(f"level must lie strictly between 0 and 1, got {level!r}.")
        with np.errstate(all="ignore"):  # numbers that leave the range of floats have no end
            return self._ends(float(chi2.ppf(level, 1)))

    def _ends(self, most: float) -> tuple[Array, Array]:
        noise = self.hessian_noise
        known = _Directions.of(self, most)
        # The Hessian's noise times d is N(0, σ²/2 (‖d‖² I + d dᵀ)). The part along d is that of a number θ ~ N(0, σ²/2)
        # by which all curvatures are off; Q is the least over θ of what is left, plus 2θ²/σ².
        parts = np.linspace(-1.0, 1.0, _SHIFTS) if noise > 0.0 else np.zeros(1)
        shifts, left = noise * math.sqrt(most / 2.0) * parts, most * np.maximum(1.0 - parts**2, 1e-9)
        ends = np.full((2, self.point.size), np.inf)
        at_once = max(1, _NUMBERS_AT_ONCE // (2 * parts.size * max(known.curvatures.size, 1)))
        for first in range(0, self.point.size, at_once):
            places = np.arange(first, min(first + at_once, self.point.size))
            for row, sign in enumerate((-1.0, 1.0)):
                grid = np.repeat(places, parts.size)
                found = sign * known.ends(grid, sign, np.tile(shifts, places.size), np.tile(left, places.size), noise)
                ends[row, places] = found.reshape(places.size, parts.size).max(axis=1)
        endless = known.hidden | np.isinf(ends).any(axis=0)
        return np.where(endless, -np.inf, -ends[0]), np.where(endless, np.inf, ends[1])

    def to_dict(self) -> dict[str, Any]:
        """Plain data; of the Hessian the upper triangle, row by row."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        values["groups"] = [list(group) for group in self.groups]
        values["hessian"] = self.hessian[np.triu_indices(self.point.size)].tolist()
        return values | {name: values[name].tolist() for name in ("point", "gradient")}

    @classmethod
    def from_dict(cls, content: Any, size: int) -> "Uncertainty":
        """Read what `to_dict` wrote, for this many coefficients.

        Raises
        ------
        ValueError, TypeError, KeyError
            If it is not that.
        """
        if set(content) != {part.name for part in fields(cls)}:
            raise ValueError("uncertainty")
        arrays = {name: _numbers(content[name]) for name in ("point", "gradient", "hessian")}
        if [array.size for array in arrays.values()] != [size, size, size * (size + 1) // 2]:
            raise ValueError("uncertainty")
        upper = np.zeros((size, size))
        upper[np.triu_indices(size)] = arrays["hessian"]
        return cls(
            arrays["point"],
            arrays["gradient"],
            upper + np.triu(upper, 1).T,
            nonnegative("gradient_noise", content["gradient_noise"]),
            nonnegative("hessian_noise", content["hessian_noise"]),
            positive("dispersion", content["dispersion"]),
            nonnegative("bend", content["bend"]),
            nonnegative("skew", content["skew"]),
            nonnegative("constant", content["constant"]),
            count("n", content["n"]),
            _groups(content["groups"], size),
        )


def _groups(values: Any, size: int) -> tuple[tuple[int, int], ...]:
    """Indices of levels, in order and none of them twice."""
    found, reached = tuple((int(first), int(last)) for first, last in values), 0
    if [list(group) for group in found] != [list(group) for group in values]:
        raise ValueError("groups")
    for first, last in found:
        if not reached <= first < last <= size:
            raise ValueError("groups")
        reached = last
    return found


def _numbers(values: Any) -> Array:
    """A list of plain numbers, none so large that it is none of a fit, as an array."""
    found = np.array([finite("a number", value) for value in list(values)], dtype=np.float64)
    if (np.abs(found) > _LARGEST).any():
        raise ValueError("a number")
    return found


@dataclass(frozen=True, eq=False)
class _Directions:
    """The eigenvectors of the noisy Hessian along which it is larger than its noise, and what is known along them.

    Attributes
    ----------
    curvatures : array of shape (k,)
        λ, the eigenvalues that stand out.
    loads : array of shape (p, k)
        What a coefficient has of each of these directions.
    slopes : array of shape (k,)
        g̃ along them.
    variances : array of shape (k,)
        Of g̃ along them, by sampling and noise.
    base : array of shape (p,)
        The part of w₀ in these directions.
    hidden_size : float
        About ‖w − w₀‖² along the directions that noise hides.
    hidden : array of bool
        The coefficients that have more of those directions than noise in eigenvectors explains.
    """

    curvatures: Array
    loads: Array
    slopes: Array
    variances: Array
    base: Array
    hidden_size: float
    hidden: NDArray[np.bool_]

    @classmethod
    def of(cls, known: Uncertainty, most: float) -> "_Directions":
        (hessian, gradient), noise = _held_together(known), known.hessian_noise
        values, vectors = np.linalg.eigh(hessian)
        # An eigenvalue within √χ² standard deviations of 0 could be 0: along it the joint set has no end.
        seen = values > max(noise * math.sqrt(most) * (1.0 + 1e-6), 1e-12 * max(float(values[-1]), 1e-300))
        loads, curvatures, start = vectors[:, seen], values[seen], known.point @ vectors
        slopes = gradient @ loads
        variances = known.dispersion * curvatures / known.n + known.gradient_noise**2
        if known.skew and known.constant:
            slopes, variances = _second_order(known, loads, curvatures, slopes, variances)
        n_hidden, reached = int((~seen).sum()), start[seen] - slopes / curvatures
        size, hidden = 0.0, np.zeros(values.size, dtype=bool)
        if n_hidden:
            # What noise hides is taken to be as large as what the fit found there, or as what stands out.
            typical = float(np.mean(reached**2)) if reached.size else 0.0
            size = max(float(start[~seen] @ start[~seen]), n_hidden * typical)
            # Along them the loss may bend by what the noise hides, so that slopes elsewhere are off by up to this.
            variances = variances + (0.5 * known.bend * noise * math.sqrt(most) * size) ** 2
            explained = noise**2 / 2.0 * (loads**2 @ (1.0 / curvatures**2)) * chi2.ppf(_LOAD_LEVEL, n_hidden)
            hidden = np.sum(vectors[:, ~seen] ** 2, axis=1) > explained + 1e-18
        return cls(curvatures, loads, slopes, variances, loads @ start[seen], size, hidden)

    @property
    def step(self) -> Array:
        """From the point to the estimate."""
        return -self.slopes / self.curvatures

    @property
    def estimate(self) -> Array:
        """One Newton step along the directions that stand out; none of the others."""
        return self.base + self.loads @ self.step

    def ends(self, places: NDArray[np.intp], sign: float, shifts: Array, most: Array, noise: float) -> Array:
        """The largest (sign 1) or smallest (−1) value of a coefficient with Σ (λ'd + g)²/D(d) ≤ most, for every place.

        λ' = λ − shift and D = variances + σ²/2 ‖d‖². 1/D is linearised in ‖d‖² where d is; then the set is an
        ellipsoid, whose end is known, and d moves there. What does not come to rest, or has no end, is infinite.
        """
        value = np.full(places.size, sign * np.inf)
        loads, curvatures, half = self.loads[places], self.curvatures - shifts[:, None], noise**2 / 2.0
        moving, d = np.arange(places.size), -self.slopes / curvatures
        for _ in range(_MOST_STEPS if self.curvatures.size else 0):
            lengths = np.sum(d**2, axis=1)
            weights = 1.0 / (self.variances + half * (lengths + self.hidden_size)[:, None])
            pull = half * np.sum((weights * (curvatures * d + self.slopes)) ** 2, axis=1)
            matrix = weights * curvatures**2 - pull[:, None]
            open_ended = (matrix <= 0.0).any(axis=1)
            matrix = np.where(matrix > 0.0, matrix, np.inf)
            linear = weights * curvatures * self.slopes
            radius = np.sum(linear**2 / matrix - weights * self.slopes**2, axis=1) - pull * lengths + most
            open_ended |= radius < 0.0
            along = loads / matrix
            extent = np.sqrt(np.maximum(radius, 0.0) / np.maximum(np.sum(loads * along, axis=1), 1e-300))
            moved = -linear / matrix + sign * extent[:, None] * along
            still = np.abs(moved - d).max(axis=1) <= _TOLERANCE * (np.abs(moved).max(axis=1) + 1e-300)
            found = still & ~open_ended
            value[moving[found]] = self.base[places[moving[found]]] + np.sum(loads[found] * moved[found], axis=1)
            on = ~(still | open_ended)
            moving, d, loads, curvatures, most = moving[on], moved[on], loads[on], curvatures[on], most[on]
            if not moving.size:
                break
        return value


def _held_together(known: Uncertainty) -> tuple[Array, Array]:
    """The Hessian and the gradient, with levels of categories held to add up to 0.

    With v the direction of the levels' sum the true w has vᵀw = 0, so that κ v vᵀw may be added to H(w − w₀) + g.
    """
    if not known.redundant:
        return known.hessian, known.gradient
    sums = np.zeros((known.point.size, len(known.redundant)))
    for place, (first, last) in enumerate(known.redundant):
        sums[first:last, place] = 1.0 / math.sqrt(last - first)
    strength = _HOLD * max(float(np.linalg.norm(known.hessian, 2)), known.hessian_noise, 1e-300)
    return known.hessian + strength * (sums @ sums.T), known.gradient + strength * (sums @ (sums.T @ known.point))


def _second_order(
    known: Uncertainty, loads: Array, curvatures: Array, slopes: Array, variances: Array
) -> tuple[Array, Array]:
    """Slopes and their variances with what the loss bends along the constant column: skew · c/2 · dᵀHd.

    It is the same whatever the other columns are. What noise adds to dᵀHd is taken off.
    """
    column = 0.5 * known.skew * known.constant * loads[-1]
    inner = loads.T @ known.hessian @ loads / np.outer(curvatures, curvatures)
    bent = slopes
    for _ in range(_CORRECTIONS):
        spread = variances + known.hessian_noise**2 / 2.0 * float(np.sum((bent / curvatures) ** 2))
        found = float(bent @ inner @ bent) - float(np.sum(np.diag(inner) * spread))
        bent = slopes + column * max(found, 0.0)
    return bent, variances + 4.0 * column**2 * float(np.sum((bent / curvatures) ** 2 * variances))
