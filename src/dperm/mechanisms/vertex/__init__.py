"""Which vertex of the domain lies furthest downhill, by noisy max."""

from dataclasses import dataclass

from dperm.accounting.events import BoundedRange, Event, Pure
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query
from dperm.mechanisms.setting import summation_slack
from dperm.validation import one_of, positive


@dataclass(frozen=True)
class VertexQuery(Query):
    """The vertex v of C with the largest −⟨v, ∇F(w)⟩ + noise, F the mean over all rows.

    Noise of its own goes to every vertex; its scale is g for `noise="gumbel"` and b for `noise="laplace"`. Only the
    vertex is released, never its score. Proofs: docs/proofs/noisy_max.md.

    Guarantees
    ----------
    Moving to an adjacent table moves no score by more than Δ = `sensitivity`, whatever the rows hold. With Gumbel noise
    the privacy loss of an answer lies in an interval of length 2Δ/g (docs/proofs/bounded_range.md); with Laplace noise,
    the published form, an answer is 2Δ/b-DP.
    """

    noise: str = "gumbel"

    def __post_init__(self) -> None:
        """There must be vertices to choose from."""
        one_of("noise", self.noise, ("gumbel", "laplace"))
        if self.setting.constants.n_vertices == 0:
            raise InvalidParameterError("VertexQuery requires a domain that lists its vertices.")

    @property
    def distribution(self) -> str:  # type: ignore[override]
        """Gumbel or Laplace."""
        return self.noise.capitalize()

    @property
    def sensitivity(self) -> float:
        """How far one score moves, padded for rounding in the sum over rows and in the product with a vertex."""
        constants, n = self.setting.constants, self.setting.n
        moved = self.setting.adjacency.records_moved * constants.vertex_lipschitz / n
        return moved * (1.0 + summation_slack(self.setting, constants.dimension))

    def event(self, noise_multiplier: float) -> Event:
        """What one answer costs; the multiplier is g/Δ or b/Δ."""
        multiplier = positive("noise multiplier", noise_multiplier)
        if self.noise == "gumbel":
            return BoundedRange(2.0 / multiplier * (1.0 + 1e-15))
        return Pure(2.0 / multiplier * (1.0 + 1e-15))
