"""The privacy statement: what is promised and what is assumed, in a few lines or as JSON."""

import math
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from typing import Any, NamedTuple, Self

from dperm.accounting.events import Event
from dperm.printable import one_line
from dperm.privacy.caveats import Caveat, in_words
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.markup import box, guarantee_in_a_line, promise_in_words, rows_of
from dperm.privacy.unit import PrivacyUnit
from dperm.validation import count, finite, nonnegative, one_of, positive


@dataclass(frozen=True)
class PrivacyStatement:
    """What a privacy engineer signs for everything that was released together. Every number is public.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee, of all parts together; ε is infinite for a run without noise.
    certified_epsilon, certified_delta : float
        What the accountant proves for the run that happened: ε at this δ, and δ at this ε.
    adjacency : str
        The neighbouring relation.
    n : int
        The public number of rows, or of units.
    parts : tuple of str
        What was released, a phrase each; none for a fit, which has a statement of its own kind.
    seeded : bool
        Whether the noise can be computed again from a seed.
    caveats : tuple of Caveat
        What keeps the result from being released.
    generator : str
        What drew the random numbers.
    unit : PrivacyUnit or None
        Whose rows are protected together; None where every row is protected by itself.
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    certified_epsilon: float
    certified_delta: float
    adjacency: str
    n: int
    parts: tuple[str, ...] = ()
    seeded: bool = False
    caveats: tuple[Caveat, ...] = ()
    generator: str = "ChaCha20"
    unit: PrivacyUnit | None = None

    def of_run(self, *, seeded: bool = False, caveats: tuple[Caveat, ...] = ()) -> Self:
        """The statement with what happened in a run; a seed is a caveat by itself."""
        seed = (Caveat.SEEDED,) if seeded and Caveat.SEEDED not in caveats else ()
        return replace(self, seeded=seeded, caveats=(*self.caveats, *caveats, *seed))

    @property
    def for_release(self) -> bool:
        """Whether the guarantee covers publishing it."""
        return not self.caveats

    @property
    def promise(self) -> str:
        """What is promised, in a line."""
        return guarantee_in_a_line(self.epsilon, self.delta, self.adjacency, self.unit)

    @property
    def promise_in_words(self) -> str:
        """The promise as a sentence for a person."""
        return promise_in_words(self.epsilon, self.delta, self.adjacency, self.unit)

    def __str__(self) -> str:
        """A few lines for a person."""
        return "\n".join(map(one_line, self._lines()))

    def _lines(self) -> list[str]:
        n, private = f"{self.n}", ""
        if self.unit is not None:
            n, private = self.unit.numbered(self.n), ", but not the number of rows"
        return [
            f"promised:   {self.promise}",
            *(f"{'released:' if not place else '':<12}{part}" for place, part in enumerate(self.parts)),
            f"accounted:  ε = {self.certified_epsilon:.6g} at δ = {self.delta:g}, for all of it together",
            f"public:     n = {n}, and every parameter{private}",
            self._randomness(exact=True),
        ]

    def _randomness(self, *, exact: bool) -> str:
        key = "from a seed" if self.seeded else "keyed by the operating system"
        release = "FOR RELEASE" if self.for_release else f"NOT FOR RELEASE: {in_words(self.caveats)}"
        return f"randomness: {self.generator} {key}{', exact to the last bit' if exact else ''}; {release}"

    def _repr_html_(self) -> str:
        """For notebooks: the promise in plain words, and the lines of `str` below it."""
        title = "Private, for release" if self.for_release else f"Not for release: {in_words(self.caveats)}"
        return box(title, self.promise_in_words, rows_of(str(self))[1:], for_release=self.for_release)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; infinite numbers become strings, and caveats their names."""
        told = {"caveats": [caveat.name for caveat in self.caveats], "for_release": self.for_release}
        return {
            key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in (asdict(self) | told).items()
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote; raises ValueError, KeyError or TypeError if it is something else."""
        names = {field.name for field in fields(cls)}
        if set(content) != names | {"for_release"}:
            raise ValueError("a statement has other keys")
        values = {name: content[name] for name in names}
        values["unit"] = None if content["unit"] is None else PrivacyUnit.from_dict(content["unit"])
        for name in cls._numbers():
            values[name] = _number(values[name])
        if not isinstance(content["caveats"], list | tuple):
            raise TypeError("caveats")
        values["caveats"] = tuple(Caveat[name] for name in content["caveats"])
        for name in cls._texts():
            if not isinstance(values[name], list | tuple) or not all(isinstance(text, str) for text in values[name]):
                raise TypeError(name)
            values[name] = tuple(values[name])
        statement = cls(**cls._read(values))
        statement._check()
        if content["for_release"] is not statement.for_release:
            raise ValueError("for_release")
        return statement

    @classmethod
    def _numbers(cls) -> tuple[str, ...]:
        """Fields that may be infinite."""
        return ("epsilon", "delta", "certified_epsilon", "certified_delta")

    @classmethod
    def _texts(cls) -> tuple[str, ...]:
        """Fields that are lists of texts."""
        return ("parts",)

    @classmethod
    def _read(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fields that a file holds otherwise."""
        return values

    def _check(self) -> None:
        """Raise if a number is one that no run has."""
        Adjacency.parse(self.adjacency)
        if math.isinf(self.epsilon) and isinstance(self, FitStatement):  # of a run without noise
            nonnegative("delta", self.delta)
        else:
            Guarantee(self.epsilon, self.delta)
        count("n", self.n)
        if math.isnan(self.certified_epsilon):
            raise ValueError("certified_epsilon")
        if not isinstance(self.seeded, bool) or not isinstance(self.generator, str):
            raise ValueError("seeded, generator")


@dataclass(frozen=True)
class FitStatement(PrivacyStatement):
    """The statement of a fit; none of its numbers was measured on the rows.

    Attributes
    ----------
    mechanism : str
        What ran.
    n_steps : int
        Noisy answers that were computed.
    noise : str
        "certified", "paper" or "none".
    noise_multiplier : float
        Scale of the noise over sensitivity, for the first planned query.
    sigma : float
        Scale of the noise of the first planned query at its largest sensitivity: for Gaussian noise the standard
        deviation on one coordinate.
    n_features : int
        Columns of an encoded row: public.
    classes : tuple or None
        The public classes.
    row_norm : float
        The bound that rows were clipped to; infinite where gradients were clipped instead.
    full_row_norm : float
        The same with the constant column.
    target_range : tuple of float or None
        The range that targets were clipped to; with a schema its own range has become this one.
    target_transform : {"log", "log1p"} or None
        What was taken of targets before anything else, where a schema says so: predictions are about its inverse.
    accountant : str
        How certified noise was found; `certified_epsilon` is the tightest bound either way.
    noise_levels : int
        How many noise multipliers the plan has.
    distribution : str
        How the noise is distributed.
    entry_bound : float or None
        The bound on every entry of a row, if one was declared.
    private_ranges : tuple of str
        The columns whose ranges came out of this run; their cost is part of its ε.
    private_edges : tuple of str
        The columns whose bins came out of this run; their cost is part of its ε.
    coefficient_noise : float or None
        A bound on the standard deviation that noise gives one coefficient, before shrinking, where one is known.
    exact : bool
        Whether what left is the correctly rounded value of the ideal mechanism.
    gradient_clip : float or None
        The bound that every row's gradient was clipped to, for a function whose gradients have no other.
    weights : str or None
        "public" or "private" where rows had weights of their own: whether these belong to the rows.
    weight_bound : float or None
        The declared bound on them; that of class weights multiplies it.
    public_start : bool
        Whether the fit began at a point that the user gave.
    """

    _: KW_ONLY
    mechanism: str
    n_steps: int
    noise: str
    noise_multiplier: float
    sigma: float
    n_features: int
    classes: tuple[Any, ...] | None
    row_norm: float
    full_row_norm: float
    target_range: tuple[float, float] | None
    accountant: str = "pld"
    noise_levels: int = 1
    distribution: str = "Gaussian"
    entry_bound: float | None = None
    private_ranges: tuple[str, ...] = ()
    private_edges: tuple[str, ...] = ()
    coefficient_noise: float | None = None
    exact: bool = False
    gradient_clip: float | None = None
    weights: str | None = None
    weight_bound: float | None = None
    public_start: bool = False
    target_transform: str | None = None

    def _lines(self) -> list[str]:
        """Six lines for a person."""
        public = [f"n = {self.n if self.unit is None else self.unit.numbered(self.n)}", f"{self.n_features} columns"]
        if self.classes is not None:
            public.append(f"the classes {', '.join(map(str, self.classes))}")
        if self.weights == "public":
            public.append(f"the weights of rows, at most {self.weight_bound:g}")
        if self.public_start:
            public.append("the starting point")
        rows = f"clipped to ‖x‖₂ ≤ {self.row_norm:g}"
        if self.gradient_clip is not None:
            rows = f"every row's gradient clipped to ‖g‖₂ ≤ {self.gradient_clip:g}"
        if self.entry_bound is not None:
            rows += f" and ‖x‖_∞ ≤ {self.entry_bound:g}"
        if self.full_row_norm != self.row_norm:
            rows += f" ({self.full_row_norm:.4g} with the constant column)"
        if self.target_range is not None:
            logarithms = "" if self.target_transform is None else f", after {self.target_transform},"
            rows += f", targets{logarithms} to [{self.target_range[0]:g}, {self.target_range[1]:g}]"
        dropped = "NaN/inf or an undeclared label"
        if self.weights == "private":
            rows += f", weights, which are private, to [0, {self.weight_bound:g}]"
            dropped = "NaN/inf, an undeclared label or a negative or non-numeric weight"
        parameters = "and every parameter of the fit"
        rows += f"; rows with {dropped} are dropped"
        if self.unit is not None:
            parameters += ", but not the number of rows"
            rows += f"; {self.unit.missing_in_words}; {self.unit.rows_in_words}"
        return [
            f"promised:   {self.promise}",
            f"mechanism:  {self.mechanism}",
            f"noise:      {self._noise()}",
            f"public:     {', '.join(public)}, {parameters}",
            f"rows:       {rows}",
            self._randomness(exact=self.exact),
        ]

    @property
    def promise_in_words(self) -> str:
        """The promise as a sentence for a person."""
        if math.isinf(self.epsilon):
            return "There is no guarantee: the run had no noise."
        if self.noise == "paper":
            return f"For reproduction only: {self.promise}."
        return super().promise_in_words

    @property
    def promise(self) -> str:
        """What is promised, in a line."""
        if math.isinf(self.epsilon):
            return "nothing: the run had no noise (ε = ∞)"
        promise = super().promise
        if self.noise == "paper":
            return (
                f"nominally {promise}; certified is δ = {self.certified_delta:.3g} at this ε "
                f"(or ε = {self.certified_epsilon:.4g} at this δ)"
            )
        return promise

    def _noise(self) -> str:
        if self.noise == "none":
            return "none"
        levels = f", the first of {self.noise_levels} levels" if self.noise_levels > 1 else ""
        way = "calibrated by advanced composition (Appendix B.1), " if self.accountant == "advanced-composition" else ""
        scale = f"σ = {self.sigma:.3g} per coordinate" if self.distribution == "Gaussian" else f"scale {self.sigma:.3g}"
        return (
            f"{self.distribution}, multiplier {self.noise_multiplier:.4g} ({scale}){levels}; {way}"
            f"accounted ε = {self.certified_epsilon:.6g} at δ = {self.delta:g}"
        )

    @classmethod
    def _numbers(cls) -> tuple[str, ...]:
        return (*super()._numbers(), "row_norm", "full_row_norm")

    @classmethod
    def _texts(cls) -> tuple[str, ...]:
        return (*super()._texts(), "private_ranges", "private_edges")

    @classmethod
    def _read(cls, values: dict[str, Any]) -> dict[str, Any]:
        check_classes(values["classes"])
        lists = {name: None if values[name] is None else tuple(values[name]) for name in ("classes", "target_range")}
        return values | lists

    def _check(self) -> None:
        super()._check()
        one_of("noise", self.noise, ("certified", "paper", "none"))
        for name in ("n_features", "n_steps", "noise_levels"):
            count(name, getattr(self, name))
        if self.gradient_clip is None:
            positive("row_norm", self.row_norm)
            positive("full_row_norm", self.full_row_norm)
        elif (self.row_norm, self.full_row_norm, self.entry_bound) != (math.inf, math.inf, None):
            raise ValueError("gradient_clip")
        for check, names in (
            (positive, ("entry_bound", "gradient_clip", "weight_bound")),
            (nonnegative, ("noise_multiplier", "sigma", "coefficient_noise")),
        ):
            for name in names:
                if name in ("noise_multiplier", "sigma") or getattr(self, name) is not None:
                    check(name, getattr(self, name))
        if (self.weights is None) != (self.weight_bound is None):
            raise ValueError("weights, weight_bound")
        if self.weights is not None:
            one_of("weights", self.weights, ("public", "private"))
        texts = (self.mechanism, self.accountant, self.distribution)
        truths = (self.exact, self.public_start)
        if not all(isinstance(truth, bool) for truth in truths) or not all(isinstance(text, str) for text in texts):
            raise ValueError("exact, public_start, mechanism")
        if self.target_transform is not None:
            one_of("target_transform", self.target_transform, ("log", "log1p"))
        if self.target_range is not None:
            low, high = (finite("target_range", end) for end in self.target_range)
            if not low < high:
                raise ValueError("target_range")


class Promised(NamedTuple):
    """The guarantee that covers a model, including the search that selected it.

    Attributes
    ----------
    statement : PrivacyStatement
        With ε, δ and the adjacency.
    event : Event
        What is accounted for.
    note : str
        That the last fit is only a part of it; empty for a model that no search chose.
    """

    statement: PrivacyStatement
    event: Event
    note: str = ""


def check_classes(classes: object) -> None:
    """Raise unless it is None or a list of texts, numbers or booleans."""
    if classes is not None and not (
        isinstance(classes, list | tuple) and all(isinstance(label, str | int | float) for label in classes)
    ):
        raise TypeError("classes")


def _number(value: object) -> float:
    """A number as `to_dict` writes it: what is not finite is a text."""
    return float(value) if value in ("inf", "nan") else finite("a number", value)  # type: ignore[arg-type]
