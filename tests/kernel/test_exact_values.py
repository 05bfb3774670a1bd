"""What may leave without noise, and where: a list that has to be complete, so that nothing is added to it unseen."""

import ast
import inspect
from pathlib import Path

import numpy as np

import dperm
from dperm import unsafe
from dperm.models import diagnosis
from dperm.models.registry import models
from dperm.plan.fit_plan import FitPlan

PACKAGE = Path(dperm.__file__).parent

# Everything that imports from `kernel/` and `rows/`, and what; the answers of mechanisms are part of the trusted side.
# Names that read rows or sum over them without noise are the sources, the blocks, the objectives and the encoding; a
# module that is not here must not see a row.
IMPORTS = {
    # Run a plan: rows go in as a source, and come out through the oracle alone.
    "plan.fit_plan": {"oracle": {"Oracle"}, "source": {"Source"}},
    # Checks n against the rows, and draws the keys of a run.
    "plan.transaction": {"noise": {"Randomness", "check_random_state"}, "source": {"Source", "check_count"}},
    "plan.minimize": {"rows": {"Table"}},
    "plan.release_plan": {"noise": {"GENERATOR"}},
    "plan.statement": {"noise": {"GENERATOR"}},
    # Counts units by their rows, with noise.
    "plan.rows_per_unit": {
        "rows.ids": {"codes_of_array"},
        "rows_per_unit": {"FEWEST_ROWS", "cells_of_units"},
        "units": {"Membership"},
    },
    "cli.rows_per_unit": {"rows": {"Table"}},
    "plan.sums": {"oracle": {"Oracle"}, "units": {"Membership"}},
    # Check what is fitted, and encode what is predicted or scored on the caller"s own rows.
    "models.base": {
        "block": {"bounded_rows"},
        "rows.columns": {"array_names"},
        "rows.labels": {"read_table"},
        "rows.table": {"Table", "taken"},
        "source": {"Source"},
        "threads": {"threads_for"},
    },
    # Names of columns, ids beside a table put into it, and rows to predict treated as in the fit.
    "models.bounds": {
        "block": {"bounded_rows"},
        "coded": {"plain"},
        "rows.columns": {"Columns", "array_names", "as_arrow"},
        "rows.encoding": {"encode_rows"},
    },
    # Weights of rows: checked where they are public, bounded where they are not.
    "models.weights": {
        "rows.columns": {"Columns", "as_numbers"},
        "rows.weights": {"bounded_weights"},
        "source": {"Source"},
    },
    # Put rows apart and hand losses on them to the oracle, which releases who won.
    "models.candidates": {
        "rows.ids": {"membership_of", "membership_of_array"},
        "rows.table": {"in_memory"},
        "units": {"Membership"},
    },
    "models.search": {"noise": {"seed_from"}, "rows.cells": {"as_rows", "number_table"}},
    "models.trials": {
        "apart": {"one_place", "stops"},
        "noise": {"Randomness"},
        "oracle": {"Oracle"},
        "units": {"Membership", "UnitRows"},
    },
    # Say what every row adds to noisy counts and sums.
    "evaluation.scores": {"rows.labels": {"class_numbers"}},
    "evaluation.held_out": {
        "rows.cells": {"number_table"},
        "rows.columns": {"Columns", "as_numbers", "as_words", "number_columns"},
        "rows.encoding": {"check_table", "label_numbers", "target_numbers"},
        "rows.ids": {"membership_of", "membership_of_array"},
        "rows.labels": {"class_numbers", "numeric_target", "read_target"},
        "rows.table": {"Table"},
        "units": {"Membership"},
    },
    "evaluation.score": {"rows.table": {"Table", "taken"}},
    "transformers.base": {
        "rows.ids": {"membership_of_array"},
        "rows.labels": {"read_table"},
        "rows.table": {"NumberColumns", "Table", "made_up_row", "taken"},
        "units": {"Membership"},
    },
    "transformers.min_max_scaler": {"rows.column_parts": {"cells_of"}},
    "transformers.quantile_transformer": {"rows.column_parts": {"cells_of"}},
    "transformers.standard_scaler": {"rows.column_parts": {"moments_of"}},
    "transformers.pca": {"rows.column_parts": {"rows_of"}, "symmetric": {"to_matrix"}},
    # Pass rows from step to step.
    "pipelines.pipeline": {
        "noise": {"seed_from"},
        "rows.cells": {"as_rows", "number_table"},
        "rows.ids": {"membership_of_array"},
        "rows.labels": {"class_numbers", "numeric_target", "read_table", "read_target"},
        "rows.table": {"Table", "taken"},
        "units": {"Membership"},
    },
    "models.linear": {"block": {"bounded_rows"}},
    "models.classifier": {
        "rows.arrays": {"ArraySource"},
        "rows.dask_client": {"is_frame"},
        "rows.encoding": {"check_table", "label_numbers"},
        "rows.labels": {"class_numbers", "distinct_labels", "read_table", "read_target", "weights_by_class"},
        "rows.table": {"Table"},
    },
    "models.regressor": {
        "rows.arrays": {"ArraySource"},
        "rows.dask_client": {"is_frame"},
        "rows.encoding": {"check_table", "target_numbers"},
        "rows.labels": {"numeric_target", "read_table", "read_target"},
        "rows.table": {"Table"},
    },
    # Attacks: exact answers about tables that were made up, and one private fit on the owner"s rows.
    "audit.one_run": {"rows.canaries": {"WithCanaries"}, "source": {"Source"}},
    "audit.watched": {
        "counts": {"BeyondPart", "ColumnPart"},
        "noise": {"Noise", "Randomness"},
        "oracle": {"Oracle"},
        "rows.arrays": {"ArraySource"},
        "source": {"Source"},
        "units": {"total_shares"},
    },
    # Exact on purpose, and named so.
    "unsafe": {
        "objectives": {"objective_of"},
        "parts": {"GradientPart", "RiskPart"},
        "rows.arrays": {"ArraySource"},
        "rows.column_facts": {"Finding", "NOTHING", "findings"},
        "rows.columns": {"Columns", "as_numbers", "as_words", "as_written"},
        "rows.encoder": {"ROWS_AT_ONCE", "rows_of"},
        "rows.ids": {"codes_of_column"},
        "rows.table": {"StoredTable", "Table", "taken"},
        "source": {"Source"},
        "units": {"Membership"},
    },
    "models.diagnosis": {
        "block": {"Block", "as_table"},
        "rows.columns": {"Columns", "as_numbers", "as_words"},
        "rows.encoding": {"target_numbers"},
        "rows.ids": {"membership_of", "membership_of_array"},
        "rows.labels": {"numeric_target", "one_by_one", "read_table", "read_target"},
        "rows.table": {"in_memory"},
        "source": {"LocalSource", "Source"},
    },
    # Files are read for `fit` and `predict`, of which nothing is printed, and for `diagnose`, which prints exact facts.
    "cli.diagnose": {"rows": {"Table"}},
    "cli.fit": {"rows": {"Table"}, "rows.dask_client": {"open_cluster"}, "rows.memory": {"return_freed_memory"}},
    "cli.options": {"rows.files": {"OtherSeparatorError"}},
    "cli.plan": {"rows.memory": {"MemoryBudget", "is_on_disk"}},
    "cli.predict": {"rows": {"Table"}, "rows.columns": {"number_columns"}},
    "cli.schema": {"rows": {"Table"}, "rows.column_facts": {"Finding"}},
    # Studies on public data.
    "paper.studies.reference": {"block": {"Block"}},
    "models.apart": {
        "apart": {"two_parts"},
        "exact.words": {"Stream"},
        "rows.columns": {"Columns"},
        "rows.encoding": {"label_numbers", "target_numbers"},
        "rows.labels": {"class_numbers", "numeric_target", "one_by_one"},
        "units": {"Membership"},
    },
    "pipelines.public_step": {"block": {"as_table"}, "rows.cells": {"number_table"}},
}

