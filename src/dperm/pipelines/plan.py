"""What a private pipeline will release, and what it costs, before a row is read."""

from dataclasses import KW_ONLY, dataclass

from dperm.accounting.composition import epsilon_of
from dperm.plan.fit_plan import FitPlan
from dperm.plan.release_plan import ReleasePlan
from dperm.plan.sums import SumsPlan


@dataclass(frozen=True)
class PipelinePlan(ReleasePlan):
    """A pipeline that is planned and calibrated, with no row read yet.

    Attributes
    ----------
    steps : dict of str to SumsPlan
        The private transformers, by name, in their order.
    final_name : str
        Of the model.
    final : FitPlan
        The plan of the model.
    """

    _: KW_ONLY
    steps: dict[str, SumsPlan]
    final_name: str
    final: FitPlan

    @property
    def epsilons(self) -> dict[str, float]:
        """ε of every step alone, at the pipeline's δ; together they cost less than their sum."""
        events = {name: step.event for name, step in self.steps.items()} | {self.final_name: self.final.event}
        return {name: epsilon_of(event, self.delta, self.adjacency) for name, event in events.items()}

    @property
    def released(self) -> tuple[str, ...]:
        """What is released, in words."""
        words = [f"{name}: {part}" for name, step in self.steps.items() for part in step.released]
        return (*words, f"{self.final_name}: {self.final.statement.mechanism}")

    def __str__(self) -> str:
        """The statement, each step's share, and whether the model is worth fitting."""
        shares = ", ".join(f"{name} {epsilon:.3g}" for name, epsilon in self.epsilons.items())
        return f"{self.privacy}\neach alone: ε = {shares}\nverdict:    {self.final.verdict}"
