"""What an audit found: per attack, and beside what is promised."""

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dperm.accounting.events import event_to_list
from dperm.disk import fingerprint
from dperm.errors import InvalidParameterError
from dperm.plan.fit_plan import FitPlan
from dperm.validation import count, nonnegative

FORMAT, VERSION = "dperm-audit", 1

# What a plan is told apart by: its events, and these lines of its statement.
_FACTS = (
    "epsilon", "delta", "adjacency", "mechanism", "n_steps", "noise_multiplier", "sigma", "n", "n_features", "row_norm",
    "full_row_norm", "target_range", "entry_bound",
)  # fmt: skip


def name_of_plan(privacy: dict[str, Any], events: list[Any]) -> str:
    """What tells a plan from others: a fingerprint of its events and of the public numbers in its statement.

    Parameters
    ----------
    privacy : dict
        A statement as plain data, of a plan or from a model file.
    events : list
        The accounting events as plain data.
    """
    # Through JSON, so that a plan and what was read from a file are the same data.
    content = {"events": events} | {name: privacy[name] for name in _FACTS}
    if privacy.get("unit") is not None:
        content["unit"] = privacy["unit"]
    return fingerprint(json.loads(json.dumps(content)))


@dataclass(frozen=True)
class Attack:
    """What one attack found.

    Attributes
    ----------
    name : str
        "replay", "black box", "one run" or "low bits".
    epsilon : float or None
        The lower bound on ε; None for an attack that measures something else.
    fits : int
        How many fits it took.
    found : str
        What was measured, in a sentence.
    broken : tuple of str
        What contradicts the plan, beside ε: a shift that is larger than the sensitivity, noise that is too small.
    roc : tuple of (float, float)
        False and true positive rates on the fits that test it.
    shape_epsilon : float or None
        A larger lower bound, for noise of the planned shape and any size.
    """

    name: str
    epsilon: float | None
    fits: int
    found: str
    broken: tuple[str, ...] = ()
    roc: tuple[tuple[float, float], ...] = ()
    shape_epsilon: float | None = None


