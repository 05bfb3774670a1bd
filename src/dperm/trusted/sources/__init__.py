"""Where rows come from. Whatever the source, every row is encoded and bounded by the same code."""
