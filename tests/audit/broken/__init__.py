"""Broken mechanisms, each a small change of the right one, and which attack of an audit has to notice it."""

from audit.broken.mechanisms import BROKEN, Broken
from audit.broken.units import BROKEN_UNITS

__all__ = ["BROKEN", "BROKEN_UNITS", "Broken"]
