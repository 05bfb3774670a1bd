"""What has been spent on a dataset, on disk before the first query runs (docs/ledger.md)."""

from dperm.ledger.accounts import Account, Spending
from dperm.ledger.budget import Budget, Reservation, budgets, default_ledger, settle_file

__all__ = ["Account", "Budget", "Reservation", "Spending", "budgets", "default_ledger", "settle_file"]
