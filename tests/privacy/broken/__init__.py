"""Broken mechanisms, each a small change of the right one, and which attack of an audit has to notice it."""

from privacy.broken.mechanisms import BROKEN, Broken
from privacy.broken.units import BROKEN_UNITS

__all__ = ["BROKEN", "BROKEN_UNITS", "Broken"]
