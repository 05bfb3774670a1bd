"""The exceptions and warnings of dperm: one tree, so that one `except` catches them all."""


class DpermError(Exception):
    """Anything dperm refuses to do. Messages never hold a value of the data."""


class InvalidParameterError(DpermError, ValueError):
    """A parameter, shape or combination that cannot be used; nothing was read or spent."""


class InvalidTableError(DpermError, ValueError):
    """A table or file that cannot be read as what was declared; the message names columns and types, never a value."""


class UnsupportedProblemError(DpermError, ValueError):
    """A problem that a solver, mechanism or bound does not cover; nothing was read or spent."""


class NoiseTooLargeError(DpermError, ValueError):
    """No noise, or none that is of use, keeps the guarantee here; nothing was read or spent."""


class DivergedError(DpermError, ArithmeticError):
    """An iterate left the range of numbers; nothing was released, and the plan counts as spent."""


class NotInstalledError(DpermError):
    """A part of dperm needs a library that is not there; the message says how to get it."""


class NotSolvedError(DpermError, RuntimeError):
    """An exact minimisation did not reach its tolerance; nothing was released, and the plan counts as spent."""


class PlanExceededError(DpermError, RuntimeError):
    """A solver asked the oracle something that its plan does not contain."""


class ClusterError(DpermError, RuntimeError):
    """The scheduler or all workers of a cluster were lost; nothing was released, and the plan counts as spent."""


class BudgetExceededError(DpermError, RuntimeError):
    """A release that would spend more than a dataset's budget; nothing was read or spent."""


class LedgerDamagedError(DpermError, RuntimeError):
    """A ledger that was edited, truncated or replaced by an older copy; nothing was spent."""


class NotSettledError(DpermError, RuntimeError):
    """A release was made and accounted for, and the ledger could not note what it was; the reservation counts as spent.

    Attributes
    ----------
    release : Release, PrivateEvaluation or None
        What `minimize` or `private_evaluate` would have returned. A fitted estimator keeps its coefficients itself.
    """

    release: object = None


class NotForReleaseWarning(UserWarning):
    """The result is usable for study but does not carry the guarantee that a release needs."""


class LargeDeltaWarning(UserWarning):
    """δ is at least 1/n, so the guarantee would allow publishing one row in the clear."""


class DroppedRowsWarning(UserWarning):
    """Many rows are ignored or clipped, or the like: for the person who holds the rows, and not to be passed on.

    It is not private, though it takes many rows to change it, but at its thresholds. It is shown where a fit is called
    and kept nowhere. `row_warnings=False` turns it off.
    """


class CacheFullWarning(UserWarning):
    """The folder for encoded rows is full, so every pass reads some of them from the table again: slower, not wrong."""


class NotKeptWarning(UserWarning):
    """No folder for compiled code can be written, so every process compiles it again: slower, not wrong."""


class NoWitnessWarning(UserWarning):
    """No note of a ledger's state can be kept on this machine, so an older copy of it would not be noticed."""
