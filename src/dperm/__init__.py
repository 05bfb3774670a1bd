"""dperm: differentially private empirical risk minimization, with a guarantee certified for the actual run."""

import lazy_loader

from dperm.version import __version__ as __version__

# What is exported stands in __init__.pyi. A name is imported when it is first used: scikit-learn takes longer than
# many commands that do not need it.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
