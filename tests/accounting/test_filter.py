"""The filter of a budget: an analyst who looks at every result before choosing the next release stays within it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.curve import gaussian_delta, gaussian_mu
from dperm.accounting.divergence import divergence_of_curve, renyi_divergence
from dperm.accounting.events import (
    BoundedRange,
    Composed,
    Gaussian,
    NotPrivate,
    ObjectivePerturbation,
    PoissonSampledGaussian,
    Pure,
    Repeated,
    SoftmaxPerturbation,
)
from dperm.accounting.filter import Charge, Filter, with_pure
from dperm.ledger.rule import Rule
from dperm.privacy.guarantee import Adjacency, Guarantee

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
DELTA = 1e-5
GUARANTEES = [
    Guarantee(3.0, 1e-5),
    Guarantee(1.0, 1e-6),
    Guarantee(0.1, 1e-4),
    Guarantee(8.0, 1e-9),
    Guarantee(1.0, 0.05),
]
every_guarantee = pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)


def response_deltas(total, epsilons):
    """δ(ε) of randomized response, at negative ε too."""
    likely = 1.0 / (1.0 + math.exp(-total))
    first, second = (np.maximum(0.0, -np.expm1(epsilons - loss)) for loss in (total, -total))
    return likely * first + (1.0 - likely) * second


def gaussian_deltas(mu, epsilons):
    """δ(ε) of a Gaussian release, at negative ε too."""
    return norm.cdf(0.5 * mu - epsilons / mu) - np.exp(epsilons) * norm.cdf(-0.5 * mu - epsilons / mu)


def looking(mu, choices, epsilon):
    """δ at ε of an analyst who sees a Gaussian release and then takes the worst of several choices, by integration."""
    z = np.linspace(-12.0, 12.0, 60_001)
    left = epsilon - (mu * z + 0.5 * mu**2)
    worst = np.max([choice(left) for choice in choices], axis=0)
    return float(norm.pdf(z) @ worst) * (z[1] - z[0])


def largest(fits, high=50.0):
    """The largest number that fits, nearly."""
    return brentq(lambda size: 0.5 if fits(size) else -0.5, 1e-6, high, xtol=1e-7) * (1 - 1e-6)


def gaussian(mu, delta=DELTA):
    return Charge(Gaussian(1.0 / mu), delta)


def pure(epsilon):
    return Charge(Pure(epsilon), 0.0)


def choices_after(first, fits):
    """δ of what still fits after a first release, as functions of what is left of ε: a Gaussian, a response."""
    second = largest(lambda mu: fits([first, gaussian(mu)]))
    response = largest(lambda epsilon: fits([first, pure(epsilon)]))
    return [lambda left: gaussian_deltas(second, left), lambda left: response_deltas(response, left)]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_whoever_looks_exceeds_composition_and_not_the_filter(share):
    """A Gaussian release, then another or a randomized response, whichever does more harm after what was seen."""
    guarantee = Guarantee(2.0, DELTA)
    rule, mu = Filter.of(guarantee), share * gaussian_mu(guarantee)

    def by(fits):
        return looking(mu, choices_after(gaussian(mu), fits), guarantee.epsilon)

    def composed(charges):
        return delta_of(Composed([charge.event for charge in charges]), guarantee.epsilon, ADD) <= DELTA

    assert by(composed) > 1.1 * DELTA
    assert by(lambda charges: rule.epsilon(charges, ADD) <= guarantee.epsilon) <= DELTA


@pytest.mark.parametrize("limit", [0.7, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_whoever_stops_at_a_smaller_epsilon_has_that_epsilon(limit, share):
    """The rules of a budget of ε = 3, held to less: what the account says of the releases so far."""
    rule, mu = Filter.of(Guarantee(3.0, DELTA)), share * gaussian_mu(Guarantee(limit, DELTA))
    choices = choices_after(gaussian(mu), lambda charges: rule.epsilon(charges, ADD) <= limit)
    assert looking(mu, choices, limit) <= DELTA


@pytest.mark.parametrize("epsilon", [1.6, 3.0, 10.0])
def test_the_least_of_the_rules_each_with_all_of_delta_would_be_too_much(epsilon):
    """Why the rules have shares: after ε = 1, Gaussians up to the exact curve or pure releases up to the sum."""
    first, total = gaussian_mu(Guarantee(1.0, DELTA)), gaussian_mu(Guarantee(epsilon, DELTA))
    rest = math.sqrt(total**2 - first**2)
    choices = [lambda left: gaussian_deltas(rest, left), lambda left: response_deltas(epsilon - 1.0, left)]
    assert looking(first, choices, epsilon) > 1.2 * DELTA


def test_two_pure_releases_of_which_the_second_is_chosen_by_looking():
    """Randomized response, then a second one only if the first went badly; exact, by enumeration."""
    rule = Filter.of(Guarantee(1.0, 0.0))
    assert rule.epsilon([pure(0.4), pure(0.6)], ADD) == pytest.approx(1.0)
    assert rule.epsilon([pure(0.4), pure(0.61)], ADD) > 1.0
    losses = [0.4 + 0.6, 0.4 - 0.6, -0.4]
    assert max(losses) <= 1.0 + 1e-12
    assert rule.epsilon([pure(0.4), gaussian(0.01)], ADD) == math.inf


@every_guarantee
def test_the_shares_of_the_rules_add_up_to_delta_and_five_percent_more_of_one_would_not(guarantee):
    rule = Filter.of(guarantee)
    limits = (rule.order, rule.renyi), (rule.order_after_gaussian, rule.renyi_after_gaussian)
    alone, after = (
        (1.0 - 1.0 / order) ** order / (order - 1.0) * math.exp((order - 1.0) * (limit - guarantee.epsilon))
        for order, limit in limits
    )
    addition = rule.full + rule.part * (1.0 - rule.full) + rule.spare
    for shares in ((addition, alone / guarantee.delta), (addition, rule.gaussian, after / guarantee.delta)):
        assert 0.999 < sum(shares) <= 1.0
        assert all(sum(shares) + 0.05 * share > 1.0 for share in shares)


@pytest.mark.parametrize(
    "guarantee", [*GUARANTEES, Guarantee(0.01, 1e-12), Guarantee(50.0, 1e-40), Guarantee(1.0, 0.0)], ids=str
)
def test_the_numbers_of_a_filter_are_read_back_and_those_that_take_more_than_delta_are_refused(guarantee):
    rule = Filter.of(guarantee)
    numbers = rule.numbers()
    assert Filter.from_numbers(guarantee, **numbers) == rule
    more = {"renyi": 1.001 * rule.renyi + 1e-6, "renyi_after_gaussian": 1.001 * rule.renyi_after_gaussian + 1e-6}
    if guarantee.delta > 0.0:
        more |= {name: 1.001 * numbers[name] for name in ("full", "part", "gaussian")} | {"spare": 0.011}
        more |= dict.fromkeys(("order", "order_after_gaussian"), 10**9)
    for name, value in more.items():
        with pytest.raises(ValueError, match="filter"):
            Filter.from_numbers(guarantee, **numbers | {name: value})


def test_a_filter_of_other_shares_that_add_up_to_delta_is_read():
    guarantee = Guarantee(3.0, DELTA)
    other = {"full": 0.3, "part": 0.2, "spare": 0.02, "gaussian": 0.3}  # addition has 0.46
    limits = {"order": 9, "renyi": renyi_of(9, 0.54, guarantee)}
    limits |= {"order_after_gaussian": 7, "renyi_after_gaussian": renyi_of(7, 0.24, guarantee)}
    assert Filter.from_numbers(guarantee, **other, **limits).numbers() == other | limits
    for wrong in ({"gaussian": 0.31}, {"gaussian": 1.0, "renyi_after_gaussian": 0.0}, {"spare": 0.03}):
        with pytest.raises(ValueError, match="filter"):
            Filter.from_numbers(guarantee, **other | limits | wrong)


def test_the_first_entry_of_a_ledger_with_a_filter_that_allows_too_much_is_refused():
    entry = Rule(Filter.of(Guarantee(3.0, DELTA)), fixed_in_advance=False).to_content()
    assert Rule.from_content(entry).to_content() == entry
    for wrong in ({"renyi": 6.0}, {"renyi_after_gaussian": 1e300}, {"full": 1.0}, {"gaussian": 0.9}):
        with pytest.raises(ValueError, match="filter"):
            Rule.from_content(entry | {"filter": entry["filter"] | wrong})


def renyi_of(order, share, guarantee):
    """The divergence of this order that takes this share of δ."""
    constant = (1.0 - 1.0 / order) ** order / (order - 1.0)
    return guarantee.epsilon + math.log(share * guarantee.delta / constant) / (order - 1.0)


@every_guarantee
def test_gaussians_may_spend_their_share_and_five_percent_more_would_be_too_much(guarantee):
    rule = Filter.of(guarantee)
    share = rule.gaussian * guarantee.delta
    exact = gaussian_mu(Guarantee(guarantee.epsilon, share)) ** 2
    noise = largest(lambda mu: rule.epsilon([gaussian(mu / 10, guarantee.delta)] * 100, ADD) <= guarantee.epsilon)
    assert 0.999 * exact < noise**2 <= exact * (1 + 1e-5)  # as exactly as the search goes
    assert gaussian_delta(math.sqrt(1.05 * noise**2), guarantee.epsilon) > share
    assert noise**2 > 0.5 * gaussian_mu(guarantee) ** 2


@every_guarantee
def test_a_divergence_five_percent_above_the_limit_would_be_too_much(guarantee):
    """Two outcomes that reach the bound: one of probability αδ with the ratio e^ε α/(α − 1), and the rest."""
    rule, order = Filter.of(guarantee), Filter.of(guarantee).order
    share = (1.0 - (rule.full + rule.part * (1.0 - rule.full) + rule.spare)) * guarantee.delta

    def divergence(delta):
        likely, ratio = order * delta, math.exp(guarantee.epsilon) * order / (order - 1.0)
        rest = (1.0 - likely) ** order * (1.0 - likely / ratio) ** (1.0 - order)
        return math.log(likely * ratio ** (order - 1.0) + rest) / (order - 1.0)

    if order * share < 0.5:
        assert rule.renyi <= divergence(share)
        too_much = brentq(lambda delta: divergence(delta) - 1.05 * rule.renyi, 1e-12, 0.9 / order)
        assert too_much > share or divergence(share) > 1.05 * rule.renyi


@pytest.mark.parametrize("others", [0.01, 0.3, 0.5, 2.0, 9.0])
@pytest.mark.parametrize("delta", [1e-5, 6e-6, 1e-7])
def test_a_release_and_pure_ones_after_it_cost_what_integration_says_and_five_percent_less_is_too_little(others, delta):
    mu = gaussian_mu(Guarantee(1.0, DELTA))
    cost = with_pure(Gaussian(1.0 / mu), delta, others, ADD)
    worst = [lambda left: response_deltas(others, left)]
    assert looking(mu, worst, cost) == pytest.approx(delta, rel=1e-3)
    assert looking(mu, worst, 0.95 * cost) > 1.05 * delta
    assert cost <= (epsilon_of(Gaussian(1.0 / mu), delta, ADD) + others) * (1 + 1e-11)


def revealing(epsilon, delta):
    """The worst that a promise allows, as losses with probabilities: all is told with probability δ."""
    likely = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    return [(math.inf, delta), (epsilon, likely), (-epsilon, 1.0 - delta - likely)]


@pytest.mark.parametrize("promises", [[(1.0, 4e-6), (0.5, 2e-6)], [(0.2, 1e-6)] * 6, [(2.0, 0.0), (0.5, 6e-6)]])
def test_the_worst_that_promises_allow_costs_their_sum_and_five_percent_less_is_too_little(promises):
    """By enumeration, at δ = Σδ: addition is tight."""
    outcomes = [(0.0, 1.0)]
    for epsilon, delta in promises:
        outcomes = [(a + b, p * q) for a, p in outcomes for b, q in revealing(epsilon, delta)]

    def delta_at(epsilon):
        return math.fsum(p * -math.expm1(epsilon - loss) for loss, p in outcomes if loss > epsilon)

    total, delta = sum(epsilon for epsilon, _ in promises), sum(delta for _, delta in promises)
    assert 0.999 * delta < delta_at(total) <= delta * (1 + 1e-12)
    assert delta_at(0.95 * total) > 1.05 * delta


KINDS = [
    Gaussian(12.0),
    Pure(0.1),
    BoundedRange(0.1),
    Repeated(PoissonSampledGaussian(0.02, 2.0), 20),
    ObjectivePerturbation(15.0, 0.02, True, 1e-4),
    ObjectivePerturbation(15.0, 0.02, True, 1e-4, True, 0.8),
    SoftmaxPerturbation(15.0, 0.02, 7, 1e-4),
    Composed([Pure(0.05), Repeated(Gaussian(30.0), 3)]),
]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), st.sampled_from(list(Adjacency)))
def test_the_filter_never_says_less_than_composition_and_never_falls(releases, adjacency):
    rule, charges = Filter.of(Guarantee(3.0, DELTA)), [Charge(release, DELTA) for release in releases]
    said = rule.epsilon(charges, adjacency)
    assert said >= epsilon_of(Composed(releases), DELTA, adjacency) * (1 - 2e-3)
    assert said <= rule.epsilon([*charges, gaussian(0.02)], adjacency)


def random_history(rng, most):
    """Up to eight releases, the δ of whose promises add up to at most this."""
    size, kinds = int(rng.integers(1, 9)), rng.permutation(len(SIZED))
    deltas = rng.dirichlet(np.full(size, 0.5)) * most * rng.uniform(0.2, 1.0)
    charges = []
    for kind, delta in zip(kinds[:size], deltas.tolist(), strict=True):
        event = SIZED[kind]
        charges.append(Charge(event, 0.0 if isinstance(event, Pure) else max(delta, 1e-12)))
    return charges


SIZED = [
    *(Gaussian(noise) for noise in (3.0, 8.0, 25.0, 60.0)),
    *(Pure(epsilon) for epsilon in (0.05, 0.25, 0.5, 1.0)),
    *(ObjectivePerturbation(noise, 0.02, True, 1e-4) for noise in (4.0, 12.0)),
    BoundedRange(0.3),
    Composed([BoundedRange(0.1), Gaussian(20.0)]),
    Repeated(PoissonSampledGaussian(0.02, 2.0), 20),
]


@pytest.mark.parametrize(("share", "histories", "largest_ratio"), [(0.5, 1000, 1.0 + 1e-9), (1.0, 300, 1.1)])
def test_no_history_costs_more_than_its_promises_add_up_to(share, histories, largest_ratio):
    """On any budget, if the δ of the promises add up to half of the budget's; with all of it hardly more."""
    rng, ratios = np.random.default_rng(1), []
    for _ in range(histories):
        guarantee = Guarantee(float(rng.uniform(0.5, 12.0)), DELTA)
        charges = random_history(rng, share * DELTA)
        promised = math.fsum(epsilon_of(charge.event, charge.delta, REPLACE) for charge in charges)
        ratios.append(Filter.of(guarantee).epsilon(charges, REPLACE) / promised)
    assert max(ratios) <= largest_ratio
    assert np.mean(np.array(ratios) < 0.9) > 0.3  # and many cost less


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=30))
def test_what_releases_take_of_delta_is_at_most_what_addition_has_and_what_they_promised(shares):
    rule, promised = Filter.of(Guarantee(3.0, DELTA)), [share * DELTA for share in shares]
    taken = rule._taken(promised)
    assert sum(taken) <= (rule.full + rule.part * (1.0 - rule.full) + rule.spare) * DELTA * (1 + 1e-12)
    assert all(own <= most for own, most in zip(taken, promised, strict=True))
    if sum(shares) <= rule.full:
        assert taken == pytest.approx([own if own >= 1e-60 else 0.0 for own in promised], rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("epsilon", [1.6, 2.0, 3.0, 5.0, 10.0])
@pytest.mark.parametrize("fit", [gaussian_mu(Guarantee(1.0, DELTA)), None])
def test_a_fit_with_all_of_delta_and_a_pure_evaluation_cost_their_sum_on_every_budget(fit, epsilon):
    first = ObjectivePerturbation(7.65, 0.02, True, 1e-4) if fit is None else Gaussian(2.0 / fit)
    alone = epsilon_of(first, DELTA, REPLACE)
    charges = [Charge(first, DELTA), pure(0.5)]
    assert 0.9 < alone <= 1.0 + 1e-9
    assert 0.98 * (alone + 0.5) < Filter.of(Guarantee(epsilon, DELTA)).epsilon(charges, REPLACE) <= alone + 0.5


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(SIZED), max_size=5),
    st.sampled_from([DELTA, 0.3 * DELTA, 1e-8]),
    st.floats(0.5, 10.0),
    st.floats(0.0, 1.0),
)
def test_what_is_left_fits_in_pure_releases_of_any_size(releases, delta, epsilon, share):
    rule, charges = Filter.of(Guarantee(epsilon, DELTA)), [Charge(release, delta) for release in releases]
    left = rule.left(charges, REPLACE)
    assert 0.0 <= left <= epsilon
    sizes = [size * left for size in (share, 1.0 - share) if size * left > 1e-5]
    assert not sizes or rule.epsilon([*charges, *map(pure, sizes)], REPLACE) <= epsilon * (1 + 1e-9)


