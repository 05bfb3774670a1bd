"""The compiled exponential against numpy's."""

import numba
import numpy as np

from dperm.problem.losses.exponential import exp


@numba.njit(fastmath=True)
def compiled(x, out):
    for i in range(x.shape[0]):
        out[i] = exp(x[i])


def test_it_agrees_with_numpy_to_fourteen_digits_everywhere_even_in_a_fast_math_loop():
    x = np.concatenate([np.linspace(-708, 709, 400_001), np.random.default_rng(0).normal(size=100_000), [0.0, -0.0]])
    out = np.empty_like(x)
    compiled(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=2e-14)


def test_beyond_the_ends_it_stays_finite_and_positive():
    x = np.array([-1e300, -709.0, 710.0, 1e300])
    out = np.empty_like(x)
    compiled(x, out)
    assert np.isfinite(out).all()
    assert (out > 0).all()
    np.testing.assert_allclose(out, exp(x), rtol=2e-14)
