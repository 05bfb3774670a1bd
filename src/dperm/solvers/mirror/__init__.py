"""Methods for polytopes and other non-Euclidean domains."""
