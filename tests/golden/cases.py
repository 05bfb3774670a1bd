"""Small fits with a seed, and what each of them gave: the same seed must go on giving the same coefficients.

`python tests/golden/cases.py --write` runs every case and writes coefficients.json beside this file. Do that only where
a change of numbers is meant, and say why in the commit. Without `--write` it prints what differs, and by how much.

Cases use dperm's public names alone. What is stored rests on numpy's Generator too, whose streams may change between
releases of numpy.
"""

import functools
import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

import dperm
from dperm import Guarantee, Problem
from dperm.paper import RRPSGD, PrintedSVRG, PrintedSVRGPlusPlus
from dperm.problem import (
    L1,
    L2,
    Box,
    ElasticNet,
    GroupBall,
    GroupL2,
    Huber,
    L1Ball,
    L2Ball,
    Logistic,
    OneVsRestHinge,
    Poisson,
    Sigmoid,
    Simplex,
    SmoothedHinge,
    Softmax,
    Squared,
    Welsch,
)
from dperm.solvers import (
    DPAGD,
    DPGD,
    DPSGD,
    DPSVRG,
    AdaSSP,
    BassilySGD,
    DPAccMD,
    DPAdam,
    DPKatyusha,
    DPObjective,
    DPSpider,
    DPSVRGPlusPlus,
    SupportDescent,
    TalwarFrankWolfe,
    TalwarMirror,
)

STORED = Path(__file__).with_name("coefficients.json")
NOISE = ("sigma", "noise_multiplier", "certified_epsilon", "certified_delta")


class Outcome(NamedTuple):
    """What is compared: the coefficients in one list, and the noise that the statement names."""

    coefficients: list[float]
    noise: dict[str, float]


def outcome(coefficients, privacy) -> Outcome:
    return Outcome(np.ravel(coefficients).tolist(), {name: float(getattr(privacy, name)) for name in NOISE})


# Tables: six columns, rows of norm about 1 so that some are clipped and some are not.


