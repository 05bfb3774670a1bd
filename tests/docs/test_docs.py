"""The pages hold together: links and modules exist, the tests they name are there, and the examples run."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")
NAME = re.compile(r"\bdperm(?:\.[A-Za-z_]\w*)+")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PLACE = re.compile(r"`((?:src/dperm|tests|examples|benchmarks)/[\w./]*)`")


def named(pattern, pages=PAGES):
    found = {(str(page.relative_to(ROOT)), match) for page in pages for match in pattern.findall(page.read_text())}
    return sorted(found, key=str)


def anchors(page):
    """How a page's headings are addressed, as GitHub does it."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "link"), named(LINK))
def test_every_link_leads_somewhere(page, link):
    path, _, heading = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page
    assert target.exists()
    assert not heading or heading in anchors(target)


@pytest.mark.parametrize(("page", "place"), named(PLACE))
def test_every_file_that_a_page_names_exists(page, place):
    assert (ROOT / place).exists()


# The changelog also names what was there before.
@pytest.mark.parametrize(("page", "name"), named(NAME, [page for page in PAGES if page.name != "CHANGELOG.md"]))
def test_every_module_and_member_that_a_page_names_can_be_imported(page, name):
    assert pkgutil.resolve_name(name) is not None


@pytest.mark.parametrize(("page", "test"), named(TEST))
def test_every_test_that_a_page_names_exists(page, test):
    path, name = test
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_pitfalls_keep_their_numbers_and_name_a_test_each():
    items = re.split(r"^(?=\d+\. )", (ROOT / "docs" / "pitfalls.md").read_text(), flags=re.M)[1:]
    numbers = [int(item.partition(".")[0]) for item in items]
    assert numbers == sorted(set(numbers))
    assert set(range(1, 35)) <= set(numbers)
    assert all(TEST.search(item) for item in items)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.S))
def test_the_examples_of_extensions_run(code, capsys):
    exec(code, {"__name__": "example"})


@pytest.mark.parametrize(
    ("code", "shown"),
    re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / "docs" / "networks.md").read_text(), re.S),
)
def test_the_examples_of_networks_print_what_is_shown(code, shown, capsys):
    exec(code, {"__name__": "example"})
    assert capsys.readouterr().out == shown


@pytest.mark.usefixtures("own_folders")
def test_the_examples_about_scikit_learn_run_one_after_the_other_and_print_what_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page, names = (ROOT / "docs" / "sklearn.md").read_text(), {"__name__": "example"}
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.S)
    assert len(blocks) > 5
    for code, shown in blocks:
        exec(code, names)
        assert capsys.readouterr().out == shown


def cited_in_code():
    sources = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return sorted({page for path in sources for page in re.findall(r"docs/[a-z_/]+\.md", path.read_text())})


@pytest.mark.parametrize("page", cited_in_code())
def test_every_page_that_the_code_cites_exists(page):
    assert (ROOT / page).exists()


def cited_pitfalls():
    cited = re.compile(r"[Pp]itfalls? (\d+)")
    return sorted(
        {int(number) for path in (ROOT / "tests").rglob("*.py") for number in cited.findall(path.read_text())}
    )


@pytest.mark.parametrize("number", cited_pitfalls())
def test_every_pitfall_that_a_test_cites_is_on_the_page(number):
    assert re.search(rf"^{number}\. ", (ROOT / "docs" / "pitfalls.md").read_text(), flags=re.M)
