"""What must be read to believe the ε of a release: an explicit list, complete by its imports, that may only shrink."""

import ast
import functools
import io
import re
import tokenize
from pathlib import Path

import dperm
from contracts.discovered import DOMAINS
from dperm.problem.domains import Domain
from dperm.problem.domains.polytope import EntropicDomain
from dperm.problem.geometry.base import Geometry
from dperm.problem.geometry.mirror import EntropicMap, MirrorDomain

PACKAGE = Path(dperm.__file__).parent
DESIGN = PACKAGE.parents[1] / "docs" / "design.md"

# From the rows that a table hands over to what leaves, and from there to ε.
TRUSTED = (
    "kernel",
    "mechanisms",
    "accounting",
    "problem",
    "privacy.guarantee",
    "privacy.unit",
    "privacy.caveats",
    "plan.release_plan",
    "plan.transaction",
    "schema.binning",
    "remembered",
    "validation",
    "errors",
)
# Imported by what is trusted, or in its folders, and not believed.
NOT_BELIEVED = {
    "kernel.quasi_newton": "finds a point whose gradient the minimiser measures",
    "kernel.rough_hessian": "the same",
    "kernel.objectives.rough_hessians": "the same",
    "problem.geometry": "widths, norms and mirror maps of domains: solvers alone use them",
    "problem.losses.slips": "looks for slips in a loss of one's own, on a grid, and proves nothing",
    "problem.dykstra": "steps that are released; hidden paths are refused where the proximal step is not exact",
    "problem.parameters": "how a function's arrays make one vector; its gradients are clipped whatever it computes",
    "accounting.calibration": "searches for noise; the transaction evaluates what it found again before a row is read",
    "accounting.divergence": "for the filter, below",
    "accounting.attack": "what an attacker gains: drawn, never promised",
    "accounting.central_limit": "where the search for the noise begins; what it finds is evaluated again",
    "accounting.filter": "the total of a budget, not the ε of one release",
    "ledger": "the same",
    "plan.large_delta": "a warning",
    "privacy.statement": "what is said of a release, from the numbers of its plan",
    "privacy.markup": "the same in a notebook",
    "schema": "public declarations; the kernel bounds rows and counts values by itself",
    "extensions": "loads the paper's own methods where one is asked for by name",
    "progress": "a bar on a terminal",
    "disk": "reads schemas and writes files",
    "consequences": "what a command says when it is interrupted",
    "printable": "names of files in messages",
}
# Believed where rows are not in memory: bounded rows that are kept on disk, and sums that workers add up.
BEYOND_MEMORY = ("rows.kept", "rows.cluster", "rows.cluster_tasks", "rows.workers")

# Code lines. The aim is 7000; these may only go down.
CEILING, CEILING_BEYOND_MEMORY, CEILING_NATIVE = 7390, 578, 1940


def path_of(name):
    path = PACKAGE.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
    if path != PACKAGE / "__init__.py"
}


def code_lines(path):
    """Lines that hold code: without docstrings, comments and blank lines."""
    source = path.read_text()
    documented = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in nothing:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def native_lines(path):
    """The same of C++ and Cython, where comments have lines of their own."""
    source = re.sub(r'"""(.*?)"""', "", path.read_text(), flags=re.S)
    sign = "#" if path.suffix == ".pyx" else "//"
    return sum(bool(line.strip()) and not line.lstrip().startswith(sign) for line in source.splitlines())


def imports(path):
    """Modules of the package that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            inside = name.removeprefix("dperm.")
            if name != inside:
                found.add(inside if inside in MODULES else inside.rpartition(".")[0])
    return found & set(MODULES)


def is_below(name, names):
    return any(name == one or name.startswith(f"{one}.") for one in names)


@functools.cache
def believed(names=TRUSTED):
    """Modules of the list, without the second derivation of ε, which checks the first."""
    return {
        name: path
        for name, path in MODULES.items()
        if is_below(name, names) and not is_below(name, set(NOT_BELIEVED) - {"schema"}) and path.name != "check.py"
    }


def test_nothing_outside_the_list_is_imported_by_what_is_believed():
    outside = {
        (name, imported)
        for name, path in believed().items()
        for imported in imports(path)
        if imported not in believed() and not is_below(imported, NOT_BELIEVED)
    }
    assert not outside


def test_every_name_of_the_lists_is_there_and_the_second_derivation_is_not_counted():
    for name in {*TRUSTED, *NOT_BELIEVED, *BEYOND_MEMORY}:
        assert path_of(name).exists(), name
    assert not any(name.endswith(".check") for name in believed())


def test_what_privacy_needs_of_a_domain_is_in_what_is_believed():
    needed = {name for name in vars(Domain) if not name.startswith("_")} - {"name", "example"}
    files = {str(path) for path in believed().values()}
    for domain in DOMAINS:
        vertices = {"n_vertices", "coefficients", "pull_back"} if isinstance(domain, EntropicDomain) else set()
        for name in needed | vertices:
            assert getattr(type(domain), name).__code__.co_filename in files, (domain, name)


def test_what_is_believed_uses_no_geometry_of_a_domain_beyond_the_constants_of_solvers():
    names = {name for kind in (Geometry, MirrorDomain, EntropicMap) for name in vars(kind) if not name.startswith("_")}
    names = names - {"n_vertices", "coefficients", "pull_back"} | {"mirror_noise"}
    for module, path in believed(("kernel", "mechanisms", "problem")).items():
        if not is_below(module, ["problem.domains", "problem.problem"]):
            used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
            assert not used & names, module


def test_what_must_be_read_to_believe_epsilon_only_shrinks():
    count = sum(map(code_lines, believed().values()))
    further = sum(map(code_lines, believed(BEYOND_MEMORY).values()))
    assert count <= CEILING
    assert further <= CEILING_BEYOND_MEMORY
    native = sum(map(native_lines, [PACKAGE / "kernel" / "native.pyx", *PACKAGE.glob("kernel/cpp/*")]))
    assert native <= CEILING_NATIVE
    assert count > 0.9 * CEILING, "lower the ceiling"
    assert native > 0.9 * CEILING_NATIVE, "lower the ceiling"


def test_the_page_about_the_design_has_the_list_and_its_size():
    page = DESIGN.read_text()
    section = page[page.index("## What must be read to believe ε") :]
    named = set(re.findall(r"`([\w./]+)`", section))
    for name in (*TRUSTED, *NOT_BELIEVED, *BEYOND_MEMORY):
        assert name.replace(".", "/") in named, name
    assert f"{CEILING:,}".replace(",", " ") in section
    assert f"{CEILING_NATIVE:,}".replace(",", " ") in section
    assert str(CEILING_BEYOND_MEMORY) in section


def test_lines_of_code_are_counted_without_words_about_them(tmp_path):
    path = tmp_path / "some.py"
    path.write_text('"""Words.\n\nMore."""\n\n# Why.\nx = [\n    1,\n]\n\n\ndef f():\n    """Words."""\n    return x\n')
    assert code_lines(path) == 5
    native = tmp_path / "some.pyx"
    native.write_text('# Why.\ncdef int x\n\ndef f():\n    """Words.\n\n    More."""\n    return x  # why\n')
    assert native_lines(native) == 3
    (tmp_path / "some.hpp").write_text("// Why.\n#pragma once\n\nint x;  // why\n")
    assert native_lines(tmp_path / "some.hpp") == 2
