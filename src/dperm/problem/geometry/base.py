"""The sizes of a domain C in the paper's section 5."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Geometry(ABC):
    """Norms and width of a closed convex set; no sensitivity rests on them."""

    @abstractmethod
    def minkowski_norm(self, w: Array) -> float:
        """Min {r ≥ 0 : w ∈ rC} (paper, Definition 5.1); infinite if no multiple of C holds w."""

    @abstractmethod
    def dual_norm(self, v: Array) -> float:
        """Max over w in C of |⟨w, v⟩|."""

    @abstractmethod
    def gaussian_width(self, dimension: int) -> float:
        """E max over w in C of ⟨w, g⟩, g standard normal (paper, Definition 5.2)."""
