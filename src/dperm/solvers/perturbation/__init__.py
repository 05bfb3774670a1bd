"""Methods that solve exactly and add noise to the objective or to the result."""
