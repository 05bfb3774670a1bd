"""What a ledger knows of a release, in words: the mechanisms that were charged."""

from dperm.accounting.events import (
    ZCDP,
    BoundedRange,
    Event,
    Gaussian,
    NotPrivate,
    ObjectivePerturbation,
    OneOf,
    PoissonSampledGaussian,
    Pure,
    RandomTrials,
    SingleEvent,
    SoftmaxPerturbation,
    UnitPerturbation,
)

# One, and several.
_WORDS: dict[type[SingleEvent], tuple[str, str]] = {
    Gaussian: ("answer from all rows with Gaussian noise", "answers from all rows with Gaussian noise"),
    PoissonSampledGaussian: (
        "answer from a random sample of the rows with Gaussian noise",
        "answers from random samples of the rows with Gaussian noise",
    ),
    Pure: ("answer with a pure ε", "answers with a pure ε each"),
    ZCDP: ("answer accounted for by its ρ (zCDP)", "answers accounted for by their ρ (zCDP)"),
    BoundedRange: ("noisy choice among candidates", "noisy choices among candidates"),
    ObjectivePerturbation: (
        "minimiser of an objective with a random term",
        "minimisers of objectives with a random term",
    ),
    SoftmaxPerturbation: (
        "minimiser of an objective of several classes with a random term",
        "minimisers of objectives of several classes with a random term",
    ),
    UnitPerturbation: (
        "minimiser of an objective of units with a random term",
        "minimisers of objectives of units with a random term",
    ),
    OneOf: ("step that is one of several alternatives", "steps that are one of several alternatives each"),
    RandomTrials: ("search by a random number of trials", "searches by a random number of trials"),
    NotPrivate: ("run without noise", "runs without noise"),
}


def in_words(event: Event) -> str:
    """What was charged for one release: public, as it was planned before any row was read.

    Examples
    --------
    >>> from dperm.accounting.events import Composed, Repeated
    >>> in_words(Composed((Repeated(Pure(0.1), 2), Gaussian(4.0), Gaussian(5.0))))
    '2 answers with a pure ε each; 2 answers from all rows with Gaussian noise'
    """
    counts: dict[type[SingleEvent], int] = {}
    for leaf, count in event.leaves():
        counts[type(leaf)] = counts.get(type(leaf), 0) + count
    return "; ".join(f"{count} {_words(kind)[count > 1]}" for kind, count in counts.items())


def _words(kind: type[SingleEvent]) -> tuple[str, str]:
    return _WORDS.get(kind, (f"answer ({kind.name})", f"answers ({kind.name})"))
