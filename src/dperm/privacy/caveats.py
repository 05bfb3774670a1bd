"""What keeps a result from being released. Files hold the names; words are for people alone."""

import enum
from collections.abc import Iterable


class Caveat(enum.Enum):
    """A reason why the guarantee does not cover publishing a result; the value is how it is told."""

    SEEDED = "the noise came from a seed"
    PLAN_ONLY = "this is a plan, nothing was fitted"
    NO_NOISE = "no noise was added"
    PAPER_NOISE = "the paper's noise is for reproduction only"
    CLASSES_READ = "the classes were read from the rows"
    N_READ = "n was read from the rows, declare it under add_remove"
    UNITS_COUNTED = "n was read from the rows, declare it where rows without an id are dropped"
    ONE_STEP = "it is one step of a pipeline, whose privacy_ states the guarantee"
    MODEL_NOT_FOR_RELEASE = "the model itself is not for release"


def in_words(caveats: Iterable[Caveat]) -> str:
    """All of them in one line."""
    return "; ".join(caveat.value for caveat in caveats)
