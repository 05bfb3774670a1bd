"""Guarantees, accounting events, their privacy curves and the ledger. Nothing here sees a row."""
