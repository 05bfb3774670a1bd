"""What is released beside coefficients so that their uncertainty is known, and the intervals that follow from it.

Everything here is post-processing of released numbers; the argument is in docs/proofs/intervals.md.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dperm.errors import InvalidParameter
from dperm.validation import count, finite, nonnegative, positive

Array = NDArray[np.float64]

# How finely the part of the Hessian's noise along w − w₀ is scanned, and after how many steps an end must be found.
_SHIFTS, _MOST_STEPS = 21, 200
# Ends of intervals are found to this share of their distance.
_TOLERANCE = 1e-8
# How often the second-order term is found anew.
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
        First and last place, the last not included, of the levels of a category that a constant column, or another
        category, makes redundant: they are given relative to their mean, so that they add up to 0.
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

        Where noise hides the curvature of a coefficient its standard error is infinite.
        """
        known = _Directions.of(self, chi2.ppf(0.95, 1))
        estimate, step = known.estimate, known.step
        noise = self.hessian_noise**2 / 2.0
        spread = (known.variances + noise * (step @ step + known.hidden_size)) / known.curvatures**2
        along = noise * (known.loads @ (step / known.curvatures)) ** 2  # of the noise along the step itself
        errors = np.sqrt(known.loads**2 @ spread + along)
        return estimate, np.where(known.hidden, np.inf, errors)

    def intervals(self, level: float = 0.95) -> tuple[Array, Array]:
        """Both ends of every coefficient's interval: what noise and sampling do not exclude at this level.

        w is in the joint set where rᵀ Σ⁻¹ r ≤ χ²(level), with r = H̃(w − w₀) + g̃ and Σ its covariance at w: sampling,
        the noise of the gradient, and that of the Hessian, which grows with ‖w − w₀‖. An interval holds what a
        coefficient can be in that set. It is infinite where the set has no end.
        """
        if not 0.0 < finite("level", level) < 1.0:
            raise InvalidParameter(f"level must lie strictly between 0 and 1, got {level!r}.")
        most = float(chi2.ppf(level, 1))
        known = _Directions.of(self, most)
        lower, upper = np.full(self.point.size, np.inf), np.full(self.point.size, -np.inf)
        noise = self.hessian_noise
        # The Hessian's noise times d is N(0, σ²/2 (‖d‖² I + d dᵀ)). The part along d is that of a number θ ~ N(0, σ²/2)
        # by which all curvatures are off; Q is the least over θ of what is left, plus 2θ²/σ².
        shifts = noise * math.sqrt(most / 2.0) * np.linspace(-1.0, 1.0, _SHIFTS) if noise > 0.0 else np.zeros(1)
        for shift in shifts:
            left = max(most - (2.0 * (shift / noise) ** 2 if noise > 0.0 else 0.0), 1e-9 * most)
            lower = np.minimum(lower, known.end(-1.0, shift, left, noise))
            upper = np.maximum(upper, known.end(1.0, shift, left, noise))
        return np.where(known.hidden, -np.inf, lower), np.where(known.hidden, np.inf, upper)

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
        if (arrays["point"].size, arrays["gradient"].size, arrays["hessian"].size) != (
            size,
            size,
            size * (size + 1) // 2,
        ):
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
    """Places of levels, in order and none of them twice."""
    found, reached = tuple((int(first), int(last)) for first, last in values), 0
    if [list(group) for group in found] != [list(group) for group in values]:
        raise ValueError("groups")
    for first, last in found:
        if not reached <= first < last <= size:
            raise ValueError("groups")
        reached = last
    return found


