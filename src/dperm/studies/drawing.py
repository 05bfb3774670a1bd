"""Matplotlib, where it is installed."""

from typing import Any

from dperm.errors import DpermError


def pyplot() -> Any:
    """Matplotlib without a window."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise DpermError("the picture needs matplotlib: pip install 'dperm[plot]'.") from None
    return pyplot
