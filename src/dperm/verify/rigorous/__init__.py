"""A second derivation of ε, by ball arithmetic and from the accounting events alone (docs/proofs/rigorous.md).

Nothing here imports `dperm.accounting`.
"""
