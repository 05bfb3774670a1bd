"""A second derivation of ε, by ball arithmetic and from the accounting events alone (docs/proofs/rigorous.md).

The module `check` in an event's folder bounds the event. It imports this package and nothing else of dperm, and this
package imports nothing of dperm at all.
"""
