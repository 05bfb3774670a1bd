"""A network by jax-privacy: its clipped gradients, noise, sampling and accountant with SGD or Adam, add_remove."""

import functools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from dp_accounting import NeighboringRelation
from fit_jax_privacy import noise_multiplier
from jax_privacy import batch_selection, clipped_grad, noise_addition
from network_job import Fitted, Rows, run

# Rows whose gradients are held at once. Of 32, 128, 512 and all, 128 was fastest at batches of 512 and 2048 on Adult
# (at 2048 four times as fast as all) and Letter, and at 512 on California; at 2048 there, 512 and all were faster.
MICROBATCH = 128


def network(n_columns: int, hidden: int, n_outputs: int, gain: float, seed: int) -> Any:
    """Tanh units with normal weights of deviation gain/√p, and outputs that start at zero."""
    layers = [(jnp.zeros((hidden or n_columns, n_outputs)), jnp.zeros(n_outputs))]
    if hidden:
        first = gain / n_columns**0.5 * jax.random.normal(jax.random.key(seed), (n_columns, hidden))
        layers.insert(0, (first, jnp.zeros(hidden)))
    return layers


def outputs(layers: Any, X: Any) -> Any:
    """One column per class, or one."""
    *hidden, (weights, biases) = layers
    for inner, offsets in hidden:
        X = jnp.tanh(X @ inner + offsets)
    return X @ weights + biases


def classified(layers: Any, X: Any, y: Any) -> Any:
    """Mean cross entropy."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(outputs(layers, X), y))


def half_square(layers: Any, X: Any, y: Any) -> Any:
    """Mean of ½(f(x) − y)²."""
    return 0.5 * jnp.mean((outputs(layers, X)[:, 0] - y) ** 2)


@functools.cache
def compiled(classes: bool, expected: int, clip: float, multiplier: float, optimiser: str, rate: float) -> Any:
    """One step, compiled once a setting (clipped gradients, noise, descent), and its start."""
    loss = classified if classes else half_square
    gradient = clipped_grad(
        loss, l2_clip_norm=clip, normalize_by=float(expected), batch_argnums=(1, 2), microbatch_size=MICROBATCH
    )
    deviation = multiplier * gradient.sensitivity(NeighboringRelation.ADD_OR_REMOVE_ONE)
    noise = noise_addition.gaussian_privatizer(stddev=deviation)
    descent = optax.adam(rate) if optimiser == "adam" else optax.sgd(rate, 0.9)

    @jax.jit
    def step(layers: Any, state: Any, X: Any, y: Any, indices: Any) -> Any:
        noise_state, descent_state = state
        summed = gradient(layers, X[indices], y[indices], is_padding_example=indices < 0)
        noisy, noise_state = noise.update(summed, noise_state, layers)
        change, descent_state = descent.update(noisy, descent_state, layers)
        return optax.apply_updates(layers, change), (noise_state, descent_state)

    def start(layers: Any, seed: int) -> Any:
        keyed = noise_addition.gaussian_privatizer(stddev=deviation, prng_key=jax.random.key(seed + 1))
        return keyed.init(layers), descent.init(layers)

    return step, start


@jax.jit
def added(sums: Any, layers: Any) -> Any:
    """Sums of iterates, for their mean."""
    return jax.tree.map(jnp.add, sums, layers)


def fit(
    rows: Rows, *, hidden: int, epsilon: float, delta: float, seed: int,
    batch: int, epochs: int, optimiser: str, rate: float, clip: float, gain: float = 1.0, timed: bool = False,
) -> Fitted:  # fmt: skip
    """Predictions of the last iterate and, unless it is timed, of the mean of the second half of them.

    Nearly all batches are padded to one size, because to compile another takes seconds.
    """
    n = len(rows.y)
    n_batches = -(-n // batch)
    expected, n_steps = -(-n // n_batches), n_batches * epochs
    # Remembered from seed to seed: 0 stands for all of them.
    multiplier = noise_multiplier(0, epsilon, delta, n, expected, n_steps)
    step, start = compiled(rows.n_classes > 0, expected, clip, multiplier, optimiser, rate)
    X, y = jnp.asarray(rows.X), jnp.asarray(rows.y, dtype=jnp.int32 if rows.n_classes else jnp.float32)
    layers = network(X.shape[1], hidden, rows.n_classes or 1, gain, seed)
    state, sums = start(layers, seed), jax.tree.map(jnp.zeros_like, layers)
    sampler = batch_selection.CyclicPoissonSampling(
        sampling_prob=expected / n, iterations=n_steps, partition_type=batch_selection.PartitionType.INDEPENDENT
    )
    deviation = (expected * (1.0 - expected / n)) ** 0.5
    size = int(expected + 4.0 * deviation)
    size += -size % MICROBATCH
    if timed:
        jax.block_until_ready(step(layers, state, X, y, np.full(size, -1, dtype=np.min_scalar_type(-n))))
    taken, began = [], time.perf_counter()
    for place, indices in enumerate(sampler.batch_iterator(n, rng=seed), 1):
        padded = batch_selection.pad_to_multiple_of(indices, size)
        layers, state = step(layers, state, X, y, padded)
        if place > n_steps // 2 and not timed:
            sums = added(sums, layers)
        if place % n_batches == 0:
            jax.block_until_ready(layers)
            now = time.perf_counter()
            taken.append(now - began)
            began = now
    iterates = {"last": layers}
    if not timed:
        iterates["mean"] = jax.tree.map(lambda total: total / (n_steps - n_steps // 2), sums)
    found = {name: np.asarray(outputs(iterate, rows.X_test)) for name, iterate in iterates.items()}
    return Fitted(
        {name: at.argmax(1) if rows.n_classes else at[:, 0] for name, at in found.items()}, taken, epochs, expected
    )


if __name__ == "__main__":
    run(fit)
