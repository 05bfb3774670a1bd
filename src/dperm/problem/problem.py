"""The problem: minimise (1/n) Σ f(w, z_i) + r(w) over C, and its constants from declared bounds alone."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.problem.domains import Domain, WholeSpace
from dperm.problem.domains.polytope import EntropicDomain
from dperm.problem.geometry.mirror import MirrorDomain
from dperm.problem.losses.base import RowLoss
from dperm.problem.prox import composite_prox, prox_is_exact
from dperm.problem.regularizers import NoRegularizer, Regularizer
from dperm.remembered import remembered
from dperm.validation import finite, positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Constants:
    """What the theorems need to know about a problem; every number is public.

    Attributes
    ----------
    lipschitz : float
        G, a bound on ‖∇f(w, z)‖₂ for every row and every w in C.
    lipschitz_at_zero : float
        G₀, a bound on ‖∇f(0, z)‖₂ for every row.
    smoothness : float
        L, the smoothness of one f(·, z).
    strong_convexity : float
        μ of F^r, from the regularizer.
    diameter : float
        ‖C‖₂, possibly infinite.
    initial_gap : float
        A bound on F^r(start) − min F^r.
    convex : bool
        Whether every f(·, z) is convex.
    exact_prox : bool
        Whether the proximal step of r on C is computed exactly, hence does not expand distances.
    monotone : bool
        Whether every row's slope ∂ℓ/∂margin keeps its sign.
    sigmoidal : bool
        Whether a row's ℓ''‖x‖² is at most 4L t(1 − t) where its gradient is t times the largest.
    n_outputs : int
        Margins per row; 1 for a generalized linear model in the strict sense.
    dimension : int
        Number of coefficients, the constant column included.
    gaussian_width : float
        G_C, possibly infinite.
    divergence_bound : float
        A bound on B_w(w*, x_0) of the domain's mirror map; infinite without one.
    mirror_noise : float
        V, what standard normal noise costs a step of that map; infinite without one.
    n_vertices : int
        How many vertices the domain lists, 0 if it lists none.
    vertex_lipschitz : float
        A bound on |⟨v, ∇f(w, z)⟩| for every row, every vertex v and every w in C.
    curvature : float
        Γ, a bound on the curvature of f(·, z) along any segment in C: f(w + γ(v − w), z) lies at most γ²Γ/2 above its
        tangent.
    norm_bound : float
        A bound on ‖w‖₂ over C, possibly infinite.
    sigmoid_norm : float
        The bound on a row's norm, the constant column included, if a row's slope is known to be the sigmoid of its
        margin, and infinite otherwise. Then the gradient sum moves less at small w.
    softmax : bool
        Whether a row's gradient is known to be ω(p − e_k) ⊗ x, p the softmax of its margins and k its class.
    fan_in : int
        How many numbers the sums on a row's way have, one sum of every layer: the columns, for losses of margins.
    """

    lipschitz: float
    lipschitz_at_zero: float
    smoothness: float
    strong_convexity: float
    diameter: float
    initial_gap: float
    convex: bool
    exact_prox: bool
    monotone: bool
    sigmoidal: bool
    n_outputs: int
    dimension: int
    gaussian_width: float
    divergence_bound: float
    mirror_noise: float
    n_vertices: int
    vertex_lipschitz: float
    curvature: float
    norm_bound: float = math.inf
    sigmoid_norm: float = math.inf
    softmax: bool = False
    fan_in: int = 1


@dataclass(frozen=True)
class Problem:
    """Empirical risk minimization over bounded rows.

    Parameters
    ----------
    loss : Loss
        The loss of one row.
    regularizer : Regularizer
        r(w), never data dependent.
    domain : Domain
        The set C that w must lie in.
    row_norm : float
        R: every row is clipped to ‖x‖₂ ≤ R before anything else is done with it.
    intercept : bool or float
        Append a constant column of this value; True for the largest that an entry may have. It counts in the row norm.
    weight_bound : float
        The largest weight that a row can have.
    entry_bound : float, optional
        B: every row is also scaled so that no entry exceeds B in size. Declare it where B is much smaller than R: in
        the geometry of the l1 ball it is the largest entry that counts. None: the row norm bounds the entries.
    start_point : tuple of float, optional
        Public starting point of iterative solvers. None: the point of C nearest to where the loss starts.

    Examples
    --------
    >>> from dperm import Problem
    >>> from dperm.problem import L2, Logistic
    >>> Problem(Logistic(), L2(0.01)).constants(n_features=54).smoothness
    0.25
    """

    loss: RowLoss
    regularizer: Regularizer = field(default_factory=NoRegularizer)
    domain: Domain = field(default_factory=WholeSpace)
    row_norm: float = 1.0
    intercept: bool | float = False
    weight_bound: float = 1.0
    entry_bound: float | None = None
    start_point: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check types and bounds; nothing here has seen a row."""
        for name, kind in (("loss", RowLoss), ("regularizer", Regularizer), ("domain", Domain)):
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameterError(f"{name} must be a dperm {name.capitalize()}, got {getattr(self, name)!r}.")
        for name in ("row_norm", "weight_bound", *(("entry_bound",) if self.entry_bound is not None else ())):
            # Beyond these sizes squares leave the range of a float64.
            if not 1e-100 <= positive(name, getattr(self, name)) <= 1e100:
                raise InvalidParameterError(f"{name} must lie between 1e-100 and 1e100, got {getattr(self, name)!r}.")
        if not isinstance(self.intercept, bool) and not 0.0 < finite("intercept", self.intercept) <= self.largest_entry:
            raise InvalidParameterError(
                f"intercept must be true, false or a value of at most the largest entry, got {self.intercept!r}."
            )
        if not self.loss.scales_rows and (self.intercept or self.row_norm != 1.0 or self.entry_bound is not None):
            raise InvalidParameterError(
                f"a {self.loss.name} takes rows as they are: leave row_norm, entry_bound and intercept out."
            )

    @property
    def largest_entry(self) -> float:
        """The bound on every entry of a clipped row, the constant column included."""
        return self.row_norm if self.entry_bound is None else min(self.row_norm, self.entry_bound)

    @property
    def intercept_value(self) -> float:
        """The constant column's value, 0 without one."""
        return self.largest_entry if self.intercept is True else float(self.intercept)

    @property
    def full_row_norm(self) -> float:
        """√(R² + c²): the norm bound with the constant column."""
        return math.hypot(self.row_norm, self.intercept_value)

    def dimension(self, n_features: int) -> int:
        """Number of coefficients for rows of `n_features` columns."""
        return self.loss.dimension(n_features + bool(self.intercept))

    @property
    def row_scale(self) -> float:
        """What a slope is multiplied by in a gradient: the row's norm, or 1 where the slope is the gradient itself."""
        return self.full_row_norm if self.loss.n_outputs else 1.0

    def margin_bound(self, n_features: int) -> float:
        """The largest |⟨w, x⟩| over C and the clipped rows: ‖w‖₂‖x‖₂ or ‖w‖₁‖x‖_∞, whichever is less.

        Without margins the largest ‖w‖₂.
        """
        dimension = self.dimension(n_features)
        in_l2 = self.row_scale * self.domain.norm_bound(dimension)
        if not self.loss.n_outputs:
            return in_l2
        return min(in_l2, self.largest_entry * self.domain.l1_bound(dimension))

    def slope_bound(self, n_features: int) -> float:
        """The bound that the kernel enforces on the derivative of one row, before its weight."""
        return self.loss.slope_bound(self.margin_bound(n_features))

    def curvature_bound(self, n_features: int) -> float:
        """The bound on the second derivative of one row, before its weight."""
        return self.loss.curvature_bound(self.margin_bound(n_features))

    @property
    def slope_scale(self) -> float:
        """The largest gradient that a slope of 1 can give one row: weight times norm."""
        return self.weight_bound * self.row_scale

    def start(self, n_features: int) -> Array:
        """The starting point: the point of C nearest to where the loss starts, which is 0 for losses of margins.

        One that was given is moved to the nearest point of C, too.
        """
        dimension = self.dimension(n_features)
        if self.start_point is None:
            return self.domain.project(self.loss.start(dimension))
        if len(self.start_point) != dimension or not all(abs(entry) <= 1e100 for entry in self.start_point):
            raise InvalidParameterError(f"start_point must be {dimension} finite numbers, none above 1e100 in size.")
        return self.domain.project(np.array(self.start_point))

    def constants(self, n_features: int) -> Constants:
        """Derive G, L, μ and the rest from the declared bounds.

        Raises
        ------
        InvalidParameterError
            If a derivative is unbounded on this domain, or the parts do not fit together.
        """
        dimension = self.dimension(n_features)
        self.regularizer.check_dimension(dimension)
        self.domain.check_dimension(dimension)
        margin_bound = self.margin_bound(n_features)
        _check_bounds(self.loss, margin_bound)
        slope, curvature = self.loss.slope_bound(margin_bound), self.loss.curvature_bound(margin_bound)
        if not 1e-100 <= slope <= 1e100:
            raise InvalidParameterError(f"the slope of {self.loss.name} must be bounded between 1e-100 and 1e100.")
        lipschitz = self.slope_scale * slope
        strong_convexity = self.regularizer.strong_convexity
        mirror = self.domain if isinstance(self.domain, MirrorDomain) else None
        diameter = self.domain.diameter(dimension)
        span = min(self.row_scale * diameter, 2.0 * margin_bound)  # how far a margin moves between points of C
        start = self.start(n_features)
        gaps = [self.regularizer.value(start) + self.weight_bound * self._value_bound(start)]
        if strong_convexity > 0 and not start.any():
            # F^r(0) − F^r(w*) ≤ ‖∇F(0)‖²/(2μ) for a μ-strongly convex F^r that r does not move at 0.
            gaps.append(lipschitz**2 / (2 * strong_convexity))
        return Constants(
            lipschitz=lipschitz,
            lipschitz_at_zero=self.slope_scale * self.loss.slope_bound(0.0),
            smoothness=self.weight_bound * self.row_scale**2 * curvature,
            strong_convexity=strong_convexity if self.loss.convex else 0.0,
            diameter=diameter,
            initial_gap=min(gaps),
            convex=self.loss.convex,
            exact_prox=prox_is_exact(self.regularizer, self.domain),
            monotone=self.loss.monotone,
            # Where the domain keeps margins from the sigmoid's end or its middle, its form would be another.
            sigmoidal=self.loss.sigmoidal
            and (slope, curvature) == (self.loss.slope_bound(math.inf), self.loss.curvature_bound(math.inf)),
            n_outputs=self.loss.n_outputs,
            dimension=dimension,
            gaussian_width=self.domain.gaussian_width(dimension),
            divergence_bound=mirror.divergence_bound(dimension) if mirror else math.inf,
            mirror_noise=mirror.noise_bound(dimension) if mirror else math.inf,
            n_vertices=self.domain.n_vertices(dimension) if isinstance(self.domain, EntropicDomain) else 0,
            # ⟨v, ∇f⟩ is a slope times a margin of v; the curvature along v − w is ℓ'' times the square of its margin.
            vertex_lipschitz=self.weight_bound * slope * margin_bound,
            curvature=self.weight_bound * curvature * span * span,
            norm_bound=self.domain.norm_bound(dimension),
            sigmoid_norm=self.full_row_norm if self.loss.slope_is_the_sigmoid else math.inf,
            softmax=self.loss.slope_is_the_softmax,
            fan_in=self.loss.fan_in(n_features + bool(self.intercept)),
        )

    def prox(self, v: Array, step: float) -> Array:
        """Proximal step of r plus the indicator of C: argmin over w in C of ½‖w − v‖² + step · r(w)."""
        return composite_prox(self.regularizer, self.domain, v, step)

    def _value_bound(self, start: Array) -> float:
        # Losses are at least 0, so the loss at the start bounds its excess over the minimum.
        if start.any() and self.loss.n_outputs:
            margin = self.row_scale * float(np.linalg.norm(start))
            return self.loss.value_at_zero + margin * self.loss.slope_bound(margin)
        return self.loss.value_at_zero


@remembered(256)
def _check_bounds(loss: RowLoss, margin_bound: float) -> None:
    """Once per loss: a search for a plan asks for the constants of a problem more than once."""
    loss.check_bounds(margin_bound)
