"""Scalers and projections that learn from rows with noise: scikit-learn transformers with a guarantee."""