def test_the_first_release_is_chosen_before_anything_was_seen():
    """So it may have the whole budget, whatever it is; then nothing else fits."""
    rule = Filter.of(Guarantee(1.0, 1e-6))
    for kind in KINDS:
        alone = Filter.of(Guarantee(epsilon_of(kind, 1e-6, REPLACE) * (1 + 1e-9), 1e-6))
        assert alone.epsilon([Charge(kind, 1e-6)], REPLACE) <= alone.guarantee.epsilon
        assert alone.epsilon([Charge(kind, 1e-6), gaussian(1e-4)], REPLACE) > alone.guarantee.epsilon
    assert rule.epsilon([Charge(NotPrivate(), 1e-6)], ADD) == math.inf
    assert rule.epsilon([gaussian(0.02), Charge(NotPrivate(), 1e-6)], ADD) == math.inf
    assert rule.epsilon([], ADD) == 0.0
    assert rule.left([], ADD) == 1.0


# Rényi divergences


def mixture_divergence(rate, noise, order):
    """Between (1 − q)N(0) + qN(1) and (1 − q)N(0) + qN(−1), by integration."""
    x = np.linspace(-40.0 - 4 * noise, 40.0 + 4 * noise, 1_000_001)
    first, second = (
        np.logaddexp(
            math.log(rate) - 0.5 * ((x - centre) / noise) ** 2,
            math.log1p(-rate) - 0.5 * (x / noise) ** 2,
        )
        for centre in (1.0, -1.0)
    )
    moment = np.exp(order * first + (1 - order) * second).sum() * (x[1] - x[0]) / (noise * math.sqrt(2 * math.pi))
    return math.log(moment) / (order - 1.0)


