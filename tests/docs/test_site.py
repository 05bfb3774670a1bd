"""The documentation site: it builds, its links lead somewhere, it asks no other host, and it can be read anywhere."""

import fcntl
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

import dperm
from report.headless import chromium, needs_a_browser

pytest.importorskip("mkdocs")
pytest.importorskip("material")

ROOT = Path(__file__).parents[2]
WIDTHS = 1280, 390


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site, built once, also where tests run in several processes."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
            built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            if built.returncode:
                shutil.rmtree(folder, ignore_errors=True)
            assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Page(HTMLParser):
    """What a page is addressed by, links to, and loads."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors, self.links, self.loads, self.styles = {""}, [], [], []
        self.in_style = False
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[name] for name in ("id", "name") if found.get(name))
        self.in_style = tag == "style"
        self.styles.append(found.get("style") or "")
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" or found.get("src"):
            self.loads.append(found.get("href") or found.get("src"))
        self.loads += [part.split()[0] for part in (found.get("srcset") or "").split(",") if part.strip()]

    def handle_endtag(self, tag):
        self.in_style = False

    def handle_data(self, data):
        if self.in_style:
            self.styles.append(data)


@functools.cache
def read(folder):
    return {path: Page(path) for path in sorted(folder.rglob("*.html"))}


def broken(folder):
    """Links and loaded files of a site that lead nowhere, each with its page."""
    pages = read(folder)
    found = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            anchors = pages[target].anchors if target in pages else {""}
            if not target.is_file() or unquote(parts.fragment) not in anchors:
                found.append(f"{path.relative_to(folder)} → {link}")
    return found


def asked_elsewhere(folder):
    """What pages and styles of a site load from other hosts."""
    urls = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")
    loaded = [(path, load) for path, page in read(folder).items() for load in page.loads]
    texts = [(path, text) for path, page in read(folder).items() for text in page.styles]
    texts += [(path, path.read_text()) for path in folder.rglob("*.css")]
    loaded += [(path, "".join(found)) for path, text in texts for found in urls.findall(text)]
    return [f"{path.relative_to(folder)}: {load}" for path, load in loaded if re.match(r"(?!data:)\w+:|//", load)]


def test_every_link_and_anchor_leads_somewhere(site):
    assert len(read(site)) > 60
    assert broken(site) == []


def test_no_page_asks_another_host_for_anything(site):
    assert asked_elsewhere(site) == []


def test_what_is_wrong_with_a_site_is_noticed(tmp_path):
    (tmp_path / "other.html").write_text('<p id="here">')
    (tmp_path / "index.html").write_text(
        '<a href="gone.html"><a href="other.html#there"><a href="other.html#here"><a href="#nowhere"><img src="no.png">'
        '<script src="https://a.example/x.js"></script><link rel="stylesheet" href="//b.example/x.css">'
        '<style>@import "https://c.example/x.css"</style><p style="background: url(https://d.example/x.png)">'
    )
    links = ["gone.html", "other.html#there", "#nowhere", "no.png"]
    assert broken(tmp_path) == [f"index.html → {link}" for link in links]
    assert sorted(re.findall(r"\b([a-z])\.example", " ".join(asked_elsewhere(tmp_path)))) == ["a", "b", "c", "d"]


def test_every_exported_name_is_in_the_reference(site):
    described = {anchor for path, page in read(site).items() if path.parent.name == "api" for anchor in page.anchors}
    assert [name for name in dperm.__all__ if f"dperm.{name}" not in described and name != "__version__"] == []


def test_every_page_and_notebook_is_on_the_site(site):
    sources = [path for path in (ROOT / "docs").rglob("*") if path.suffix in {".md", ".ipynb"}]
    for source in sources:
        place = source.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / (place.with_name("index.html") if source.stem == "README" else place)).exists()


def test_formulas_and_links_were_all_read(site):
    for path in site.rglob("*.html"):
        article = re.search(r"<article.*</article>", path.read_text(), flags=re.S)[0]
        prose = re.sub(r"<(pre|code|math|style)\b.*?</\1>", "", article, flags=re.S)
        left = re.findall(r".*(?:\$\$|\\[a-z]+\{|\]\(|```).*", re.sub(r"<[^>]*>", "", prose))
        assert left == [], path


def test_lists_are_read_as_on_github(site):
    pitfalls = (site / "pitfalls.html").read_text()
    starts = [int(start) for start in re.findall(r'<ol start="(\d+)">', pitfalls)]
    numbers = re.findall(r"^(\d+)\. ", (ROOT / "docs" / "pitfalls.md").read_text(), flags=re.M)
    assert pitfalls.count("<ol>") == 1  # the first begins with 1
    assert {str(start) for start in starts} <= set(numbers)
    shown = hook("lists").on_page_markdown("Say:\n- a\n  - b\n\n  $$\n  - c\n  $$\n1. d\n\ne")
    assert shown == "Say:\n\n- a\n    - b\n\n    $$\n    - c\n    $$\n1. d\n\ne"


def test_notebooks_show_the_outputs_that_are_stored_in_them(site):
    for path in (ROOT / "docs").rglob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        html = (site / path.relative_to(ROOT / "docs").with_suffix(".html")).read_text()
        assert html.count('class="output') == sum(len(cell.get("outputs", [])) for cell in cells) > 0


def hook(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / "theme" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def page_at(path):
    file = SimpleNamespace(src_uri=path, abs_src_path=str(ROOT / "docs" / path))
    return SimpleNamespace(file=file, toc=[], meta={}, is_top_level=False)


@pytest.mark.parametrize("latex", [r"\foo{a}", r"\frac{a", r"\left( a", r"a_b_c", r"a &= b"])
def test_a_formula_that_cannot_be_parsed_stops_the_build(latex):
    from mkdocs.exceptions import PluginError

    html = rf'<p><span class="arithmatex">\({latex}\)</span></p>'.replace("&", "&amp;")
    with pytest.raises(PluginError, match=r"proofs/exact\.md"):
        hook("mathematics").on_page_content(html, page_at("proofs/exact.md"))


def test_a_formula_in_a_line_may_be_broken_and_one_by_itself_scrolls():
    shown = hook("mathematics").on_page_content
    inline = shown(r'<span class="arithmatex">\(a = b + c\)</span>', page_at("x.md"))
    assert re.sub(r"<(?!wbr)[^>]*>", "", inline) == "a=<wbr>b+<wbr>c"
    block = shown(r'<div class="arithmatex">\[a \le b \tag{1}\]</div>', page_at("x.md"))
    assert block.startswith('<div class="formula"><math display="block"')
    assert "(1)" in re.sub(r"<[^>]*>", "", block)


def test_a_link_to_a_file_that_is_not_on_the_site_becomes_its_path():
    linked = hook("links").on_page_markdown
    assert (
        linked("[the code](../src/dperm/privacy/unit.py)", page_at("x.md")) == "the code (`src/dperm/privacy/unit.py`)"
    )
    assert (
        linked("[`src/dperm/privacy/unit.py`](../src/dperm/privacy/unit.py)", page_at("x.md"))
        == "`src/dperm/privacy/unit.py`"
    )
    assert linked("[c](../CHANGELOG.md#010-unreleased)", page_at("x.md")) == "[c](CHANGELOG.md#010-unreleased)"
    assert linked("[g](../guarantee.md)", page_at("proofs/exact.md")) == "[g](../guarantee.md)"
    assert linked("```\n[a](../src/dperm)\n```", page_at("x.md")) == "```\n[a](../src/dperm)\n```"


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


def resize(browser, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


BROKEN = """
    const images = [...document.images].filter(image => !(image.complete && image.naturalWidth > 1));
    const formulas = [...document.querySelectorAll('math')].filter(math => {
        const box = math.getBoundingClientRect(); return !(box.width > 1 && box.height > 1)});
    // The sign of a root is drawn by the browser. If the font lacks it there is no room for it.
    formulas.push(...[...document.querySelectorAll('msqrt')].filter(root => {
        const parts = [...root.children].map(part => part.getBoundingClientRect());
        return parts[0].left - root.getBoundingClientRect().left < 4}));
    const [words, latex] = [images.map(image => image.alt), formulas.map(math => math.textContent)];
    return [document.documentElement.scrollWidth, words, latex]
