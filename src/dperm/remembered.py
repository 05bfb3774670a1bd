"""Results that follow from public numbers alone, kept in a process so that a second fit need not find them again."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def remembered(most: int) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """`functools.lru_cache` for functions of positional arguments that may not be hashable: then nothing is kept.

    Parameters
    ----------
    most : int
        Results that are kept.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        kept = functools.lru_cache(maxsize=most)(function)

        @functools.wraps(function)
        def call(*arguments: Any) -> Result:
            try:
                hash(arguments)
            except TypeError:
                return function(*arguments)
            return kept(*arguments)

        return call

    return decorate
