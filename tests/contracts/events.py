"""One ordinary event of every class."""

from dperm.accounting.events import (
    ZCDP,
    BoundedRange,
    Composed,
    Gaussian,
    NotPrivate,
    ObjectivePerturbation,
    OneOf,
    PoissonSampledGaussian,
    Pure,
    RandomTrials,
    SoftmaxPerturbation,
    UnitPerturbation,
)

EVENT_EXAMPLES = {
    type(event): event
    for event in (
        BoundedRange(0.4),
        Gaussian(3.0),
        NotPrivate(),
        ObjectivePerturbation(6.0, 0.1, True, 0.005),
        OneOf((Gaussian(4.0), Composed((Gaussian(9.0), Gaussian(6.0))))),
        PoissonSampledGaussian(0.05, 2.0),
        Pure(0.4),
        RandomTrials(Gaussian(8.0), 0.05),
        SoftmaxPerturbation(6.0, 0.1, 5, 0.005),
        UnitPerturbation(6.0, 0.1, 5, 1, True, 0.005),
        ZCDP(0.02),
    )
}