"""


@needs_a_browser
@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_page_fits_a_screen_and_a_telephone_and_shows_its_pictures_and_formulas(site, browser, one_in):
    wrong = []
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 70
    for path in [*site.glob("*.html"), *pages[::one_in]] if one_in > 1 else pages:
        resize(browser, WIDTHS[0])
        browser.get(path.as_uri())
        for width in WIDTHS:
            resize(browser, width)
            found = browser.execute_script(BROKEN)
            if found != [width, [], []]:
                wrong.append((str(path.relative_to(site)), width, found))
        wrong += [(str(path.relative_to(site)), entry["message"]) for entry in browser.get_log("browser")]
    assert wrong == []


@needs_a_browser
def test_a_search_from_disk_finds_something(site, browser):
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    resize(browser, WIDTHS[0])
    browser.get((site / "index.html").as_uri())
    for key in "objective perturbation":
        browser.find_element(By.CSS_SELECTOR, ".md-search__input").send_keys(key)
    # Results are drawn again while they come in, so that one may be gone before it is asked for its address.
    WebDriverWait(browser, 30, ignored_exceptions=[StaleElementReferenceException]).until(
        lambda page: any(
            "objective_perturbation.html" in link.get_attribute("href")
            for link in page.find_elements(By.CSS_SELECTOR, ".md-search-result__item a.md-search-result__link")
        )
    )


CONTRAST = """
    const channels = colour => colour.match(/[\\d.]+/g).map(Number);
    const over = (top, below) => {
        const alpha = top[3] ?? 1; return [0, 1, 2].map(i => alpha * top[i] + (1 - alpha) * below[i])};
    const ground = element => {
        if (!element) return [255, 255, 255];
        const own = channels(getComputedStyle(element).backgroundColor);
        return (own[3] ?? 1) === 1 ? own : over(own, ground(element.parentElement))};
    const light = colour => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
        const c = colour[i] / 255; return sum + weight * (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)}, 0);
    const texts = [...document.querySelectorAll('.md-content *, .md-sidebar a, .md-tabs a')].filter(element =>
        [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()) &&
        element.checkVisibility({opacityProperty: true}) &&
        !element.closest('svg, style, .headerlink, .sk-top-container'));
    const weak = texts.map(element => {
        const below = ground(element), colour = over(channels(getComputedStyle(element).color), below);
        const [a, b] = [light(colour), light(below)].sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), element.textContent.trim().slice(0, 40), element.className]
    }).filter(found => found[0] < 4.5);
    return [texts.length, weak]
"""


@needs_a_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(site, browser, scheme):
    notebook = sorted(site.rglob("tutorials/*.html"))
    pages = ["index.html", "quick_start.html", "adjacency.html", "measured.html", "api/estimators.html"]
    prefer(browser, scheme)
    resize(browser, WIDTHS[0])
    for page in [*(site / name for name in pages), notebook[0]]:
        browser.get(page.as_uri())
        assert (
            browser.execute_script("return document.body.dataset.mdColorScheme")
            == {"light": "default", "dark": "slate"}[scheme]
        )
        n_texts, weak = browser.execute_script(CONTRAST)
        assert n_texts > 50
        assert weak == []
