"""Something that was released without any noise."""

from dperm.rigorous.checks import NoBoundError, Run, checks


@checks("not private")
def enter(run: Run, count: int) -> None:
    """Nothing bounds it, nor what ran beside it."""
    raise NoBoundError("not private")
