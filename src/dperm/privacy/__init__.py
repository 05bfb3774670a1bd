"""Guarantees, queries, plans and their price. Nothing here sees a row."""
