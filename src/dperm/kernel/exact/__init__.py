"""Random numbers without rounding: exact draws of which as many digits are made as an answer needs."""