@pytest.mark.parametrize("order", [2, 8, 20])
def test_divergences_are_the_exact_ones_where_those_are_known(order):
    for event, exact in (
        (Gaussian(3.0), 0.5 * order * (2 / 3.0) ** 2),
        (PoissonSampledGaussian(0.1, 3.0), mixture_divergence(0.1, 3.0, order)),
        (PoissonSampledGaussian(0.01, 8.0), mixture_divergence(0.01, 8.0, order)),
    ):
        found = renyi_divergence(event, order, REPLACE)
        assert exact * (1 - 1e-7) <= found <= 1.01 * exact
    p = 1.0 / (1.0 + math.exp(-0.7))
    exact = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1.0)
    assert exact <= renyi_divergence(Pure(0.7), order, ADD) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("sigmoidal", [False, True])
def test_the_divergence_of_a_minimiser_is_above_that_of_its_gaussian_and_five_percent_less_is_not_above_its_curve(
    sigmoidal, adjacency
):
    event, order = ObjectivePerturbation(8.0, 0.05, True, 1e-4, sigmoidal), 8
    found = renyi_divergence(event, order, adjacency)
    gaussian = 0.5 * order * (adjacency.records_moved / 8.0) ** 2
    assert gaussian < found < gaussian + 0.2
    # From a curve on a grid of another kind, by the same integral of powers.
    epsilons = np.linspace(0.0, 6.0, 3001)
    curve = event.curve(adjacency) if not sigmoidal else ObjectivePerturbation(8.0, 0.05, True, 1e-4).curve(adjacency)
    deltas = np.array([curve.delta(epsilon) for epsilon in epsilons])
    other = divergence_of_curve(epsilons, np.minimum.accumulate(deltas), 0.0, order)
    if sigmoidal:
        assert found <= other * 1.001  # a tangent for each ε gives less
    else:
        assert 0.95 * found < other <= found * 1.001


def test_a_curve_gives_back_the_divergence_of_its_mechanism():
    epsilons = np.linspace(0.0, 8.0, 4001)
    for order in (2, 5, 9):
        gaussian = divergence_of_curve(epsilons, gaussian_deltas(0.5, epsilons), 0.0, order)
        assert gaussian == pytest.approx(0.125 * order, rel=1e-4)
        response = divergence_of_curve(epsilons, response_deltas(0.4, epsilons), 0.0, order)
        assert response == pytest.approx(renyi_divergence(Pure(0.4), order, ADD), rel=1e-6)
