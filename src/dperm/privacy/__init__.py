"""What is promised: ε, δ, adjacency, privacy unit, and the statement of a release."""
