"""A small convolutional network on images of 28 × 28, trained privately: layers come with JAX, none is dperm's.

    python examples/images.py            two minutes on two cores
    python examples/images.py --rows 2000 --epsilon 8

The images are made from a seed: scikit-learn's digits, enlarged and moved about. Needs pip install 'dperm[jax]'.
"""

import argparse
import time
from typing import Any

import jax
import numpy as np
from jax.example_libraries import stax
from sklearn.datasets import load_digits

from dperm import PrivateJaxClassifier

SIZE = 28


def make_images(n: int, seed: int) -> tuple[Any, Any]:
    """Digits, three times as large, somewhere in the picture; pixels in [0, 1]."""
    rng = np.random.default_rng(seed)
    digits = load_digits()
    chosen = rng.integers(0, len(digits.target), n)
    images = np.zeros((n, SIZE, SIZE), dtype=np.float32)
    for image, digit in zip(images, digits.images[chosen] / 16.0, strict=True):
        top, left = rng.integers(0, SIZE - 24 + 1, 2)
        image[top : top + 24, left : left + 24] = np.kron(digit, np.ones((3, 3)))
    return images.reshape(n, -1), digits.target[chosen]


def network() -> tuple[Any, Any]:
    """Two convolutions and a dense layer: start and apply functions."""
    return stax.serial(
        stax.Conv(16, (4, 4), strides=(4, 4)), stax.Tanh,
        stax.Conv(16, (3, 3), strides=(2, 2)), stax.Tanh,
        stax.Flatten, stax.Dense(10),
    )  # fmt: skip


def main() -> None:
    """Train, and print what was reached and what is promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, default=3.0)
    arguments = parser.parse_args()
    X, y = make_images(arguments.rows, seed=0)
    X_test, y_test = make_images(2_000, seed=1)
    start, apply = network()
    _, params = start(jax.random.key(0), (1, SIZE, SIZE, 1))

    def model(params: Any, x: Any) -> Any:
        return apply(params, x.reshape(1, SIZE, SIZE, 1))[0]

    private = PrivateJaxClassifier(arguments.epsilon, 1e-5, model=model, params=params, classes=range(10), verbose=True)
    print(private.plan(arguments.rows, SIZE * SIZE))  # noqa: T201
    began = time.perf_counter()
    private.fit(X, y)
    print(f"test accuracy {private.score(X_test, y_test):.3f} after {time.perf_counter() - began:.0f} s")  # noqa: T201


if __name__ == "__main__":
    main()
