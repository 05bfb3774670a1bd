"""The pictures of a model: methods that hand released and public numbers to `dperm.pictures`. They need matplotlib."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

from dperm.pictures.risk import RiskCurve
from dperm.plan.options import FitOptions
from dperm.plan.outlook import risk_of_epsilon
from dperm.privacy.statement import FitStatement


class Pictured:
    """What an estimator can draw of itself; no row is needed for any of it."""

    privacy_: FitStatement

    @abstractmethod
    def _options_with(self, n: int | None) -> FitOptions:
        """What a fit of this many rows is asked to do."""

    @abstractmethod
    def as_asked(self) -> Self:
        """A fresh estimator with the parameters of the fit."""

    def plot_coefficients(self, ax: Any = None, largest: int = 20) -> Any:
        """Draw the released coefficients as dots, with bars for the privacy noise where a bound on it is known.

        A fit with `intervals` is drawn with its estimates and confidence intervals instead.

        Parameters
        ----------
        ax : Axes or array of Axes, optional
            Where to draw: one for two classes or a regression, else one for every class.
        largest : int
            How many coefficients: the largest, of several classes by the class where it is largest.

        Returns
        -------
        Axes or array of Axes

        Examples
        --------
        >>> import numpy as np
        >>> from dperm import PrivateLogisticRegression
        >>> X = np.random.default_rng(0).normal(size=(5000, 3)) / 3; y = X[:, 0] > 0
        >>> axes = PrivateLogisticRegression(1.0, 1e-6).fit(X, y).plot_coefficients()
        >>> [label.get_text() for label in axes.get_yticklabels()][0]
        'x0'
        """
        from dperm.pictures.coefficients import plot_coefficients

        return plot_coefficients(self, ax, largest)

    def plot_effect(self, column: str, ax: Any = None) -> Any:
        """Draw what a column of the schema adds to the score over its public range, with a band for the noise.

        Parameters
        ----------
        column : str
            Of the schema.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        Axes
        """
        from dperm.pictures.effects import plot_effect

        return plot_effect(self, column, ax)

    def plot_effects(self, columns: Iterable[str] | None = None, largest: int = 12) -> Any:
        """Draw what every column of the schema adds to the score, as a grid with one scale.

        Parameters
        ----------
        columns : iterable of str, optional
            Which; by default all, or the `largest` where there are more.
        largest : int
            How many: those that can move a score the most.

        Returns
        -------
        array of Axes
            One for every column that is drawn.
        """
        from dperm.pictures.effects import plot_effects

        return plot_effects(self, columns, largest)

    def plot_attack(self, ax: Any = None) -> Any:
        """Draw the most that any attacker can find at every rate of false alarms, from the accounting event.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        Axes
        """
        from dperm.pictures.attack import plot_attack

        return plot_attack(self, ax)

    def plot_risk_of_epsilon(
        self, n: int | None = None, n_features: int | None = None, epsilons: Iterable[float] | None = None,
        ax: Any = None,
    ) -> Any:  # fmt: skip
        """Draw what more or less privacy is expected to cost, from public numbers, before a fit or after it.

        Parameters
        ----------
        n, n_features, epsilons
            As for `risk_of_epsilon`.
        ax : Axes, optional
            Where to draw.

        Returns
        -------
        Axes

        Examples
        --------
        >>> from dperm import PrivateLogisticRegression
        >>> axes = PrivateLogisticRegression(epsilon=1).plot_risk_of_epsilon(n=20_000, n_features=50)
        >>> axes.get_xscale()
        'log'
        """
        from dperm.pictures.canvas import promise
        from dperm.pictures.risk import plot_risk_of_epsilon

        axes = plot_risk_of_epsilon(self.risk_of_epsilon(n, n_features, epsilons), ax)
        if hasattr(self, "search_"):
            axes.set_xlabel(f"{axes.get_xlabel()}\ndrawn is the ε of the last fit; promised is {promise(self)}")
        return axes

    def risk_of_epsilon(
        self, n: int | None = None, n_features: int | None = None, epsilons: Iterable[float] | None = None
    ) -> RiskCurve:
        """What noise is expected to cost at several ε, all else equal: what `plot_risk_of_epsilon` draws.

        Parameters
        ----------
        n, n_features : int, optional
            Shape of the table that would be fitted; a schema may know both. Of a fitted model by default its own.
        epsilons : iterable of float, optional
            Where, besides the fit's own ε.

        Returns
        -------
        RiskCurve
            Of a fitted model for the solver that ran.

        Examples
        --------
        >>> from dperm import PrivateLogisticRegression
        >>> curve = PrivateLogisticRegression(epsilon=1).risk_of_epsilon(20_000, 50, [0.001, 10])
        >>> curve.words
        ('hopeless', 'small', 'small')
        """
        if not hasattr(self, "privacy_"):
            return risk_of_epsilon(self._options_with(n), n, n_features, epsilons)
        statement, asked = self.privacy_, self.as_asked()
        options = asked._options_with(n)
        n = statement.n if n is None else n
        return risk_of_epsilon(options, n, statement.n_features if n_features is None else n_features, epsilons)
