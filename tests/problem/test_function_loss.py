"""Functions of one row: their summed gradients, their norms without single gradients, and what is refused."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import dperm
from dperm import DpermError, FitOptions, Guarantee, InvalidParameterError, Problem, unsafe
from dperm.kernel.block import Block
from dperm.kernel.objectives import objective_of
from dperm.privacy.statement import FitStatement
from dperm.problem import L1, L2, Box, FunctionLoss, L2Ball
from dperm.solvers import DPGD

WIDTH, HIDDEN = 3, 4


def network(params, x, y):
    hidden = jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return 0.5 * jnp.square(hidden @ params["out"] - y)


def unrecognised(params, x, y):
    """The same without a product of a vector and a matrix."""
    hidden = jnp.tanh((params["hidden"]["kernel"] * x[:, None]).sum(axis=0) + params["hidden"]["bias"])
    return 0.5 * jnp.square(hidden @ params["out"] - y)


def transposed(params, x, y):
    """The same with the matrix on the left, its columns belonging to the row."""
    hidden = jnp.tanh(jnp.einsum("ij,i->j", params["hidden"]["kernel"], x) + params["hidden"]["bias"])
    return 0.5 * jnp.square(hidden @ params["out"] - y)


def batch_of_one(params, x, y):
    """The same as layers of flax see it."""
    hidden = jnp.tanh(x[None] @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return 0.5 * jnp.square(hidden[0] @ params["out"] - y)


def params(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "hidden": {"kernel": rng.normal(size=(WIDTH, HIDDEN)), "bias": rng.normal(size=HIDDEN)},
        "out": rng.normal(size=HIDDEN),
    }


PARAMS = params()


def loss_of(function=network, **more):
    return FunctionLoss(function, PARAMS, **{"clip": 0.5, **more})


def by_hand(w, X, y):
    """Gradients of single rows, bias first, as JAX orders names."""
    bias, kernel, out = w[:4], w[4:16].reshape(WIDTH, HIDDEN), w[16:]
    hidden = np.tanh(X @ kernel + bias)
    error = hidden @ out - y
    inner = (error[:, None] * out) * (1.0 - hidden**2)
    matrix = np.einsum("ij,ik->ijk", X, inner).reshape(len(X), WIDTH * HIDDEN)
    return np.concatenate([inner, matrix, error[:, None] * hidden], axis=1)


def clipped_by_hand(rows, clip, clipping):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if clipping == "flat":
        return rows * np.minimum(1.0, clip / norms)
    if clipping == "automatic":
        return rows * clip / (norms + 0.01)
    parts = [rows[:, :16], rows[:, 16:]]  # the hidden layer's kernel and bias are one layer
    share = clip / np.sqrt(2.0)
    return np.hstack([part * np.minimum(1.0, share / np.linalg.norm(part, axis=1, keepdims=True)) for part in parts])


def table(n=700, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, WIDTH)), np.clip(rng.normal(size=n), -1.0, 1.0)


def gradient_sum(loss, X, y, w=None, weights=None, bound=None, **more):
    problem = Problem(loss, **more)
    block = Block.from_table(X, y, problem, weights)
    return objective_of(problem).gradient_sum(block, loss.start_point if w is None else w, bound, None)


def difference_sum(loss, X, y, w, anchor, bound, chosen=None):
    problem = Problem(loss)
    block = Block.from_table(X, y, problem)
    chosen = np.arange(len(y)) if chosen is None else chosen
    return objective_of(problem).difference_sum(block, chosen, w, anchor, bound, None)


# What the sums are.


def test_the_gradient_of_one_row_is_that_of_finite_differences():
    loss = loss_of(clip=1e6)
    (X, y), w = table(1), loss.start_point
    problem = Problem(loss)
    block, objective = Block.from_table(X, y, problem), objective_of(problem)
    steps = 1e-6 * np.eye(w.size)
    slopes = [(objective.risk_sum(block, w + e) - objective.risk_sum(block, w - e)) / 2e-6 for e in steps]
    np.testing.assert_allclose(gradient_sum(loss, X, y), slopes, rtol=0, atol=1e-8)


@pytest.mark.parametrize("clipping", ["flat", "per-layer", "automatic"])
def test_sums_of_clipped_gradients_are_those_by_hand_in_every_storage(clipping):
    loss = loss_of(clipping=clipping)
    X, y = table()
    X[::3, 1] = 0.0
    expected = clipped_by_hand(by_hand(loss.start_point, X, y), 0.5, clipping).sum(axis=0)
    np.testing.assert_allclose(gradient_sum(loss, X, y), expected, rtol=1e-10)
    np.testing.assert_allclose(gradient_sum(loss, sparse.csr_matrix(X), y), expected, rtol=1e-10)
    thin = X.astype(np.float32)
    expected = clipped_by_hand(by_hand(loss.start_point, np.float64(thin), y), 0.5, clipping).sum(axis=0)
    np.testing.assert_allclose(gradient_sum(loss, thin, y), expected, rtol=1e-10)


def test_a_clip_that_no_gradient_reaches_changes_nothing():
    loss = loss_of(clip=1e6)
    X, y = table()
    np.testing.assert_allclose(gradient_sum(loss, X, y), by_hand(loss.start_point, X, y).sum(axis=0), rtol=1e-10)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("clipping", ["flat", "per-layer", "automatic"])
@pytest.mark.parametrize("other", [unrecognised, transposed, batch_of_one])
def test_norms_without_single_gradients_are_those_of_the_gradients(clipping, other):
    from dperm.problem.tracing import traced

    fast, slow = loss_of(clipping=clipping), loss_of(other, clipping=clipping)
    assert len(traced(fast, WIDTH).layers) == 1
    assert len(traced(slow, WIDTH).layers) == (0 if other is unrecognised else 1)
    X, y = table(100)
    np.testing.assert_allclose(gradient_sum(fast, X, y), gradient_sum(slow, X, y), rtol=1e-10)


def test_a_matrix_that_is_used_twice_is_no_linear_layer():
    from dperm.problem.tracing import traced

    def tied(w, x, y):
        return jnp.square(jnp.sum(jnp.tanh(x @ w) @ w) - y)

    loss = FunctionLoss(tied, np.eye(3) + 0.1, clip=100.0)
    assert traced(loss, 3).layers == ()
    x, y, w, step = np.array([[0.3, -0.2, 0.5]]), np.array([0.4]), np.eye(3) + 0.1, 1e-6

    def value(w):
        return float((np.sum(np.tanh(x[0] @ w) @ w) - y[0]) ** 2)

    slopes = [(value(w + step * e) - value(w - step * e)) / (2 * step) for e in np.eye(9).reshape(9, 3, 3)]
    np.testing.assert_allclose(gradient_sum(loss, x, y), slopes, rtol=0, atol=1e-8)


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 1024, 2049])
def test_every_row_counts_once_whatever_their_number(n):
    loss = loss_of()
    X, y = table(n)
    expected = clipped_by_hand(by_hand(loss.start_point, X, y), 0.5, "flat").sum(axis=0)
    np.testing.assert_allclose(gradient_sum(loss, X, y), expected, rtol=1e-10, atol=1e-13)


def test_weights_multiply_and_rows_of_weight_zero_may_hold_anything():
    loss = loss_of()
    X, y = table(50)
    weights = np.random.default_rng(2).uniform(0.0, 3.0, 50)
    weights[::4] = 0.0
    expected = weights @ clipped_by_hand(by_hand(loss.start_point, X, y), 0.5, "flat")
    X[::4] = 1e300
    np.testing.assert_allclose(gradient_sum(loss, X, y, weights=weights, weight_bound=3.0), expected, rtol=1e-10)


def test_a_bound_that_is_asked_for_takes_the_place_of_the_clip():
    loss = loss_of()
    X, y = table(50)
    expected = clipped_by_hand(by_hand(loss.start_point, X, y), 0.1, "flat").sum(axis=0)
    np.testing.assert_allclose(gradient_sum(loss, X, y, bound=0.2, weight_bound=2.0), expected, rtol=1e-10)


@pytest.mark.parametrize("clipping", ["flat", "per-layer", "automatic"])
def test_differences_are_those_of_clipped_gradients_clipped_themselves(clipping):
    loss = loss_of(clipping=clipping)
    X, y = table(600)
    w, anchor = loss.start_point, loss.start_point + 0.1 * np.random.default_rng(3).normal(size=20)
    chosen = np.arange(0, 600, 2)
    at_both = [clipped_by_hand(by_hand(point, X[chosen], y[chosen]), 0.5, clipping) for point in (w, anchor)]
    expected = clipped_by_hand(at_both[0] - at_both[1], 0.05, "flat").sum(axis=0)
    np.testing.assert_allclose(difference_sum(loss, X, y, w, anchor, 0.05, chosen), expected, rtol=1e-9)


def test_differences_of_no_rows_or_of_no_length_are_zero():
    loss = loss_of()
    X, y = table(20)
    w, anchor = loss.start_point, loss.start_point + 1.0
    assert not difference_sum(loss, X, y, w, anchor, 0.05, np.arange(0)).any()
    assert not difference_sum(loss, X, y, w, w, 0.0).any()
    assert not difference_sum(loss, X, y, w, anchor, 0.0).any()
    assert not difference_sum(loss, X, y, w, anchor, 1e-200).any()


def test_risks_add_up_and_a_row_without_one_counts_as_zero():
    def rooted(w, x, y):
        return jnp.sqrt(x[0]) * jnp.sum(w) + 0.0 * y

    loss = FunctionLoss(rooted, np.array([1.0, 2.0]))
    problem = Problem(loss)
    X = np.array([[4.0], [-1.0], [9.0]])
    block = Block.from_table(X, np.zeros(3), problem, np.array([1.0, 1.0, 0.5]))
    assert objective_of(problem).risk_sum(block, loss.start_point) == pytest.approx(3.0 * (2.0 + 1.5), rel=1e-12)


def test_the_empirical_risk_is_the_mean_of_the_function():
    X, y = table(30)
    w = loss_of().start_point
    hidden = np.tanh(X @ PARAMS["hidden"]["kernel"] + PARAMS["hidden"]["bias"])
    expected = 0.5 * np.square(hidden @ PARAMS["out"] - y).mean()
    assert unsafe.empirical_risk(Problem(loss_of()), X, y, w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("params", "inputs"),
    [
        ({"kernel": np.zeros((16, 26)), "bias": np.zeros(26)}, 17),
        ({"in": np.zeros((16, 64)), "out": np.zeros((64, 26)), "bias": np.zeros(64)}, 17 + 65),
        ({"filter": np.zeros((5, 5, 1, 8)), "out": np.zeros((72, 10))}, 26 + 73),
        ({"scale": np.zeros(7), "offset": np.zeros(())}, 7),
    ],
)  # fmt: skip
def test_the_inputs_of_one_unit_of_every_layer_follow_from_the_shapes(params, inputs):
    assert FunctionLoss(lambda w, x, y: 0.0, params).fan_in(16) == inputs


def test_a_product_in_less_precision_is_summed_all_the_same():
    def rough(w, x, y):
        return jnp.sum(jnp.tanh(jnp.dot(x, w, preferred_element_type=jnp.float32) * jnp.float32(2.0))) + 0.0 * y

    loss = FunctionLoss(rough, 0.1 * np.ones((WIDTH, 2)), clip=100.0)
    X, y = table(20)
    slope = 2.0 * (1.0 - np.tanh(2.0 * (X @ (0.1 * np.ones((WIDTH, 2))))) ** 2)
    np.testing.assert_allclose(gradient_sum(loss, X, y), (X.T @ slope).ravel(), rtol=1e-5, atol=1e-5)


def test_classes_reach_the_function_as_whole_numbers():
    def of_class(w, x, y):
        assert y.dtype == jnp.int32
        return -jax.nn.log_softmax(x @ w)[y]

    loss = FunctionLoss(of_class, np.zeros((WIDTH, 3)), n_classes=3, clip=100.0)
    X, _ = table(40)
    classes = np.random.default_rng(4).integers(0, 3, 40).astype(float)
    classes[:4] = [0.5, -1.0, 3.0, np.nan]  # rows of no class are ignored
    slope = np.full((36, 3), 1.0 / 3.0) - np.eye(3)[classes[4:].astype(int)]
    np.testing.assert_allclose(gradient_sum(loss, X, classes), (X[4:].T @ slope).ravel(), rtol=1e-10)


def test_for_two_classes_a_target_above_zero_is_one():
    loss = loss_of(n_classes=2)
    encoded = loss.encode(np.array([-1.0, 0.0, 0.5, 1.0, 7.0, np.nan]))
    np.testing.assert_array_equal(encoded, [0.0, 0.0, 1.0, 1.0, 1.0, np.nan])


# Parameters and their names.


def test_arrays_have_their_paths_as_names_and_layers_without_the_last_part():
    leaves = loss_of().leaves
    assert [leaf.name for leaf in leaves] == ["hidden/bias", "hidden/kernel", "out"]
    assert [leaf.layer for leaf in leaves] == ["hidden", "hidden", ""]
    assert [(leaf.start, leaf.stop, leaf.shape) for leaf in leaves] == [(0, 4, (4,)), (4, 16, (3, 4)), (16, 20, (4,))]


def test_names_of_sequences_are_their_places():
    loss = FunctionLoss(network, [np.ones(2), (np.ones(3), np.ones((1, 1)))])
    assert [leaf.name for leaf in loss.leaves] == ["0", "1/0", "1/1"]


def test_coefficients_take_the_shape_of_the_parameters():
    loss = loss_of()
    tree = loss.unflatten(np.arange(20.0))
    np.testing.assert_array_equal(tree["hidden"]["bias"], np.arange(4.0))
    np.testing.assert_array_equal(tree["hidden"]["kernel"], np.arange(4.0, 16.0).reshape(3, 4))
    np.testing.assert_array_equal(tree["out"], np.arange(16.0, 20.0))
    np.testing.assert_array_equal(loss.unflatten(loss.start_point)["hidden"]["kernel"], PARAMS["hidden"]["kernel"])


def test_regularizers_and_domains_are_laid_on_arrays_by_name():
    loss = loss_of()
    regularizer = loss.regularizer(hidden__kernel=L1(2.0), out=L2(3.0))
    w = np.arange(20.0)
    assert regularizer.value(w) == pytest.approx(2.0 * w[4:16].sum() + 1.5 * (w[16:] ** 2).sum(), rel=1e-15)
    projected = loss.domain(out=L2Ball(1.0), hidden__bias=Box(-1.0, 1.0)).project(w)
    np.testing.assert_array_equal(projected[:4], [0.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(projected[4:16], w[4:16])
    assert np.linalg.norm(projected[16:]) == pytest.approx(1.0, rel=1e-12)
    for lay in (loss.regularizer, loss.domain):
        with pytest.raises(
            InvalidParameterError, match="no array 'kernel'; they have hidden__bias, hidden__kernel, out"
        ):
            lay(kernel=L2(1.0))


def test_the_start_is_what_was_given_and_cannot_be_changed_through_it():
    loss = loss_of()
    start = Problem(loss).start(WIDTH)
    np.testing.assert_array_equal(start, loss.start_point)
    start += 1.0
    np.testing.assert_array_equal(Problem(loss).start(WIDTH), loss.start_point)


def test_losses_are_equal_by_function_start_and_numbers():
    assert loss_of() == FunctionLoss(network, params(), clip=0.5)
    assert hash(loss_of()) == hash(FunctionLoss(network, params(), clip=0.5))
    others = [
        loss_of(unrecognised),
        FunctionLoss(network, params(1), clip=0.5),
        *(loss_of(**more) for more in ({"clip": 0.6}, {"clipping": "automatic"}, {"n_classes": 2}, {"smoothness": 1})),
        *(loss_of(**more) for more in ({"target_bound": 2.0}, {"initial_gap": 0.1})),
    ]
    for other in others:
        assert other != loss_of()
    assert loss_of() != "function"


def test_another_tree_of_the_same_arrays_is_another_loss():
    one, other = ({"a": {"b": np.ones(2)}}, {"a/b": np.ones(2)})
    assert FunctionLoss(network, one) != FunctionLoss(network, other)
    assert FunctionLoss(network, [np.ones(2)]) != FunctionLoss(network, {"0": np.ones(2)})


def test_a_function_that_cannot_be_hashed_is_equal_to_itself_alone():
    class Module:
        __hash__ = None

        def __call__(self, w, x, y):
            return jnp.square(x @ w - y)

    module = Module()
    loss = FunctionLoss(module, np.ones(WIDTH))
    assert loss == FunctionLoss(module, np.ones(WIDTH))
    assert loss != FunctionLoss(Module(), np.ones(WIDTH))
    X, y = table(5)
    np.testing.assert_allclose(
        gradient_sum(FunctionLoss(module, np.ones(WIDTH), clip=100.0), X, y),
        2.0 * X.T @ (X.sum(axis=1) - y),
        rtol=1e-10,
    )


def test_parameters_may_be_a_function_of_the_number_of_columns():
    def start(width):
        return {"a": np.full(width, 0.5)}

    loss = FunctionLoss(lambda w, x, y: jnp.square(x @ w["a"] - y), start)
    assert loss.leaves == ()
    assert loss.for_width(5).start_point.tolist() == [0.5] * 5
    assert loss_of().for_width(9) is not None
    assert (
        FitOptions(Problem(loss), guarantee=Guarantee(1.0, 1e-6), solver="dp-gd").plan(500, 7).problem.start(7).size
        == 7
    )
    X, y = table(300)
    assert dperm.minimize(Problem(loss), X, y, guarantee=None, noise=None, solver=DPGD(n_steps=3)).w.size == WIDTH


def test_the_declared_numbers_are_what_a_plan_rests_on():
    constants = Problem(loss_of(smoothness=3.0, initial_gap=0.2), weight_bound=2.0).constants(WIDTH)
    assert (constants.lipschitz, constants.smoothness, constants.initial_gap) == (1.0, 6.0, 0.4)
    assert (constants.convex, constants.n_outputs, constants.dimension) == (False, 0, 20)
    plain = Problem(loss_of()).constants(WIDTH)
    assert (plain.smoothness, plain.initial_gap) == (0.5, 1.0)
    assert Problem(loss_of(n_classes=5)).loss.value_at_zero == pytest.approx(np.log(5.0))


def test_the_statement_says_what_gradients_were_clipped_to():
    X, y = table(300)
    release = dperm.minimize(Problem(loss_of()), X, y, guarantee=Guarantee(1.0, 1e-6), solver=DPGD(n_steps=2))
    assert release.privacy.gradient_clip == 0.5
    assert release.privacy.row_norm == np.inf
    assert "gradient clipped to ‖g‖₂ ≤ 0.5" in str(release.privacy)
    written = json.loads(json.dumps(release.privacy.to_dict()))
    assert FitStatement.from_dict(written) == release.privacy
    for lie in ({"gradient_clip": None}, {"gradient_clip": -1.0}, {"row_norm": 1.0}, {"entry_bound": 1.0}):
        with pytest.raises((ValueError, DpermError)):
            FitStatement.from_dict({**written, **lie})


# What is refused, before a row is read.


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"function": 3}, "function must be a JAX function"),
        ({"params": {"a": np.array([1, 2])}}, "params must be arrays of floats; a is int64"),
        ({"params": {"a": np.array(["x"])}}, "params must be arrays of floats"),
        ({"params": {"a": {"b": np.array([1.0, np.nan])}}}, "params must be finite; a/b is not"),
        ({"params": {}}, "at least one number"),
        ({"params": {"a": np.empty((0, 3))}}, "at least one number"),
        ({"clipping": "global"}, "clipping"),
        ({"clip": 0.0}, "clip"),
        ({"clip": -1.0}, "clip"),
        ({"clip": np.inf}, "clip"),
        ({"smoothness": 0.0}, "smoothness"),
        ({"initial_gap": -1.0}, "initial_gap"),
        ({"target_bound": 0.0}, "target_bound"),
        ({"n_classes": 1}, "n_classes must be at least 2"),
        ({"n_classes": 2.5}, "n_classes"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(more, words):
    with pytest.raises(InvalidParameterError, match=words):
        FunctionLoss(**{"function": network, "params": PARAMS, **more})


@pytest.mark.parametrize("more", [{"row_norm": 2.0}, {"intercept": True}, {"entry_bound": 0.5}], ids=str)
def test_bounds_on_rows_have_no_place_beside_a_function(more):
    with pytest.raises(
        InvalidParameterError, match="takes rows as they are: leave row_norm, entry_bound and intercept out"
    ):
        Problem(loss_of(), **more)


def of_sum(transform):
    """A loss that would be fine, but for one thing in it."""
    return lambda w, x, y: transform(jnp.square(jnp.sum(w) * jnp.sum(x) - y))


def printing(value):
    jax.debug.print("{}", value)
    return value


def calling_back(value):
    jax.debug.callback(lambda seen: None, value)
    return value


def in_python(value):
    return jax.pure_callback(lambda seen: seen, jax.ShapeDtypeStruct((), value.dtype), value)


def in_python_with_effects(value):
    return jax.experimental.io_callback(lambda seen: seen, jax.ShapeDtypeStruct((), value.dtype), value)


def in_a_branch(value):
    return jax.lax.cond(value > 0.0, in_python, lambda seen: seen, value)


@jax.custom_batching.custom_vmap
def mixing(value):
    return value


@mixing.def_vmap
def _mix(size, batched, values):
    return jnp.broadcast_to(jnp.sum(values), (size,)), True


@jax.custom_vjp
def only_in_the_gradient(value):
    return value


only_in_the_gradient.defvjp(lambda value: (value, value), lambda value, slope: (in_python(slope),))

REFUSED = {
    "a vector": (of_sum(lambda value: value * jnp.ones(2)), r"the loss of a row; it returns float64 of shape \(2,\)"),
    "a vector of one": (of_sum(lambda value: value[None]), r"shape \(1,\)"),
    "two outputs": (of_sum(lambda value: (value, value)), "one number, the loss of a row; it returns 2"),
    "a whole number": (of_sum(lambda value: value.astype(int)), "one number, the loss of a row; it returns int"),
    "nothing": (of_sum(lambda value: None), "it returns 0"),
    "wrong shapes": (lambda w, x, y: x @ jnp.ones(9), "cannot be traced for a row x of 3 entries and a number y"),
    "one argument": (lambda w: 1.0, "cannot be traced.*TypeError"),
    "an error of its own": (of_sum(lambda value: 1 / 0), "cannot be traced.*ZeroDivisionError: division by zero"),
    "if of a value": (of_sum(lambda value: value if value > 0 else -value), "cannot be traced.*TracerBool"),
    "float of a value": (of_sum(lambda value: float(value)), "cannot be traced"),
    "numpy of a value": (of_sum(lambda value: np.sin(np.asarray(value))), "cannot be traced.*TracerArray"),
    "NaN everywhere": (of_sum(lambda value: value * jnp.nan), "finite on none of 16 made-up rows"),
    "zero everywhere": (of_sum(jax.lax.stop_gradient), "0 on all of 16 made-up rows"),
    "no use of the parameters": (lambda w, x, y: jnp.sum(x), "0 on all of 16 made-up rows"),
    "printing": (of_sum(printing), "the function uses debug|side effects"),
    "a callback for debugging": (of_sum(calling_back), "the function uses debug_callback|side effects"),
    "a pure callback": (of_sum(in_python), "the function uses pure_callback, which could show rows or mix them"),
    "a callback with effects": (of_sum(in_python_with_effects), "the function uses io_callback"),
    "a callback in a branch": (of_sum(in_a_branch), "the function uses pure_callback"),
    "a callback in a loop": (
        of_sum(lambda value: jax.lax.fori_loop(0, 2, lambda _, seen: in_python(seen), value)),
        "the function uses pure_callback",
    ),
    "a callback in compiled code": (of_sum(jax.jit(in_python)), "the function uses pure_callback"),
    "a callback in the gradient": (of_sum(only_in_the_gradient), "the function uses pure_callback"),
    "a mean over the batch": (of_sum(lambda value: value - jax.lax.pmean(value, "batch")), "cannot be traced.*batch"),
    "a batching rule of its own": (of_sum(mixing), "the function uses custom_vmap_call"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_the_loss_of_one_row_is_refused_in_a_sentence(name):
    function, words = REFUSED[name]
    problem = Problem(FunctionLoss(function, np.ones(2)))
    with pytest.raises(InvalidParameterError, match=words) as refused:
        FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver="dp-adam").plan(300, WIDTH)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith((".", "?"))


@pytest.mark.parametrize("name", ["two outputs", "if of a value", "a pure callback", "zero everywhere", "printing"])
def test_a_refused_function_reads_no_row_and_spends_nothing(name, own_folders, monkeypatch):
    budget = dperm.Budget.create("people", Guarantee(1.0, 1e-6))
    fine, guarantee = Problem(loss_of()), Guarantee(0.1, 1e-8)
    dperm.minimize(fine, *table(300), guarantee=guarantee, solver=DPGD(n_steps=1), budget=budget)
    before = budget.account()
    assert len(before.releases) == 1

    def read(*_arguments):
        raise AssertionError("a row was read")

    monkeypatch.setattr(Block, "from_table", read)
    problem = Problem(FunctionLoss(REFUSED[name][0], np.ones(2)))
    with pytest.raises(InvalidParameterError):
        dperm.minimize(problem, *table(300), guarantee=guarantee, budget=budget)
    assert budget.account() == before


def test_without_jax_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(DpermError, match=r"need JAX: pip install 'dperm\[jax\]'"):
        FunctionLoss(lambda w, x, y: 0.0, {"a": np.ones(3)})


@jax.tree_util.register_pytree_node_class
class Callable:
    """A pytree that can be called, as equinox modules are."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return x @ self.weight

    def tree_flatten(self):
        return (self.weight,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_parameters_that_can_be_called_are_parameters_all_the_same():
    loss = FunctionLoss(lambda model, x, y: jnp.square(model(x) - y), Callable(np.ones(WIDTH)))
    assert loss.for_width(WIDTH) is loss
    assert loss.dimension(WIDTH) == WIDTH