@dataclass(frozen=True)
class AuditResult:
    """Lower bounds on ε by attack, beside what is promised.

    Attributes
    ----------
    plan : str
        Which plan was audited: `name_of_plan`.
    solver : str
        The method.
    mechanism : str
        What runs.
    adjacency : str
        Which two tables were to be told apart.
    epsilon, delta : float
        The promise.
    proved : float
        The ε that the accountant proves at this δ.
    n, n_features : int
        Shape of the table that was planned for; with a unit n counts units.
    confidence : float
        All lower bounds together hold with this probability, and a correct mechanism is accused with at most the rest.
    attacks : tuple of Attack
        What each found.
    unit : str or None
        Whose rows differ between the two tables, in words; None for one row.
    """

    plan: str
    solver: str
    mechanism: str
    adjacency: str
    epsilon: float
    delta: float
    proved: float
    n: int
    n_features: int
    confidence: float
    attacks: tuple[Attack, ...]
    unit: str | None = None

    @property
    def lower_bound(self) -> float:
        """The largest lower bound on ε."""
        return max((attack.epsilon or 0.0 for attack in self.attacks), default=0.0)

    @property
    def best(self) -> Attack | None:
        """The attack that proves the largest ε, None if none looks for one."""
        looking = [attack for attack in self.attacks if attack.epsilon is not None]
        return max(looking, key=lambda attack: attack.epsilon or 0.0, default=None)

    @property
    def fits(self) -> int:
        """Fits of all attacks together."""
        return sum(attack.fits for attack in self.attacks)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What contradicts the promise, a sentence each; empty if nothing does."""
        more = [
            f"{attack.name}: ε is at least {rounded_down(attack.epsilon)}, and {self.epsilon:g} was promised"
            for attack in self.attacks
            if attack.epsilon is not None and attack.epsilon > self.epsilon
        ]
        return (*more, *(f"{attack.name}: {text}" for attack in self.attacks for text in attack.broken))

    @property
    def kept(self) -> bool:
        """Whether no attack contradicts the promise."""
        return not self.contradictions

    def __str__(self) -> str:
        """A few lines for a person."""
        lines = [
            f"audited:    {self.mechanism} (n = {self.n}, {self.n_features} columns, plan {self.plan[:12]})",
            f"promised:   ε = {self.epsilon:g} at δ = {self.delta:g}, adjacency {self.adjacency}; proved: ε ≤ "
            f"{self.proved:.4g}",
            *(() if self.unit is None else (f"protected:  {self.unit}; n counts them",)),
        ]
        for attack in self.attacks:
            bound = "" if attack.epsilon is None else f"ε ≥ {rounded_down(attack.epsilon)}; "
            fits = f" ({attack.fits} fit{'s' if attack.fits != 1 else ''})" if attack.fits else ""
            lines.append(f"{attack.name + ':':<12}{bound}{attack.found}{fits}")
        level = f"at confidence {100.0 * self.confidence:g} % for all attacks together"
        if self.kept:
            lines.append(f"verdict:    nothing contradicts the guarantee, {level}")
        else:
            lines += [
                f"verdict:    THE GUARANTEE IS VIOLATED, {level}",
                *(f"  - {text}" for text in self.contradictions),
            ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        content = asdict(self) | {"format": FORMAT, "version": VERSION, "kept": self.kept}
        return {
            key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in content.items()
        }

    @classmethod
    def from_dict(cls, content: Any) -> "AuditResult":
        """Read what `to_dict` wrote, or raise."""
        try:
            if content["format"] != FORMAT or content["version"] != VERSION:
                raise ValueError("format")
            values = {field.name: content[field.name] for field in fields(cls)}
            texts = [values[name] for name in ("plan", "solver", "mechanism", "adjacency")]
            if not all(isinstance(text, str) for text in (*texts, values["unit"] or "")):
                raise TypeError("text")
            for name in ("epsilon", "delta", "proved", "confidence"):
                values[name] = float(values[name])
            for name in ("n", "n_features"):
                count(name, values[name])
            values["attacks"] = tuple(_attack_from(attack) for attack in content["attacks"])
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InvalidParameterError(f"this is not the result of an audit of version {VERSION}.") from None


def _attack_from(content: dict[str, Any]) -> Attack:
    name, found, broken = content["name"], content["found"], tuple(content["broken"])
    if not all(isinstance(text, str) for text in (name, found, *broken)):
        raise TypeError("text")
    epsilon, shape = (
        None if content[key] is None else nonnegative(key, content[key]) for key in ("epsilon", "shape_epsilon")
    )
    if type(content["fits"]) is not int or content["fits"] < 0:
        raise TypeError("fits")
    roc = tuple((float(wrong), float(right)) for wrong, right in content["roc"])
    return Attack(name, epsilon, content["fits"], found, broken, roc, shape)


def read_audit(path: str | Path) -> AuditResult:
    """Read a file that `dperm audit --json` wrote, or raise."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameterError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None
    try:
        return AuditResult.from_dict(content)
    except InvalidParameterError:
        raise InvalidParameterError(f"{path} is not the result of an audit of version {VERSION}.") from None


def result_of(plan: FitPlan, confidence: float, attacks: tuple[Attack, ...]) -> AuditResult:
    """The attacks, compared with the guarantee of a plan."""
    statement = plan.statement
    return AuditResult(
        plan=name_of_plan(statement.to_dict(), event_to_list(plan.event)),
        solver=plan.solver.name,
        mechanism=statement.mechanism,
        adjacency=statement.adjacency,
        epsilon=statement.epsilon,
        delta=statement.delta,
        proved=statement.certified_epsilon,
        n=statement.n,
        n_features=statement.n_features,
        confidence=confidence,
        attacks=attacks,
        unit=None if plan.setting.unit is None else plan.setting.unit.described,
    )


def rounded_down(epsilon: float) -> str:
    """Two decimals, never more than was proved."""
    return f"{math.floor(100.0 * epsilon) / 100.0:.2f}"
