"""Methods that descend along noisy gradients of all rows or of samples."""
