"""What a regression predicts of a skewed target: its mean, or with a logarithm its median, and it says which."""

import numpy as np

from dperm import PrivateLinearRegression

HIGH = 50_000.0


def skewed(n, seed):
    """A lognormal target in a wide range: its mean is 1.4 times its median."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    return X, np.minimum(np.exp(np.log(2000.0) + X @ [1.0, 0.5, -0.5, 0.0] + 0.8 * rng.normal(size=n)), HIGH)


def test_the_mean_of_a_skewed_target_is_predicted_and_not_less():
    """Without the mean residual that is released at the end the mean is 6 to 7 % low in each of these fits."""
    off = []
    for seed in range(5):
        X, y = skewed(15_000, seed)
        model = PrivateLinearRegression(1.0, 1e-6, bounds=(0, 1), target_bound=(0, HIGH), random_state=seed).fit(X, y)
        off.append(model.predict(X).mean() / y.mean() - 1.0)
    assert abs(np.mean(off)) < 0.02
    assert max(map(abs, off)) < 0.05
