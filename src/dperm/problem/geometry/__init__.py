"""What solvers need of a domain: widths, norms and mirror maps. Nothing here bounds a sensitivity."""
