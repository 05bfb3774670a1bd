"""What a private pipeline will release, and what it costs, before a row is read."""

from dataclasses import dataclass

from dperm.accounting.composition import epsilon_of
from dperm.accounting.events import Composed, Event
from dperm.kernel.noise import GENERATOR
from dperm.plan.fit_plan import FitPlan
from dperm.plan.sums import SumsRelease
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.joint_statement import JointStatement
from dperm.privacy.markup import plan_box
from dperm.privacy.unit import PrivacyUnit


@dataclass(frozen=True)
class PipelinePlan:
    """A pipeline that is planned and calibrated, with no row read yet.

    Attributes
    ----------
    guarantee : Guarantee
        What all steps together keep.
    adjacency : Adjacency
        Neighbouring relation: one record replaced, or one added/removed.
    n : int
        The public number of rows, or of units.
    unit : PrivacyUnit or None
        Whose rows are protected together.
    steps : dict of str to SumsRelease
        The private transformers, by name, in their order.
    final_name : str
        Of the model.
    final : FitPlan
        The plan of the model.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    n: int
    unit: PrivacyUnit | None
    steps: dict[str, SumsRelease]
    final_name: str
    final: FitPlan

    @property
    def event(self) -> Event:
        """The accounting event of all steps, one after the other."""
        return Composed((*(step.event for step in self.steps.values()), self.final.event))

    @property
    def epsilons(self) -> dict[str, float]:
        """ε of every step alone, at the pipeline's δ; together they cost less than their sum."""
        events = {name: step.event for name, step in self.steps.items()} | {self.final_name: self.final.event}
        return {name: epsilon_of(event, self.guarantee.delta, self.adjacency) for name, event in events.items()}

    def statement(self, *, seeded: bool = False, caveats: tuple[str, ...] = ()) -> JointStatement:
        """What is promised of a run.

        Parameters
        ----------
        seeded : bool
            Whether the noise comes from a seed.
        caveats : tuple of str
            What else keeps the result from being released.
        """
        parts = [f"{name}: {part}" for name, step in self.steps.items() for part in step.parts]
        parts.append(f"{self.final_name}: {self.final.statement.mechanism}")
        return JointStatement.of(
            self.event, self.guarantee, self.adjacency, self.n, tuple(parts),
            generator=GENERATOR, seeded=seeded, caveats=caveats, unit=self.unit,
        )  # fmt: skip

    @property
    def privacy(self) -> JointStatement:
        """The statement that a fit would carry, marked as a plan."""
        return self.statement(caveats=("this is a plan, nothing was fitted",))

    def _repr_html_(self) -> str:
        """For notebooks: what would be promised, each step's share, and whether the model is worth fitting."""
        return plan_box(self.privacy.promise_in_words, str(self))

    def __str__(self) -> str:
        """The statement, each step's share, and whether the model is worth fitting."""
        shares = ", ".join(f"{name} {epsilon:.3g}" for name, epsilon in self.epsilons.items())
        return f"{self.privacy}\neach alone: ε = {shares}\nverdict:    {self.final.verdict}"
