"""Logistic regression by jax-privacy: DP-SGD from its clipped gradients, noise, sampling and accountant, add_remove."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from dp_accounting import NeighboringRelation
from jax_privacy import accounting, batch_selection, clipped_grad, noise_addition
from job import run


def loss(w: Any, rows: Any, targets: Any) -> Any:
    """Mean logistic loss."""
    return jnp.mean(jax.nn.softplus(-targets * (rows @ w)))


@functools.cache
def noise_multiplier(seed: int, epsilon: float, delta: float, n: int, expected: int, n_steps: int) -> float:
    """Calibrated noise. Remembered while settings are tried at one seed; a fit with another seed calibrates again."""
    return accounting.calibrate_noise_multiplier(
        target_epsilon=epsilon,
        accountant=accounting.DpsgdTrainingAccountant(dp_accountant_config=accounting.PldAccountantConfig()),
        batch_sizes=expected,
        num_updates=n_steps,
        num_samples=n,
        target_delta=delta,
    )


@functools.cache
def compiled(expected: int, clip: float, multiplier: float, strength: float, rate: float, momentum: float) -> Any:
    """One step, compiled once a setting (clipped gradients, noise, the ridge's gradient, descent), and its start."""
    gradient = clipped_grad(loss, l2_clip_norm=clip, normalize_by=float(expected), batch_argnums=(1, 2))
    deviation = multiplier * gradient.sensitivity(NeighboringRelation.ADD_OR_REMOVE_ONE)
    noise = noise_addition.gaussian_privatizer(stddev=deviation)
    descent = optax.chain(optax.add_decayed_weights(strength), optax.sgd(rate, momentum))

    @jax.jit
    def step(w: Any, state: Any, X: Any, y: Any, indices: Any) -> Any:
        noise_state, descent_state = state
        summed = gradient(w, X[indices], y[indices], is_padding_example=indices < 0)
        noisy, noise_state = noise.update(summed, noise_state, w)
        change, descent_state = descent.update(noisy, descent_state, w)
        return optax.apply_updates(w, change), (noise_state, descent_state)

    def start(w: Any, seed: int) -> Any:
        keyed = noise_addition.gaussian_privatizer(stddev=deviation, prng_key=jax.random.key(seed))
        return keyed.init(w), descent.init(w)

    return step, start


def fit(
    X: Any, y: Any, *, epsilon: float, delta: float, strength: float, seed: int,
    batches: int, epochs: int, rate: float, momentum: float, clip: float,
) -> dict[str, Any]:  # fmt: skip
    """The last iterate, and the mean of the second half of them."""
    n, n_steps = len(y), batches * epochs
    expected = -(-n // batches)
    multiplier = noise_multiplier(seed, epsilon, delta, n, expected, n_steps)
    step, start = compiled(expected, clip, multiplier, strength, rate, momentum)
    rows, targets = jnp.asarray(X, dtype=jnp.float32), jnp.asarray(y, dtype=jnp.float32)
    w = jnp.zeros(X.shape[1])
    state = start(w, seed)
    sampler = batch_selection.CyclicPoissonSampling(
        sampling_prob=expected / n, iterations=n_steps, partition_type=batch_selection.PartitionType.INDEPENDENT
    )
    iterates = []
    for indices in sampler.batch_iterator(n, rng=seed):
        padded = batch_selection.pad_to_multiple_of(indices, max(32, expected // 16))
        w, state = step(w, state, rows, targets, padded)
        iterates.append(w)
    return {"last": np.asarray(w), "mean": np.mean(np.asarray(iterates[n_steps // 2 :]), axis=0)}


if __name__ == "__main__":
    run(fit)
