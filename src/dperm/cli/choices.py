"""What options choose from, written out so that --help imports no model; tests compare it with the code."""

ACCOUNTANTS = ("pld", "advanced-composition")
ATTACKS = ("replay", "black-box", "low-bits")
METHODS = ("composition", "random-trials")
MODELS = ("huber", "linear", "logistic", "mlp-classifier", "mlp-regressor", "poisson", "svc")
SCORES = ("accuracy", "log_loss", "squared_error")

# Options that only some models have.
OWN_OPTIONS: dict[str, tuple[type, str]] = {
    "target_bound": (float, "Clip targets to this size (regression, without a schema)."),
    "threshold": (float, "Residual beyond which the loss is linear (huber)."),
    "classes": (
        str,
        "The public classes, separated by commas. By default they are read from the table, and the result is not for "
        "release; `dperm tune` requires them, here or in a schema.",
    ),
    "hidden_layer_sizes": (str, "Width of each hidden layer, separated by commas (networks) [default: 64]."),
    "activation": (str, "tanh or relu (networks) [default: tanh]."),
    "clip": (float, "Clip every row's gradient to this length (networks) [default: 1]."),
    "smoothing": (float, "Width of the hinge's smoothed corner (svc)."),
}
