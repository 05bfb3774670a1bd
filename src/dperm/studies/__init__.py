"""Studies on bundled data."""
