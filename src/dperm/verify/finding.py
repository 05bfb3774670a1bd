"""What `verify` found out."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    holds: bool
    text: str