# Public functions and methods whose result is computed from rows without noise.
EXACT = {
    "dperm.unsafe.empirical_risk",
    "dperm.unsafe.empirical_gradient",
    "dperm.unsafe.risk_over",
    "dperm.unsafe.draft_schema",
    "dperm.unsafe.check_schema",
    # All that a fit does to rows, and what its noise did: marked as not for release.
    "dperm.models.diagnosis.diagnose",
    "PrivateGLM.diagnose",
    # On rows that the caller hands over: predictions and scores of them are facts about them.
    "Classifier.decision_function",
    "Classifier.predict",
    "Classifier.score",
    "LinearClassifier.decision_function",
    "NetworkClassifier.decision_function",
    "PrivateEstimator.encode",
    "Regressor.predict",
    "Regressor.score",
    "PrivatePoissonRegression.score",
    "Probabilities.predict_log_proba",
    "Probabilities.predict_proba",
    "PrivateSearch.predict",
    "PrivateSearch.score",
    # The same for rows that are transformed, by a map that was released; `read` checks their shape.
    "PrivateMinMaxScaler.inverse_transform",
    "PrivateMinMaxScaler.transform",
    "PrivatePCA.inverse_transform",
    "PrivatePCA.transform",
    "PrivateQuantileTransformer.inverse_transform",
    "PrivateQuantileTransformer.transform",
    "PrivateStandardScaler.inverse_transform",
    "PrivateStandardScaler.transform",
    "PrivateTransformer.read",
    "PrivateTransformer.transform",
}
# Public functions and methods that take rows and return what was released, or nothing of them.
PRIVATE = {
    "dperm.audit.one_run.audit_table",
    "dperm.audit.one_run.one_run",
    "dperm.evaluation.score.private_evaluate",
    "dperm.plan.minimize.minimize",
    "FitPlan.run",
    "FitPlan.transaction",
    "PrivateEstimator.fit",
    "PrivatePipeline.fit",
    "PrivateSearch.fit",
    "PrivateTransformer.fit",
    "PrivateTransformer.run",
    # It refuses.
    "PrivateEstimator.diagnose",
}
ROWS = {"X", "y", "table", "source"}


