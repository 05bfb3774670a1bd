"""What a private search gains and costs: penalty, encoding and loss, chosen under ε = 1 in all.

    python benchmarks/search.py [adult covertype-2 letter] [--seeds 5] [--rows 100000]

δ = 1e-5, replace_one. Prints the test AUC (accuracy for Letter), mean ± standard deviation over the seeds: of the
default fit with ε = 1 and no search, of a fit with a fixed penalty of 0.1, and of searches whose (ε, δ) covers the last
fit too. Data as of benchmarks/accuracy: DPERM_DATA names the folder.
"""

import argparse
import collections
import dataclasses
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "accuracy"))

from data import load
from ours import _places, _schema

from dperm import Guarantee, PrivateLinearSVC, PrivateLogisticRegression, PrivateSearch
from dperm.accounting.curve import gaussian_mu
from dperm.plan.search import METHODS, SearchOptions, cheapest, guarantee_of
from dperm.privacy.guarantee import Adjacency

EPSILON, DELTA = 1.0, 1e-5
PENALTIES = [0.1, 1e-2, 1e-3, "auto"]


def encoded(schema, how):
    """The same schema with every number encoded in one way."""
    numbers = {name: dataclasses.replace(schema.columns[name], encode=how) for name in schema.numbers}
    return dataclasses.replace(schema, columns={**schema.columns, **numbers})


def searches(schema, classes):
    """What is searched, by name; None stands for no search at all."""
    logistic = PrivateLogisticRegression(schema=schema)
    encodings = [encoded(schema, how) for how in ("linear", "bins")]
    both = {"penalty": PENALTIES, "schema": encodings}
    found = {
        "penalty (4)": (logistic, {"penalty": PENALTIES}),
        "encoding (2)": (logistic, {"schema": encodings}),
        "penalty × encoding (8)": (logistic, both),
    }
    if classes == 2:
        found["loss (2)"] = [logistic, PrivateLinearSVC(schema=schema)]
    return found


def measured(data, model):
    """The measure on test rows."""
    if data.measure == "AUC":
        return data.score(model.decision_function(data.test))
    return data.score(_places(data, model.predict(data.test)))


def line(name, values, seconds, more=""):
    """One row of what is printed."""
    values = np.array(values)
    print(f"{name:<26}{values.mean():.4f} ± {values.std(ddof=1):.4f}  {seconds:6.1f} s a run  {more}", flush=True)


def costs():
    """The precision of one trial by the number of candidates, as a share of μ, and its ε."""
    print("ε, δ, candidates, random trials expected; μ of a trial over μ (its ε): composition, random trials; cheaper")
    for guarantee in (Guarantee(1.0, 1e-5), Guarantee(3.0, 1e-6)):
        for size in (2, 4, 8, 16, 24, 32, 48, 64, 100, 300):
            trials, found = min(2 * size, 64), []
            for method in METHODS:
                options = SearchOptions(guarantee, Adjacency.REPLACE_ONE, "losses", method)
                precision = cheapest(options, size, trials)[1]
                epsilon = guarantee_of(precision, guarantee.delta).epsilon
                found.append((precision / gaussian_mu(guarantee), epsilon))
            shown = ", ".join(f"{share:.3f} ({epsilon:.3f})" for share, epsilon in found)
            better = METHODS[found[1] > found[0]]
            print(f"{guarantee.epsilon:g}, {guarantee.delta:g}, {size}, {trials}; {shown}; {better}", flush=True)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["adult", "covertype-2", "letter"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--only", help="one search by the beginning of its name")
    parser.add_argument("--costs", action="store_true", help="the table of what a search costs, and nothing else")
    arguments = parser.parse_args()
    if arguments.costs:
        costs()
        return
    warnings.simplefilter("ignore")  # a seed, and δ that is more than 1/n, for everybody alike
    for name in arguments.tables:
        data = load(name)
        data = dataclasses.replace(data, train=data.train[: arguments.rows])
        schema = _schema(data)
        print(f"{name}: n = {len(data.train)}, {data.measure}, ε = {EPSILON:g}, δ = {DELTA:g}, {arguments.seeds} seeds")
        for title, penalty in (("default, no search", "auto"), ("penalty 0.1, no search", 0.1)):
            start, values = time.process_time(), []
            for seed in range(arguments.seeds):
                model = PrivateLogisticRegression(EPSILON, DELTA, schema=schema, penalty=penalty, random_state=seed)
                values.append(measured(data, model.fit(data.train)))
            line(title, values, (time.process_time() - start) / arguments.seeds)
        for title, what in searches(schema, data.n_classes).items():
            if arguments.only and not title.startswith(arguments.only):
                continue
            start, values, won = time.process_time(), [], collections.Counter()
            names = ("candidates",) if isinstance(what, list) else ("estimator", "param_grid")
            given = dict(zip(names, [what] if isinstance(what, list) else what, strict=True))
            search = PrivateSearch(epsilon=EPSILON, delta=DELTA, share=arguments.share, noisy_trials=True, **given)
            refused = "refused unless noisy_trials; " if search.plan(len(data.train)).drowned else ""
            for seed in range(arguments.seeds):
                search.set_params(random_state=seed).fit(data.train)
                values.append(measured(data, search.best_estimator_))
                won[search.best_index_] += 1
            left = search.best_estimator_.privacy_.epsilon
            tried = search.privacy_.parts[0].partition("(")[2].partition(";")[0]
            winners = ", ".join(f"{place}: {times}×" for place, times in sorted(won.items()))
            more = f"{refused}{tried}; last fit ε = {left:.3f}; won {winners}"
            line(title, values, (time.process_time() - start) / arguments.seeds, more)


if __name__ == "__main__":
    main()
