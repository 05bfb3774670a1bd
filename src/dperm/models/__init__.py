"""Estimators in scikit-learn's shape: one file each. The registry finds them for the command line and model files."""
