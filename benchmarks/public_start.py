"""What a public start is worth: fits on Adult that begin at coefficients of a few public rows, and fits that do not.

    PYTHONPATH=src python benchmarks/public_start.py

The public rows are the first 1000 of the test file; the log loss is measured on the rest of it.
"""

from dataclasses import replace

import numpy as np
from sklearn.metrics import log_loss

from dperm import Number, PrivateLogisticRegression
from dperm.datasets.adult import load_adult

EPSILONS, N_FITS, N_PUBLIC = (0.02, 0.1, 0.5), 10, 1000


def main():
    """Print a table of mean log losses with the standard deviation over fits."""
    declared, train, test = load_adult()
    # Every number as one entry, so that all fits have the same columns.
    columns = {
        name: replace(column, encode="linear") if isinstance(column, Number) else column
        for name, column in declared.columns.items()
    }
    schema = replace(declared, columns=columns)
    people, test = train.to_pandas(), test.to_pandas()
    public, held_out = test[:N_PUBLIC], test[N_PUBLIC:]
    truth = held_out["income"].str.startswith(">50K")
    known = PrivateLogisticRegression(noise=None, penalty=0.01, schema=replace(schema, n=N_PUBLIC)).fit(public)
    start = (known.coef_, known.intercept_)
    print(f"n = {len(people)}, {known.privacy_.n_features} columns, {N_FITS} fits each, δ = 1e-6, replace_one")
    print(f"the start itself: {log_loss(truth, known.predict_proba(held_out)[:, 1]):.4f}")
    for epsilon in EPSILONS:
        for name, parameters in (
            ("auto, no start", {}),
            ("auto, start", {"start": start}),
            ("dp-gd, no start", {"solver": "dp-gd"}),
            ("dp-gd, start", {"solver": "dp-gd", "start": start}),
        ):
            losses = []
            for seed in range(N_FITS):
                model = PrivateLogisticRegression(epsilon, 1e-6, schema=schema, random_state=seed, **parameters)
                losses.append(log_loss(truth, model.fit(people).predict_proba(held_out)[:, 1]))
            solver = model.privacy_.mechanism.split(",")[0]
            print(f"ε = {epsilon:<5g} {name:<16} {solver:<13} {np.mean(losses):.4f} ± {np.std(losses, ddof=1):.4f}")


if __name__ == "__main__":
    main()
