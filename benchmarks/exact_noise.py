"""What exactly rounded noise costs, and whether it is what it says: `python benchmarks/exact_noise.py [--draws 1e8]`.

Four parts: nanoseconds per draw; a whole `auto` fit on Covertype with exact and with plain float noise, side by side;
the attack on low bits against both; 10⁸ draws against the exact distribution function and its tails.
"""

import argparse
import math
import statistics
import time
from unittest.mock import patch

import numpy as np
from scipy import special

from dperm import FitOptions, Guarantee, Problem, minimize
from dperm.audit import audit_plan
from dperm.audit.low_bits import is_possible
from dperm.datasets.covertype import load_covertype
from dperm.kernel.exact.radial import add_radial
from dperm.kernel.exact.rounding import add_gaussian, add_laplace
from dperm.kernel.exact.words import fresh_key, stream_of
from dperm.kernel.noise import Noise
from dperm.problem import L2, Logistic
from dperm.solvers import DPGD

PIECE = 10**6
FLOATS = np.random.default_rng()


def add_floats(values, scale, words):
    """Noise as it is drawn and added elsewhere: float64 by float64."""
    values += scale * FLOATS.standard_normal(values.size)


def speed():
    """Time of a draw and a rounded sum."""
    print(f"Nanoseconds per draw and rounded sum, one core, best and median of 9 runs of {PIECE:,}")
    stream, values = stream_of(fresh_key()), np.zeros(PIECE)
    for name, add in (("Gaussian", add_gaussian), ("Laplace", add_laplace), ("numpy's Gaussian, added", add_floats)):
        add(values[:10], 1.0, stream)
        times = []
        for _ in range(9):
            start = time.perf_counter()
            add(values, 1.0, stream)
            times.append((time.perf_counter() - start) / PIECE * 1e9)
        print(f"  {name:24s} {min(times):6.0f} {statistics.median(times):6.0f}")


def distribution(draws):
    """Kolmogorov–Smirnov by a fine histogram, and counts beyond 1 … 6σ, each with its z-score."""
    cells, counted = 2**16, np.zeros(2**16, np.int64)
    beyond = np.zeros(6, np.int64)
    stream, n = stream_of(fresh_key()), 0
    while n < draws:
        values = np.zeros(PIECE)
        add_gaussian(values, 1.0, stream)
        place = np.minimum((special.ndtr(values) * cells).astype(np.int64), cells - 1)
        counted += np.bincount(place, minlength=cells)
        sizes = np.abs(values)
        beyond += [np.count_nonzero(sizes > k) for k in range(1, 7)]
        n += PIECE
    distance = math.sqrt(n) * np.abs(np.cumsum(counted) / n - np.arange(1, cells + 1) / cells).max()
    chi = ((counted - n / cells) ** 2 / (n / cells)).sum()
    print(f"{n:.0e} Gaussian draws: KS √n·D = {distance:.3f}, p = {special.kolmogorov(distance):.3f}")
    print(f"  χ² over {cells} equal cells: {chi:.0f}, z = {(chi - cells + 1) / math.sqrt(2 * (cells - 1)):+.2f}")
    for k, found in enumerate(beyond, 1):
        expected = n * 2 * special.ndtr(-k)
        z = (found - expected) / math.sqrt(expected)
        print(f"  beyond {k}σ: {found} found, {expected:.1f} expected, z = {z:+.2f}")


def low_bits(numbers):
    """The attack at the gate: which numbers floats could not have made from x, and which not from a neighbour."""
    x, scale, p = np.random.default_rng(0).normal(size=20), 0.37, 20
    other = x + 1e-3 * scale
    gates = {"Gaussian": add_gaussian, "Laplace": add_laplace, "Gamma": add_radial, "plain float": add_floats}
    print(f"The attack on low bits, {numbers} released numbers of each kind, shares that no float noise explains")
    for name, add in gates.items():
        stream, under = stream_of(fresh_key()), np.zeros(2)
        told = np.zeros(2, int)  # vectors with a number that is impossible under one of the two only
        for _ in range(numbers // p):
            released = x.copy()
            add(released, scale, stream)
            impossible = [~is_possible(released, exact, scale) for exact in (x, other)]
            under += [flags.sum() for flags in impossible]
            some = [flags.any() for flags in impossible]
            told += [some[0] and not some[1], some[1] and not some[0]]
        shares = under / numbers
        error = math.sqrt(max(shares[0] * (1 - shares[0]), 1e-12) / numbers)
        print(
            f"  {name:12s} under x {shares[0]:.4f} ± {error:.4f}, under x' {shares[1]:.4f}; of {numbers // p} vectors "
            f"{told[1]} speak for x, {told[0]} for x'"
        )
    for solver in ("dp-gd", "zhang-output", "chaudhuri-output"):
        chosen = DPGD(accounting="composition") if solver == "dp-gd" else solver
        guarantee = Guarantee(1.0, 0.0 if solver == "chaudhuri-output" else 1e-5)
        options = FitOptions(Problem(Logistic(), L2(0.1)), guarantee=guarantee, solver=chosen)
        found = audit_plan(options.plan(100, p), attacks=["low-bits"], fits=numbers // (20 * p), random_state=0)
        print(f"  whole fits, {solver}: {found.attacks[0].found}")


def fit_time(runs):
    """Fits with both kinds of noise, alternating."""
    X, y, *_ = load_covertype(200_000)
    guarantee, times = Guarantee(1.0, 1e-6), {"float": [], "exact": []}
    gates = {"float": {**Noise.adders, "Gaussian": add_floats, "Gamma": add_floats}, "exact": Noise.adders}
    for run in range(runs + 2):
        for kind, adders in gates.items():
            with patch.object(Noise, "adders", adders):
                start = time.process_time()
                minimize(Problem(Logistic()), X, y, guarantee=guarantee)
                if run >= 2:
                    times[kind].append(time.process_time() - start)
    ratios = [exact / plain for exact, plain in zip(times["exact"], times["float"], strict=True)]
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    print(
        f"`auto` on Covertype, {len(y)} × {X.shape[1]}, ε = 1, δ = 1e-6, replace_one, {runs} pairs of fits, CPU seconds"
    )
    print(f"  float noise {statistics.median(times['float']):.3f}, exact noise {statistics.median(times['exact']):.3f}")
    print(f"  exact over float: median {middle:.3f}, quartiles {low:.3f} … {high:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=float, default=1e8)
    parser.add_argument("--runs", type=int, default=41)
    chosen = parser.parse_args()
    speed()
    fit_time(chosen.runs)
    low_bits(100_000)
    distribution(int(chosen.draws))
