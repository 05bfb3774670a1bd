"""Adult from its published file: test accuracy of private logistic regression by ε, beside the same fit without noise.

    python benchmarks/adult.py [--seeds 10]

Every fit is `PrivateLogisticRegression` with the schema of `load_adult` (δ = 1e-5, replace_one), once with its public
ranges and once with the ranges of age and hours found privately.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from dperm import Number, PrivateLogisticRegression
from dperm.datasets.adult import load_adult


def main() -> None:
    """Print a line for every ε."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    public, train, test = load_adult()
    hidden = {"age": Number("private"), "hours-per-week": Number("private", within=(0, 168))}
    schemas = {"public ranges": public, "private ranges": replace(public, columns={**public.columns, **hidden})}
    plain = PrivateLogisticRegression(schema=public, noise=None).fit(train).score(test)
    print(f"without noise: {plain:.4f}")
    for name, schema in schemas.items():
        for epsilon in (0.1, 0.5, 1.0, 2.0):
            model = PrivateLogisticRegression(epsilon, 1e-5, schema=schema)
            start = time.process_time()
            found = [model.fit(train).score(test) for _ in range(seeds)]
            seconds = (time.process_time() - start) / seeds
            spread = f"{np.median(found):.4f} ({min(found):.4f} … {max(found):.4f}, {seeds} fits)"
            share = f"{np.median(found) / plain:.4f} of that without noise"
            print(f"  {name:<15} ε = {epsilon:<4g} accuracy {spread}, {share}, {seconds:.2f} s of CPU a fit and score")


if __name__ == "__main__":
    main()