def is_answer(name):
    """Whether it answers a mechanism: the oracle calls it, and nothing imports it."""
    return name.startswith("mechanisms.") and name.endswith(".answer")


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name.split(".")[0] not in ("kernel", "rows") and not is_answer(name):
            yield name, ast.parse(path.read_text())


def imported(tree):
    """What a module imports from `kernel/` and `rows/`, wherever in it."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            if module == "dperm" and name in ("kernel", "rows"):
                found.setdefault("", set()).add(name)
            elif module.split(".")[:2] in (["dperm", "kernel"], ["dperm", "rows"]):
                found.setdefault(module.removeprefix("dperm.").removeprefix("kernel."), set()).add(name)
    return found


def test_the_modules_that_see_rows_are_these_and_use_nothing_else_of_the_trusted_side():
    assert {name: found for name, tree in modules() if (found := imported(tree))} == IMPORTS


def takes_rows(function):
    return ROWS & set(inspect.signature(function).parameters)


def test_the_functions_that_let_something_exact_out_are_these():
    import importlib

    found = set()
    for name in (
        "audit.one_run",
        "plan.minimize",
        "plan.options",
        "plan.fit_plan",
        "plan.auto",
        "models.diagnosis",
        "evaluation.score",
        "unsafe",
    ):
        module = importlib.import_module(f"dperm.{name}")
        for key, value in vars(module).items():
            own = inspect.isfunction(value) and value.__module__ == module.__name__
            if own and not key.startswith("_") and takes_rows(value):
                found.add(f"dperm.{name}.{key}")
    others = [getattr(dperm, name) for name in dperm.__all__ if name.startswith("Private")]
    for cls in {*models().values(), *others, FitPlan, dperm.FitOptions}:
        for base in cls.__mro__:
            if base.__module__.startswith("dperm."):
                for key, value in vars(base).items():
                    if inspect.isfunction(value) and not key.startswith("_") and takes_rows(value):
                        found.add(f"{base.__name__}.{key}")
    assert found == EXACT | PRIVATE
    assert not EXACT & PRIVATE


def test_no_function_at_the_root_lets_something_exact_out():
    functions = [getattr(dperm, name) for name in dperm.__all__ if inspect.isfunction(getattr(dperm, name))]
    found = {f"{function.__module__}.{function.__name__}" for function in functions if takes_rows(function)}
    assert found
    assert found <= PRIVATE


def test_what_is_exact_says_that_it_is():
    for name in ("empirical_risk", "risk_over", "draft_schema"):
        assert getattr(unsafe, name).__module__ == "dperm.unsafe"
    assert "not private" in unsafe.__doc__
    assert not hasattr(dperm, "empirical_risk")
    assert "NOT FOR RELEASE" in dperm.PrivateLogisticRegression.diagnose.__doc__
    assert "not differentially private" in diagnosis.diagnose.__doc__


def test_the_exact_risk_is_a_mean_over_rows():
    from dperm import Problem
    from dperm.problem import L2, Logistic

    X, y, w = np.array([[0.5, 0.0], [0.0, 0.5]]), np.array([1.0, -1.0]), np.array([1.0, 2.0])
    expected = np.mean(np.log1p(np.exp(-y * (X @ w)))) + 0.05 * (w @ w)
    assert abs(unsafe.empirical_risk(Problem(Logistic(), L2(0.1)), X, y, w) - expected) < 1e-12


def test_the_trusted_side_imports_scikit_learn_only_where_an_estimator_calls_it():
    """`import dperm` need not import scikit-learn through `kernel/`: no module there does so at its top."""
    for path in [*(PACKAGE / "kernel").rglob("*.py"), *(PACKAGE / "rows").rglob("*.py")]:
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [getattr(node, "module", None) or alias.name for node in top for alias in node.names]
        assert not [name for name in names if name.startswith("sklearn")], path
