"""The answer to `VertexQuery`."""

import numpy as np

from dperm.errors import UnsupportedProblemError
from dperm.kernel.answers import Array, Asked, answers
from dperm.mechanisms.vertex import VertexQuery
from dperm.problem.domains.polytope import EntropicDomain


@answers(VertexQuery)
def noisy_vertex(query: VertexQuery, asked: Asked, w: Array) -> Array:
    """The vertex towards which the mean risk falls most steeply, −⟨v, ∇F(w)⟩, by noisy max."""
    domain = asked.problem.domain
    if not isinstance(domain, EntropicDomain):
        raise UnsupportedProblemError(f"the domain {domain.name} does not list its vertices.")
    gains = -domain.pull_back(asked.sums.gradient(w) / asked.setting.n)
    asked.advance(1)
    # Only the winner leaves. What it and the others scored is not accounted for.
    chosen = np.zeros(gains.size)
    chosen[asked.noise.choose(gains, query.sensitivity)] = 1.0
    return domain.coefficients(chosen)
