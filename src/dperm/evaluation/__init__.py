"""How good a released model is on sensitive rows: noisy counts and sums, and what follows from them."""