def _numbers(values: Any) -> Array:
    """A list of plain finite numbers as an array."""
    return np.array([finite("a number", value) for value in list(values)], dtype=np.float64)


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
        hessian, gradient, noise = known.hessian, known.gradient, known.hessian_noise
        if known.groups:
            # Levels that add up to 0 change no prediction. With v the direction of their sum, the true w has vᵀw = 0,
            # so that κ v vᵀw may be added to both sides of H(w − w₀) + g = 0.
            sums = np.zeros((known.point.size, len(known.groups)))
            for place, (first, last) in enumerate(known.groups):
                sums[first:last, place] = 1.0 / math.sqrt(last - first)
            strength = max(float(np.linalg.norm(hessian, 2)), noise, 1e-300)
            hessian = hessian + strength * (sums @ sums.T)
            gradient = gradient + strength * (sums @ (sums.T @ known.point))
        values, vectors = np.linalg.eigh(hessian)
        # An eigenvalue within √χ² standard deviations of 0 could be 0: along it the joint set has no end.
        seen = values > max(noise * math.sqrt(most) * (1.0 + 1e-6), 1e-12 * max(float(values[-1]), 1e-300))
        loads, curvatures = vectors[:, seen], values[seen]
        start = known.point @ vectors
        variances = known.dispersion * curvatures / known.n + known.gradient_noise**2
        slopes = gradient @ loads
        if known.skew and known.constant:
            # To second order the slope of the constant column is off by skew · c/2 · dᵀHd, whatever the other columns are.
            column = 0.5 * known.skew * known.constant * loads[-1]
            plain = slopes
            for _ in range(_CORRECTIONS):
                spread = variances + noise**2 / 2.0 * float(np.sum((slopes / curvatures) ** 2))
                found = float(np.sum((slopes**2 - spread) / curvatures))  # what noise adds to dᵀHd taken off
                slopes = plain + column * max(found, 0.0)
            variances = variances + 4.0 * column**2 * float(np.sum((slopes / curvatures) ** 2 * variances))
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

    def end(self, sign: float, shift: float, most: float, noise: float) -> Array:
        """The largest (sign 1) or smallest (−1) value of every coefficient with Σ (λ'd + g)²/D(d) ≤ most.

        λ' = λ − shift and D = variances + σ²/2 ‖d‖². 1/D is linearised in ‖d‖² where d is; then the set is an
        ellipsoid, whose end is known, and d moves there. What does not come to rest, or has no end, is infinite.
        """
        n_coefficients, size = self.loads.shape
        if size == 0:
            return np.full(n_coefficients, sign * np.inf)
        curvatures, half = self.curvatures - shift, noise**2 / 2.0
        d = np.tile(-self.slopes / curvatures, (n_coefficients, 1))
        bounded, moving = np.ones(n_coefficients, dtype=bool), np.ones(n_coefficients, dtype=bool)
        for _ in range(_MOST_STEPS):
            now = d[moving]
            lengths = np.sum(now**2, axis=1)
            weights = 1.0 / (self.variances + half * (lengths + self.hidden_size)[:, None])
            pull = half * np.sum((weights * (curvatures * now + self.slopes)) ** 2, axis=1)
            matrix = weights * curvatures**2 - pull[:, None]
            open_ended = (matrix <= 0.0).any(axis=1)
            matrix = np.where(matrix > 0.0, matrix, np.inf)
            linear = weights * curvatures * self.slopes
            radius = (
                np.sum(linear**2 / matrix, axis=1) - np.sum(weights * self.slopes**2, axis=1) - pull * lengths + most
            )
            open_ended |= radius < 0.0
            loads = self.loads[moving] / matrix
            extent = np.sqrt(np.maximum(radius, 0.0) / np.maximum(np.sum(self.loads[moving] * loads, axis=1), 1e-300))
            moved = -linear / matrix + sign * extent[:, None] * loads
            still = np.abs(moved - now).max(axis=1) <= _TOLERANCE * (np.abs(moved).max(axis=1) + 1e-300)
            d[moving] = moved
            places = np.flatnonzero(moving)
            bounded[places[open_ended]] = False
            moving[places[still | open_ended]] = False
            if not moving.any():
                break
        value = self.base + np.sum(self.loads * d, axis=1)
        return np.where(bounded & ~moving, value, sign * np.inf)
