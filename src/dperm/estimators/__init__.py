"""Estimators in scikit-learn's shape: one file each, found by the registry that the command line and model files read."""
