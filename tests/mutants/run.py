"""Change one operator or number of the trusted code at a time, and see whether a test notices.

`python tests/mutants/run.py 100` takes 100 mutants at random, always the same ones; 0 takes all of them, and a seed may
follow. cosmic-ray finds them and makes them, each in a fresh copy of the tree: a run that is killed leaves the working
tree as it is. A copy brings its compiled kernels along; these are not mutated.

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
PACKAGES = ("kernel", "rows", "accounting", "mechanisms")
# Databases, whose tests start processes and take minutes.
LEFT_OUT = ("src/dperm/ledger/",)
# The second derivation, on which no noise rests.
CHECK = "check.py"
SECONDS = 300

# One other operator for each, the neighbour of each comparison and its mirror image, every condition negated, every
# number up and down by one. Not used: decorators removed (no class works without its @dataclass or @property), other
# exceptions in `except` (they guard against rare failures of other libraries), other operators for `|` (in types only),
# and bit operators instead of arithmetic (a TypeError in whatever test comes first).
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
ANSWERS = "files/golden contracts/every_mechanism kernel/joints_minimiser"
CURVES = "accounting/events accounting/joints_accounting contracts/every_event accounting/composition"
CURVES += " accounting/accounting"
KERNELS = "files/golden kernel/kernels kernel/difference_kernels kernel/joints_minimiser kernel/joints_lying_losses"
TESTS = {
    "accounting/advanced_composition": "paper/advanced_composition",
    "accounting/calibration": "accounting/calibration accounting/composition files/golden",
    "accounting/central_limit": "solvers/stochastic_solvers files/golden",
    "accounting/guarantee": f"kernel/bad_input accounting/calibration {CURVES}",
    "accounting/last_iterate": "accounting/joints_accounting accounting/last_iterate",
    "accounting/events/unit_perturbation": "contracts/every_event mechanisms/unit_objective",
    "accounting/": CURVES,
    "mechanisms/last_iterate": "accounting/joints_accounting accounting/last_iterate",
    "mechanisms/range": f"mechanisms/ranges {ANSWERS}",
    "mechanisms/": f"{ANSWERS} accounting/joints_accounting mechanisms/coefficient_noise",
    "kernel/block": f"kernel/joints_rows kernel/sensitivity {ANSWERS}",
    "kernel/objectives/margin_hessians": "kernel/joints_minimiser mechanisms/hessian",
    "kernel/objectives/": KERNELS,
    "kernel/row_norms": "kernel/joints_rows kernel/sensitivity",
    "rows/files": "rows/chunked_tables contracts/every_source rows/encoding cli/cli_tables",
    "rows/": "rows/encoding kernel/joints_rows rows/chunked_tables contracts/every_source",
    "kernel/": f"{ANSWERS} kernel/noise kernel/trusted_boundary",
}


def all_mutants():
    """Every place in the code at which one of the operators applies."""
    modules = [path for package in PACKAGES for path in sorted(Path("src/dperm", package).rglob("*.py"))]
    for path in modules:
        if path.name != CHECK and not path.as_posix().startswith(LEFT_OUT):
            nodes = list(ast_nodes(get_ast_from_path(path)))
            for name in OPERATORS:
                places = (place for node in nodes for place in get_operator(name)().mutation_positions(node))
                for occurrence, (start, end) in enumerate(places):
                    yield MutationSpec(path, name, occurrence, start, end)


def tests_of(path):
    names = next(names for start, names in TESTS.items() if path.as_posix().startswith(f"src/dperm/{start}"))
    return [f"tests/{folder}/test_{name}.py" for folder, name in (each.split("/") for each in names.split())]


def pytest_command(tests):
    return [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]


def copy_tree(source, target):
    """With the times of the files, so that bytecode of them is still valid."""
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
        # Without a mutant all tests pass.
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