@functools.cache
def rows(n=500, p=6, seed=0):
    """Rows, and a margin for each that they explain in part."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) / np.sqrt(p)
    slopes = rng.normal(size=p)
    return X, (X * slopes).sum(axis=1) + 0.3 + 0.2 * rng.normal(size=n)


def signs(**shape):
    X, margin = rows(**shape)
    return X, np.sign(margin)


def amounts(**shape):
    return rows(**shape)


def three(**shape):
    X, margin = rows(**shape)
    return X, np.digitize(margin, [-0.4, 0.6]).astype(float)


def counts(**shape):
    X, margin = rows(**shape)
    return X, np.minimum(np.floor(np.exp(margin)), 4.0)


def thin(table):
    """The same rows as CSR, with the small entries gone."""
    X, y = table
    return sparse.csr_matrix(np.where(np.abs(X) < 0.3, 0.0, X)), y


def single(table):
    X, y = table
    return X.astype(np.float32), y


def table(n=2000, seed=1):
    """A data frame with numbers, categories and holes."""
    rng = np.random.default_rng(seed)
    age, hours = rng.integers(17, 90, n).astype(float), rng.normal(40.0, 10.0, n).round(1)
    kind = rng.choice(["private", "state", "none"], n)
    score = (age - 50.0) / 30.0 + (hours - 40.0) / 20.0 + (kind == "state") + 0.3 * rng.normal(size=n)
    hours[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "hours": hours,
            "kind": np.where(rng.random(n) < 0.03, "?", kind),
            "income": np.where(score > 0.0, "high", "low"),
            "level": np.array(["low", "middle", "high"])[np.digitize(score, [-0.7, 0.8])],
            "pay": 1000.0 + 300.0 * score,
        }
    )


def schema(target, hours=None, **more):
    columns = {
        "age": dperm.Number((17, 90)),
        "hours": hours or dperm.Number((0, 80), missing="column"),
        "kind": dperm.Category(["private", "state", "none"], missing="column"),
    }
    return dperm.Schema(columns, target, missing=("?",), **more)


INCOME = dperm.Classes("income", ["low", "high"])
LEVEL = dperm.Classes("level", ["low", "middle", "high"])
PAY = dperm.Amount("pay", (0, 2000))
PRIVATE_HOURS = dperm.Number("private", within=(0, 100))
PRIVATE_PAY = dperm.Amount("pay", "private", within=(-1000, 4000))

# Problems.

RIDGE = Problem(Logistic(), L2(0.05))
OFFSET = Problem(Logistic(), L2(0.05), intercept=True)
PLAIN = Problem(Logistic())
LASSO = Problem(Logistic(), L1(0.01))
NET = Problem(Logistic(), ElasticNet(0.05, 0.5), L2Ball(2.0))
GROUPS = Problem(Logistic(), GroupL2(0.02, ((0, 1), (2, 3)), ridge=0.05))
GROUPS_IN_BOX = Problem(Logistic(), GroupL2(0.02, ((0, 1), (2, 3))), Box(-2.0, 2.0))
WEIGHTED = Problem(Logistic(), L2(0.05), weight_bound=2.0)
HINGE = Problem(SmoothedHinge(), L2(0.05))
HUBER = Problem(Huber(0.5), L2(0.05))
POISSON = Problem(Poisson(target_bound=4.0), L2(0.1))
SOFTMAX = Problem(Softmax(3), L2(0.05), intercept=True)
ONE_VS_REST = Problem(OneVsRestHinge(3), L2(0.05))
SQUARED = Problem(Squared(), L2(0.05), L2Ball(1.5))
SQUARED_OFFSET = Problem(Squared(), domain=L2Ball(1.5), intercept=True)
ON_SIMPLEX = Problem(Squared(), domain=Simplex())
ON_L1 = Problem(Logistic(), domain=L1Ball(3.0))
ENTRIES = Problem(Logistic(), domain=L1Ball(3.0), row_norm=2.0, entry_bound=0.5)
ON_L2 = Problem(Logistic(), domain=L2Ball(2.0))
IN_BOX = Problem(Logistic(), domain=Box(-0.5, 2.0))
ON_GROUPS = Problem(Logistic(), domain=GroupBall(2.0, ((0, 1), (2, 3, 4), (5,))))
SIGMOID = Problem(Sigmoid(), L2(0.05))
WELSCH = Problem(Welsch(), domain=L2Ball(2.0))

PROMISE = Guarantee(1.0, 1e-6)
LOOSE = Guarantee(4.0, 1e-6)
PURE = Guarantee(2.0, 0.0)
MAYBE_MORE = {"adjacency": "add_remove", "n": 520}

CASES: dict[str, Callable[[], Outcome]] = {}


def add(name, run):
    assert name not in CASES, name
    CASES[name] = run


def seed_of(name):
    """A seed of its own for every case, whatever other cases there are."""
    return zlib.crc32(name.encode())


def case(name, problem, data, solver=None, guarantee=PROMISE, **options):
    """A case of `minimize`; its solver is by default the one that the name begins with."""
    solver = solver or name.split("/")[0]

    def run():
        release = dperm.minimize(
            problem, *data, guarantee=guarantee, solver=solver, random_state=seed_of(name), **options
        )
        return outcome(release.w, release.privacy)

    add(name, run)


def quiet(name, problem, data, solver=None):
    """The same without noise."""
    case(name, problem, data, solver, guarantee=None, noise=None)


def estimator(name, model, *data):
    """A case of an estimator: coefficients and intercepts."""

    def run():
        model.set_params(random_state=seed_of(name)).fit(*data)
        return outcome(np.append(model.coef_, model.intercept_), model.privacy_)

    add(name, run)


case("dp-gd/ridge", RIDGE, signs())
case("dp-gd/composition", RIDGE, signs(), DPGD(accounting="composition"))
case("dp-gd/uniform", OFFSET, signs(), DPGD(n_steps=60, release="uniform"))
case("dp-gd/paper", RIDGE, signs(), noise="paper")
case(
    "dp-gd/advanced-composition",
    RIDGE,
    signs(n=1500),
    DPGD(n_steps=20),
    accountant="advanced-composition",
)
case("dp-gd/l1-on-l1-ball", Problem(Logistic(), L1(0.01), L1Ball(3.0)), signs(), **MAYBE_MORE)
case("dp-gd/groups-in-box", GROUPS_IN_BOX, signs(), DPGD(n_steps=30))
case("dp-gd/weights", WEIGHTED, signs(), weights=np.linspace(0.2, 2.0, 500))
case("dp-gd/softmax-csr", SOFTMAX, thin(three()))
case("dp-gd/one-vs-rest", ONE_VS_REST, three())
case("dp-gd/poisson", POISSON, counts(), guarantee=LOOSE)
case("dp-gd/sigmoid", SIGMOID, signs(), guarantee=LOOSE)
quiet("dp-gd/no-noise", RIDGE, signs(), DPGD(n_steps=25))

case("dp-svrg/anchored", RIDGE, signs())
case("dp-svrg/printed", RIDGE, signs(), PrintedSVRG())
case("dp-svrg/paper", RIDGE, signs(), DPSVRG(n_epochs=3, n_inner=200), noise="paper")
case("dp-svrg/barzilai-borwein", OFFSET, signs(n=1500), DPSVRG(barzilai_borwein=True), guarantee=LOOSE)
case("dp-svrg/elastic-net", NET, signs(), **MAYBE_MORE)
case("dp-svrg/groups", GROUPS, signs())
case("dp-svrg/float32", RIDGE, single(signs()), DPSVRG(n_epochs=2, n_inner=20, sampling_rate=0.1))
case("dp-svrg/softmax", SOFTMAX, three())
quiet("dp-svrg/no-noise", RIDGE, signs(), DPSVRG(n_epochs=3, n_inner=20))
case("dp-svrg/sigmoid", SIGMOID, signs(), DPSVRG(n_epochs=4, n_inner=4), guarantee=LOOSE)
quiet("dp-svrg/printed-no-noise", RIDGE, signs(), PrintedSVRG(n_epochs=3, n_inner=20))

case("dp-svrg++/anchored", PLAIN, signs())
case("dp-svrg++/printed", PLAIN, signs(), PrintedSVRGPlusPlus())
case("dp-svrg++/paper", PLAIN, signs(), DPSVRGPlusPlus(n_epochs=4), noise="paper")
case("dp-svrg++/l1-csr", LASSO, thin(signs()), **MAYBE_MORE)
quiet("dp-svrg++/no-noise", ON_L2, signs(), DPSVRGPlusPlus(n_epochs=4, n_inner=4))

case("dp-katyusha/ridge", RIDGE, signs())
case("dp-katyusha/elastic-net", NET, signs(), guarantee=LOOSE, **MAYBE_MORE)
case("dp-katyusha/csr", OFFSET, thin(signs(n=1500)), guarantee=LOOSE)
quiet("dp-katyusha/no-noise", RIDGE, signs(), DPKatyusha(n_epochs=3, n_inner=10))

case("dp-accmd/l1-ball", ON_L1, signs())
case("dp-accmd/l2-ball", ON_L2, signs(), **MAYBE_MORE)
case("dp-accmd/box", IN_BOX, signs())
case("dp-accmd/group-ball", ON_GROUPS, signs())
case("dp-accmd/simplex", ON_SIMPLEX, amounts())
case("dp-accmd/argmin", ON_L1, signs(), DPAccMD(y_step="argmin"))
case("dp-accmd/paper", ON_L1, signs(), DPAccMD(n_steps=15), noise="paper")
quiet("dp-accmd/no-noise", ON_L1, signs(), DPAccMD(n_steps=25))

case("dp-agd/ridge", RIDGE, signs())
case("dp-agd/l1-in-box", Problem(Logistic(), L1(0.01), Box(-2.0, 2.0)), signs(), **MAYBE_MORE)
case("dp-agd/huber-float32", HUBER, single(amounts()))
case("dp-agd/softmax", SOFTMAX, three(), guarantee=LOOSE)
quiet("dp-agd/no-noise", RIDGE, signs(), DPAGD(n_steps=25))

case("chaudhuri-output/ridge", RIDGE, signs(), guarantee=PURE)
case("chaudhuri-output/elastic-net", NET, signs(), guarantee=PURE, **MAYBE_MORE)
case("chaudhuri-output/paper", HINGE, signs(), guarantee=PURE, noise="paper")

case("chaudhuri-objective/ridge", RIDGE, signs(), guarantee=PURE)
case("chaudhuri-objective/plain", Problem(Logistic(), intercept=True), signs(), guarantee=PURE)
case("chaudhuri-objective/paper", RIDGE, signs(), guarantee=PURE, noise="paper")

case("kifer-objective/ridge", RIDGE, signs())
case("kifer-objective/pure", RIDGE, signs(), guarantee=PURE)
case("kifer-objective/l1", LASSO, signs(), **MAYBE_MORE)
case("kifer-objective/paper", RIDGE, signs(), noise="paper")
case("kifer-objective/pure-paper", RIDGE, signs(), guarantee=PURE, noise="paper")

case("bassily-sgd/ridge", RIDGE, signs())
case("bassily-sgd/l2-ball", ON_L2, signs(), BassilySGD(n_steps=300), **MAYBE_MORE)
case("bassily-sgd/paper", RIDGE, signs(), BassilySGD(n_steps=2000), noise="paper")

case("dp-sgd/ridge", RIDGE, signs())
case("dp-sgd/l1-csr", LASSO, thin(signs()), **MAYBE_MORE)
case("dp-sgd/decay", OFFSET, signs(), DPSGD(n_steps=100, sampling_rate=0.1, decay=0.5))
case("dp-sgd/one-vs-rest", ONE_VS_REST, three())
quiet("dp-sgd/no-noise", RIDGE, signs(), DPSGD(n_steps=50, sampling_rate=0.1))
case("dp-sgd/sigmoid", SIGMOID, signs(), DPSGD(n_steps=50, sampling_rate=0.1))

case("dp-adam/plain", PLAIN, signs())
case("dp-adam/csr", Problem(Sigmoid()), thin(signs()), guarantee=LOOSE, **MAYBE_MORE)
case("dp-adam/momentum", RIDGE, signs(), DPAdam(n_steps=60, sampling_rate=0.1, second_momentum=None))
quiet("dp-adam/no-noise", PLAIN, signs(), DPAdam(n_steps=50, reach=np.inf))

case("zhang-output/ridge", RIDGE, signs())
case("zhang-output/l2-ball", ON_L2, signs(), **MAYBE_MORE)
case("zhang-output/paper", RIDGE, signs(), noise="paper")

case("rrpsgd/sigmoid", SIGMOID, signs())
case("rrpsgd/l2-ball", ON_L2, signs(), RRPSGD(n_steps=200, decay=0.5), **MAYBE_MORE)
case("rrpsgd/paper", SIGMOID, signs(), RRPSGD(n_steps=2000), noise="paper")

case("talwar-mirror/l1-ball", ON_L1, signs())
case("talwar-mirror/box", IN_BOX, signs(), **MAYBE_MORE)
case("talwar-mirror/group-ball", ON_GROUPS, signs())
case("talwar-mirror/paper", ON_L1, signs(), TalwarMirror(n_steps=20), noise="paper")

case("dp-softmax/ridge", SOFTMAX, three())
case("dp-softmax/pure", SOFTMAX, three(), guarantee=PURE)
case("dp-softmax/plain", Problem(Softmax(3)), three(), **MAYBE_MORE)

case("talwar-objective/l1-ball", ON_L1, signs())
case("talwar-objective/pure", ON_L2, signs(), guarantee=PURE)
case("talwar-objective/paper", ON_L1, signs(), noise="paper")

case("talwar-frank-wolfe/entries", ENTRIES, signs())
case("talwar-frank-wolfe/simplex", ON_SIMPLEX, amounts(), **MAYBE_MORE)
case("talwar-frank-wolfe/paper", ON_L1, signs(), TalwarFrankWolfe(n_steps=10), noise="paper")
quiet("talwar-frank-wolfe/no-noise", ON_L1, signs(), TalwarFrankWolfe(n_steps=20))

case("dp-objective/ridge", RIDGE, signs())
case("dp-objective/pure", RIDGE, signs(), guarantee=PURE)
case("dp-objective/two-stages", PLAIN, signs(n=2000), DPObjective(n_stages=2), guarantee=LOOSE)
case("dp-objective/cut-slopes", OFFSET, thin(signs()), DPObjective(slope_share=0.7))
case("dp-objective/l1", LASSO, signs(), **MAYBE_MORE)
case("dp-objective/groups-in-box", GROUPS_IN_BOX, signs())
case("dp-objective/hinge-float32", HINGE, single(signs()))
case("dp-objective/weights", WEIGHTED, signs(), weights=np.linspace(2.0, 0.2, 500))
case("dp-objective/poisson", POISSON, counts())
quiet("dp-objective/no-noise", OFFSET, signs())

case("dp-newton/ridge", RIDGE, signs(n=1500))
case("dp-newton/l2-ball", ON_L2, signs(n=1500), adjacency="add_remove", n=1490)
case("dp-newton/csr", OFFSET, thin(signs(n=1500)), guarantee=LOOSE)
quiet("dp-newton/no-noise", RIDGE, signs())

case("dp-regression/offset", Problem(Squared(), intercept=True), amounts(n=1500))
case("dp-regression/huber-csr", HUBER, thin(amounts()), guarantee=LOOSE, **MAYBE_MORE)
quiet("dp-regression/no-noise", SQUARED, amounts())

case("adassp/corrected", SQUARED, amounts(n=1500))
case("adassp/intercept", SQUARED_OFFSET, amounts(n=1500), guarantee=LOOSE, **{**MAYBE_MORE, "n": 1500})
case("adassp/csr", SQUARED, thin(amounts()), AdaSSP(n_steps=2))
case("adassp/published", SQUARED, amounts(n=1500), noise="paper")
quiet("adassp/no-noise", SQUARED, amounts())

case("support-descent/gradient", ON_L1, signs(n=1000, p=8), SupportDescent(selection="gradient"))
case(
    "support-descent/vertices",
    ENTRIES,
    signs(),
    SupportDescent(selection="vertices", n_vertices=4, n_steps=10),
)
case("support-descent/default", ON_L1, thin(signs()), guarantee=LOOSE, **MAYBE_MORE)
quiet("support-descent/no-noise", ON_L1, signs(), SupportDescent(n_steps=20))

case("dp-spider/sigmoid", SIGMOID, signs())
case("dp-spider/welsch", WELSCH, amounts(n=2000), guarantee=LOOSE, **{**MAYBE_MORE, "n": 2000})
case("dp-spider/uniform", SIGMOID, thin(signs()), DPSpider(n_steps=40, period=8, release="uniform"))
quiet("dp-spider/no-noise", SIGMOID, signs(), DPSpider(n_steps=40))

case("auto/ridge", RIDGE, signs())
case("auto/plain", Problem(Logistic(), intercept=True), signs(n=2000), guarantee=LOOSE)
case("auto/pure", OFFSET, signs(), guarantee=PURE)
case("auto/softmax", SOFTMAX, three(), **MAYBE_MORE)
case("auto/squared", SQUARED, amounts(n=2000), guarantee=LOOSE)
case("auto/many-columns", ON_L1, thin(signs(n=300, p=60)), guarantee=LOOSE)
case("auto/sigmoid", SIGMOID, signs())
case("auto/paper", RIDGE, signs(), noise="paper")
quiet("auto/no-noise", RIDGE, signs())
quiet("auto/softmax-no-noise", SOFTMAX, three())
case("auto/schema", Problem(Logistic(), L2(0.05), row_norm=2.0), (table(n=1000), None), schema=schema(INCOME))

estimator(
    "logistic-regression/two-classes",
    dperm.PrivateLogisticRegression(1.0, 1e-6, classes=[-1, 1]),
    *signs(),
)
estimator(
    "logistic-regression/class-weight",
    dperm.PrivateLogisticRegression(1.0, 1e-6, classes=[-1, 1], class_weight={1: 2.0}, fit_intercept=False),
    *single(signs()),
)
estimator(
    "logistic-regression/three-classes",
    dperm.PrivateLogisticRegression(2.0, 1e-6, classes=[0, 1, 2], adjacency="add_remove", n=500),
    *thin(three()),
)
estimator(
    "logistic-regression/three-weighted-classes",
    dperm.PrivateLogisticRegression(4.0, 1e-6, classes=[0, 1, 2], class_weight={0: 0.5, 2: 1.5}, solver="dp-gd"),
    *three(),
)
estimator(
    "logistic-regression/elastic-net-svrg",
    dperm.PrivateLogisticRegression(
        2.0,
        1e-6,
        classes=[-1, 1],
        penalty=ElasticNet(0.1, 0.3),
        domain=L2Ball(3.0),
        solver=DPSVRG(n_epochs=2),
    ),
    *signs(),
)
estimator(
    "logistic-regression/no-noise",
    dperm.PrivateLogisticRegression(noise=None, classes=[-1, 1], penalty=None),
    *signs(),
)
estimator(
    "logistic-regression/schema",
    dperm.PrivateLogisticRegression(1.0, 1e-6, schema=schema(INCOME)),
    table(n=1000),
)
estimator(
    "logistic-regression/weighted-schema",
    dperm.PrivateLogisticRegression(1.0, 1e-6, schema=schema(INCOME), class_weight={"high": 3.0}),
    table(n=1000),
)
estimator(
    "logistic-regression/three-classes-schema",
    dperm.PrivateLogisticRegression(2.0, 1e-6, schema=schema(LEVEL, row_norm=1.5)),
    table(n=1000),
)
estimator(
    "logistic-regression/private-range",
    dperm.PrivateLogisticRegression(2.0, 1e-6, schema=schema(INCOME, PRIVATE_HOURS)),
    table(),
)
estimator(
    "logistic-regression/pure-private-range",
    dperm.PrivateLogisticRegression(4.0, 0.0, schema=schema(INCOME, PRIVATE_HOURS, range_share=0.5)),
    table(),
)
estimator(
    "logistic-regression/three-classes-private-range",
    dperm.PrivateLogisticRegression(3.0, 1e-6, schema=schema(LEVEL, PRIVATE_HOURS), adjacency="add_remove", n=2000),
    table(),
)
estimator(
    "linear-svc/two-classes",
    dperm.PrivateLinearSVC(1.0, 1e-6, classes=[-1, 1]),
    *signs(),
)
estimator(
    "linear-svc/class-weight",
    dperm.PrivateLinearSVC(1.0, 1e-6, classes=[-1, 1], class_weight={-1: 0.5}, smoothing=1.0, solver="dp-newton"),
    *signs(n=1500),
)
estimator(
    "linear-svc/three-classes",
    dperm.PrivateLinearSVC(2.0, 1e-6, classes=[0, 1, 2]),
    *three(),
)
estimator(
    "linear-svc/schema",
    dperm.PrivateLinearSVC(2.0, 0.0, schema=schema(INCOME), penalty=L2(0.1)),
    table(n=1000),
)
estimator(
    "linear-regression/plain",
    dperm.PrivateLinearRegression(1.0, 1e-6, row_norm=1.0),
    *amounts(n=1500),
)
estimator(
    "linear-regression/target-bound",
    dperm.PrivateLinearRegression(2.0, 1e-6, target_bound=2.0, row_norm=1.5, fit_intercept=False, penalty=None),
    *single(amounts()),
)
estimator(
    "linear-regression/l1-ball",
    dperm.PrivateLinearRegression(
        2.0, 1e-6, domain=L1Ball(2.0), penalty=None, adjacency="add_remove", n=500, row_norm=1.0
    ),
    *thin(amounts()),
)
estimator(
    "linear-regression/schema",
    dperm.PrivateLinearRegression(1.0, 1e-6, schema=schema(PAY)),
    table(n=1000),
)
estimator(
    "linear-regression/private-ranges",
    dperm.PrivateLinearRegression(4.0, 1e-6, schema=schema(PRIVATE_PAY, PRIVATE_HOURS)),
    table(),
)
estimator(
    "linear-regression/pure-private-range",
    dperm.PrivateLinearRegression(4.0, 0.0, schema=schema(PRIVATE_PAY, range_share=0.5)),
    table(),
)


def stored() -> dict[str, Outcome]:
    """What every case gave; numbers that JSON does not have are text there."""
    content = json.loads(STORED.read_text())
    return {
        name: Outcome(kept["w"], {key: float(kept[key]) for key in NOISE})  # float("inf") reads the text
        for name, kept in content.items()
    }


def write() -> None:
    """Run every case and store what it gives, a line each."""
    lines = []
    for name, run in CASES.items():
        coefficients, noise = run()
        plain = {key: value if np.isfinite(value) else str(value) for key, value in noise.items()}
        lines.append(f"{json.dumps(name)}: {json.dumps({'w': coefficients, **plain}, allow_nan=False)}")
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def distance(found: Outcome, kept: Outcome) -> tuple[float, float]:
    """How far apart the coefficients are, relative to the largest, and the noise, relative to itself."""
    w, v = np.array(found.coefficients), np.array(kept.coefficients)
    apart = np.inf if w.shape != v.shape else np.abs(w - v).max() / (np.abs(v).max() or 1.0)
    ratios = [
        0.0 if found.noise[key] == kept.noise[key] else abs(found.noise[key] - kept.noise[key]) / abs(kept.noise[key])
        for key in NOISE
    ]
    return float(apart), float(max(ratios))


def compare() -> None:
    """Print every case whose numbers are not the stored ones to the last bit."""
    for name, kept in stored().items():
        apart = distance(CASES[name](), kept)
        if any(apart):
            print(f"{name:50} coefficients {apart[0]:.1e}  noise {apart[1]:.1e}")  # noqa: T201


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else compare()
