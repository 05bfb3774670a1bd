"""The exceptions and warnings of dperm: one tree, so that one `except` catches them all."""


class DpermError(Exception):
    """Base class of dperm's errors. Messages never contain a value of the data."""


class InvalidParameterError(DpermError, ValueError):
    """A parameter, shape or combination that cannot be used; nothing was read or spent."""


class InvalidTableError(DpermError, ValueError):
    """A table or file that cannot be read as what was declared; the message names columns and types, never a value."""


class UnsupportedProblemError(DpermError, ValueError):
    """A problem that a solver, mechanism or bound does not cover; nothing was read or spent."""


class NoiseTooLargeError(DpermError, ValueError):
    """No useful amount of noise satisfies the guarantee; nothing was read or spent."""


class DivergedError(DpermError, ArithmeticError):
    """An iterate left the range of numbers; nothing was released, and the plan counts as spent."""


class NotInstalledError(DpermError):
    """An optional dependency is missing; the message says how to install it."""


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
    """A release was made, but could not be settled in the ledger; the reservation counts as spent.

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
    """Many rows are dropped or clipped, or look wrong. For the data holder; not private, not to be passed on.

    It takes many rows to change it, except at its thresholds. It is shown where a fit is called and not stored.
    `row_warnings=False` turns it off.
    """


class CacheFullWarning(UserWarning):
    """The cache folder is full, so every pass re-reads some rows from the table: slower, but correct."""


class NoWitnessWarning(UserWarning):
    """The ledger's state cannot be recorded on this machine, so a restored older copy would not be detected."""
