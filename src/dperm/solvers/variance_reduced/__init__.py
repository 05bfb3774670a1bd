"""Methods that ask how the gradient changes, with noise that vanishes as they converge."""
