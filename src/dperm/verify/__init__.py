"""Whether what a file says is true."""
