"""Change one operator or number of the trusted code at a time, and see whether a test notices.

`python tests/mutants/run.py 100` takes 100 mutants at random, always the same ones; 0 takes all of them, and a seed may
follow. cosmic-ray finds them and makes them, each in a fresh copy of the tree: a run that is killed leaves the working
tree as it is. A copy brings its compiled kernels along, so only a mutant of compiled code is compiled anew.

A mutant that survives is printed as a diff. It is either equivalent, or a test is missing.
"""

import contextlib
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_item import MutationSpec, WorkerOutcome

ROOT = Path(__file__).parents[2]
PACKAGES = ("trusted", "accounting", "mechanisms")
# Files and databases, with tests that start processes: tests/privacy/test_ledger*.py are about nothing else.
LEFT_OUT = ("src/dperm/accounting/ledger/", "src/dperm/trusted/compiling.py")
SECONDS = 300

# One other operator for each, the neighbour of each comparison and its mirror image, every condition negated, every
# number up and down by one. Not used: decorators removed and exceptions replaced (no import survives the first, and the
# messages of refusals are tested by name), `|` (in types only), bit operators and shifts instead of arithmetic (a
# TypeError for a float in whatever test comes first).
OPERATORS = tuple(
    f"core/{name}"
    for name in (
        *(f"ReplaceBinaryOperator_{pair}" for pair in (
            "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Div", "Mod_Mul", "LShift_RShift",
            "BitAnd_BitOr",
        )),
        *(f"ReplaceComparisonOperator_{pair}" for pair in (
            "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_Gt", "Gt_Lt",
            "LtE_GtE", "GtE_LtE",
        )),
        "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_Invert",
        "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
        "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "NumberReplacer",
    )
)  # fmt: skip

# The tests that know most about a file, fast ones first; the first entry counts that a path begins with.
ANSWERS = (
    "tests/integration/test_golden.py",
    "tests/contracts/test_every_mechanism.py",
    "tests/privacy/test_joints_minimiser.py",
)
CURVES = (
    "tests/unit/test_events.py",
    "tests/privacy/test_joints_accounting.py",
    "tests/contracts/test_every_event.py",
    "tests/privacy/test_composition.py",
    "tests/privacy/test_accounting.py",
)
TESTS = {
    "accounting/advanced_composition": ("tests/privacy/test_advanced_composition.py",),
    "accounting/calibration": ("tests/privacy/test_calibration.py", "tests/privacy/test_composition.py", ANSWERS[0]),
    "accounting/central_limit": ("tests/unit/test_stochastic_solvers.py", ANSWERS[0]),
    "accounting/guarantee": ("tests/privacy/test_calibration.py", *CURVES),
    "accounting/last_iterate": ("tests/privacy/test_joints_accounting.py", "tests/privacy/test_last_iterate.py"),
    "accounting/": CURVES,
    "mechanisms/range": ("tests/privacy/test_ranges.py", *ANSWERS),
    "mechanisms/last_iterate": ("tests/privacy/test_joints_accounting.py", "tests/privacy/test_last_iterate.py"),
    "mechanisms/": (*ANSWERS, "tests/privacy/test_joints_accounting.py", "tests/privacy/test_coefficient_noise.py"),
    "trusted/objectives/margin_hessians": ("tests/privacy/test_joints_minimiser.py", "tests/privacy/test_hessian.py"),
    "trusted/objectives/": (
        "tests/unit/test_kernels.py",
        "tests/unit/test_difference_kernels.py",
        "tests/privacy/test_joints_lying_losses.py",
        "tests/privacy/test_joints_minimiser.py",
    ),
    "trusted/answers/range": ("tests/privacy/test_ranges.py", *ANSWERS),
    "trusted/sources/": (
        "tests/privacy/test_joints_rows.py",
        "tests/privacy/test_chunked_tables.py",
        "tests/contracts/test_every_source.py",
        "tests/privacy/test_encoding.py",
    ),
    "trusted/block": ("tests/privacy/test_joints_rows.py", "tests/privacy/test_sensitivity.py", *ANSWERS),
    "trusted/row_norms": ("tests/privacy/test_joints_rows.py", "tests/privacy/test_sensitivity.py"),
    "trusted/": (*ANSWERS, "tests/privacy/test_noise.py", "tests/privacy/test_trusted_boundary.py"),
}


def all_mutants():
    """Every place in the code at which one of the operators applies."""
    modules = [path for package in PACKAGES for path in sorted(Path("src/dperm", package).rglob("*.py"))]
    for path in modules:
        if not path.as_posix().startswith(LEFT_OUT):
            nodes = list(ast_nodes(get_ast_from_path(path)))
            for name in OPERATORS:
                places = (place for node in nodes for place in get_operator(name)().mutation_positions(node))
                for occurrence, (start, end) in enumerate(places):
                    yield MutationSpec(path, name, occurrence, start, end)


def tests_of(path):
    return next(tests for start, tests in TESTS.items() if path.as_posix().startswith(f"src/dperm/{start}"))


def pytest_command(tests):
    return [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]


def copy_tree(source, target):
    """With the times of the files, so that what was compiled from them is still valid."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "src", target / "src")
    shutil.copytree(source / "tests", target / "tests")
    shutil.copy2(source / "pyproject.toml", target)


def run(n_mutants, seed, folder):
    original, mutated = folder / "original", folder / "mutated"
    copy_tree(ROOT, original)
    with contextlib.chdir(original):
        found = list(all_mutants())
        sample = random.Random(seed).sample(found, min(n_mutants or len(found), len(found)))
        print(f"{len(found)} mutants, {len(sample)} of them drawn with seed {seed}", flush=True)
        # Without a mutant all tests pass, and every kernel is compiled.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(original / "src"), str(original / "tests")])
        subprocess.run(pytest_command(dict.fromkeys(t for m in sample for t in tests_of(m.module_path))), check=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(mutated / "src"), str(mutated / "tests")])
    count = dict.fromkeys(("killed", "survived", "timed out"), 0)
    for number, mutant in enumerate(sample, 1):
        copy_tree(original, mutated)
        began = time.monotonic()
        with contextlib.chdir(mutated):
            result = mutate_and_test([mutant], shlex.join(pytest_command(tests_of(mutant.module_path))), SECONDS)
        if result.worker_outcome is not WorkerOutcome.NORMAL:
            raise RuntimeError(f"{mutant} could not be tested: {result.output}")
        outcome = "timed out" if result.output == "timeout" else result.test_outcome.value
        count[outcome] += 1
        where = f"{mutant.module_path}:{mutant.start_pos[0]} {mutant.operator_name}"
        print(f"{number:4} {outcome:9} {time.monotonic() - began:5.0f} s  {where}", flush=True)
        if outcome != "killed":
            print(result.diff, flush=True)
    print(f"{len(sample)} mutants, " + ", ".join(f"{number} {outcome}" for outcome, number in count.items()))


if __name__ == "__main__":
    n_mutants, seed = map(int, (*sys.argv[1:], *("100", "0")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory(prefix="dperm-mutants-") as folder:
        run(n_mutants, seed, Path(folder))
