"""Where rows come from. Whatever the table, every row is encoded by the same code, and bounded by the kernel."""

from dperm.rows.table import Table

__all__ = ["Table"]
