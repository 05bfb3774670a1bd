"""Release planned sums over rows that a test made up."""

from dperm.plan.transaction import Transaction


def released(plan, parts, n_rows, *, budget=None, random_state=None, membership=None):
    found, unit = (n_rows, None) if membership is None else (membership.n, membership.unit)
    with Transaction(plan, budget, random_state, found=found, unit=unit) as transaction:
        return plan.answer(transaction, parts, membership)
