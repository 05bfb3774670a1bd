"""The pages in a real browser: they fit on a telephone and on paper, dark or light, and hostile names do nothing."""

import base64
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dperm import Budget, Guarantee, PrivateLogisticRegression
from dperm.accounting.events import Gaussian
from dperm.files.model_file import save_model
from dperm.privacy.guarantee import Adjacency
from dperm.report import write_budget, write_report
from dperm.schema import Category, Classes, Number, Schema
from report.headless import chromium, needs_a_browser

pandas = pytest.importorskip("pandas")
pytest.importorskip("selenium")

from selenium.common.exceptions import NoAlertPresentException  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

pytestmark = needs_a_browser

SCRIPT, IMAGE, LONG = "<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a_long_name_" * 40
N_ROWS = 600


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


def page_about(names, folder, **options):
    """A report about a model with these names for a number, a category's column and values, and the target."""
    number, category, value, target = names
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({number: rng.uniform(0, 100, N_ROWS), category: rng.choice([value, "b"], N_ROWS)})
    frame[target] = np.where(frame[number] > 50, value, "other")
    columns = {number: Number((0, 100)), category: Category([value, "b"], missing="column")}
    schema = Schema(columns, Classes(target, [value, "other"]), n=N_ROWS)
    save_model(PrivateLogisticRegression(1.0, 1e-5, schema=schema, **options).fit(frame), folder / "model.json")
    return write_report(folder / "model.json")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    return page_about(("age", "sex", "f", "kind"), tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    return page_about((SCRIPT, LONG, IMAGE, IMAGE + "2"), tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def charged(tmp_path_factory) -> Path:
    """A report with its budget: this release is one of five, and one of them is not settled."""
    folder = tmp_path_factory.mktemp("charged")
    budget = budget_in(folder, "people", 3)
    page_about(("age", "sex", "f", "kind"), folder, budget=budget)
    budget.reserve(Gaussian(20.0), Adjacency.REPLACE_ONE).settle("ab" * 32)
    return write_report(folder / "model.json", ledger=budget.ledger)


@pytest.fixture(scope="module")
def budget(tmp_path_factory) -> Path:
    return budget_page(tmp_path_factory.mktemp("budget"), "people", 4)


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    return budget_page(tmp_path_factory.mktemp("many"), "people", 80)


@pytest.fixture(scope="module")
def hostile_budget(tmp_path_factory) -> Path:
    return budget_page(tmp_path_factory.mktemp("hostile_budget"), f"</script>{SCRIPT} {'long' * 30}", 2)


def budget_in(folder, name, n_releases):
    """A budget whose second release is not settled, and whose first has a hostile fingerprint."""
    found = Budget.create(name, Guarantee(3.0, 1e-5), ledger=str(folder / "ledger.db"))
    for place in range(n_releases):
        reservation = found.reserve(Gaussian(60.0), Adjacency.REPLACE_ONE)
        if place != 1:
            reservation.settle(IMAGE if place == 0 else f"{place:064d}")
    return found


def budget_page(folder, name, n_releases):
    return write_budget(name, budget_in(folder, name, n_releases).ledger, folder / "budget.html")


def opened(browser, page, width=1200, media="", scheme="light"):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(page.as_uri())
    return browser


@pytest.mark.parametrize("name", ["plain", "hostile", "charged", "budget", "many", "hostile_budget"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_loads_without_errors_and_does_not_scroll_sideways(browser, request, name, width):
    browser.get_log("browser")
    opened(browser, request.getfixturevalue(name), width)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    outside = """return [...document.querySelectorAll('body :not(thead, thead *)')].filter(element => {
        const box = element.getBoundingClientRect(); return box.width && (box.right > innerWidth + 1 || box.left < -1)
    }).map(element => element.tagName)"""
    assert browser.execute_script(outside) == []


@pytest.mark.parametrize("name", ["hostile", "hostile_budget"])
def test_hostile_names_raise_no_alert_and_no_element(browser, request, name):
    opened(browser, request.getfixturevalue(name))
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert
    assert browser.find_elements(By.CSS_SELECTOR, "script:not([type='application/ld+json']), img") == []
    assert len(browser.find_elements(By.CSS_SELECTOR, "script")) == 1
    assert "alert" in browser.find_element(By.CSS_SELECTOR, "h1").text


def test_hostile_names_become_text(browser, hostile):
    opened(browser, hostile)
    assert SCRIPT in browser.find_element(By.CSS_SELECTOR, ".plot").text
    assert LONG in browser.find_element(By.CSS_SELECTOR, ".rules").text.replace("\n", "")


def test_the_verdict_and_the_chart_can_be_seen(browser, plain):
    opened(browser, plain, 360)
    verdict = browser.find_element(By.CSS_SELECTOR, ".verdict")
    assert verdict.is_displayed()
    assert verdict.text == "VERIFIED: the recorded events imply the stated guarantee"
    assert len(browser.find_elements(By.CSS_SELECTOR, ".curve svg")) == 2  # of ε, and of the one number
    for chart in browser.find_elements(By.CSS_SELECTOR, ".attack svg, td.bar svg, .curve svg"):
        assert chart.size["width"] > 60
        assert chart.size["height"] > 15


def test_dots_and_names_of_the_plot_are_side_by_side(browser, hostile):
    opened(browser, hostile, 360)
    rows = browser.find_elements(By.CSS_SELECTOR, ".plot tbody tr:has(circle)")
    assert len(rows) == 8  # five ends of bins, two categories, and no category
    for row in rows:
        name, dot, value = (row.find_element(By.CSS_SELECTOR, part) for part in ("th", "circle", "td.number"))
        assert name.rect["x"] + name.rect["width"] <= dot.rect["x"]
        assert dot.rect["x"] + dot.rect["width"] <= value.rect["x"]


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_that_is_written_in_a_curve_overlaps(browser, plain, width):
    opened(browser, plain, width)
    overlaps = """return [...document.querySelectorAll('.curve svg')].flatMap(svg => {
        const texts = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect());
        return texts.flatMap((a, i) => texts.slice(i + 1).filter(b =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2));
    })"""
    assert browser.execute_script(overlaps) == []


def test_the_table_of_all_coefficients_opens_on_a_click(browser, plain):
    opened(browser, plain)
    table = browser.find_element(By.CSS_SELECTOR, "details table")
    assert not table.is_displayed()
    browser.find_element(By.CSS_SELECTOR, "summary").click()
    assert table.is_displayed()
    assert "sex = f" in table.text


def test_on_paper_the_table_is_open_and_the_page_is_black_on_white(browser, plain):
    opened(browser, plain, 720, media="print")
    box = browser.find_element(By.CSS_SELECTOR, "details table").rect
    assert box["height"] > 50
    colours = (
        "return [...new Set([...document.querySelectorAll('body *')].map(e => getComputedStyle(e).backgroundColor))]"
    )
    assert set(browser.execute_script(colours)) <= {"rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"}
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF-")


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_is_not_for_release_shows_it_first_on_screen_and_on_paper(browser, tmp_path):
    page = page_about(("age", "sex", "f", "kind"), tmp_path, random_state=1)
    for media in ("", "print"):
        opened(browser, page, 720, media)
        banner = browser.find_element(By.CSS_SELECTOR, ".banner strong")
        assert banner.text == "NOT FOR RELEASE"
        assert banner.rect["y"] < 100
        assert banner.rect["height"] > 30
        assert browser.find_element(By.CSS_SELECTOR, ".watermark").is_displayed() == (media == "print")


# Of every text: the contrast of its colour with the page's, as WCAG defines it, and whether it is large.
CONTRASTS = """
    const light = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(value => value / 255)
            .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const paper = getComputedStyle(document.body).backgroundColor;
    const texts = [...document.querySelectorAll('body :not(title)')].filter(element =>
        [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
    const drawn = [...document.querySelectorAll('circle[stroke], polyline[stroke], line[stroke="var(--axis)"]')];
    return {
        paper: paper,
        texts: Math.min(...texts.map(element => {
            const style = getComputedStyle(element);
            return contrast(element.closest('svg') ? style.fill : style.color, paper);
        })),
        drawn: Math.min(99, ...drawn.map(element => contrast(getComputedStyle(element).stroke, paper))),
        zones: Math.min(99, ...['cost', 'hopeless'].map(zone => {
            const found = document.querySelector(`polygon[fill="var(--${zone})"]`);
            const word = document.querySelector('.curve svg text');
            return found ? contrast(getComputedStyle(found).fill, getComputedStyle(word).fill) : 99;
        })),
    }"""


@pytest.mark.parametrize("name", ["plain", "charged", "budget"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_have_the_contrast_of_wcag_aa(browser, request, name, scheme):
    opened(browser, request.getfixturevalue(name), scheme=scheme)
    found = browser.execute_script(CONTRASTS)
    assert found["paper"] == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 28)"}[scheme]
    assert found["texts"] >= 4.5
    assert found["zones"] >= 4.5
    assert found["drawn"] >= 3.0


@pytest.mark.parametrize("name", ["charged", "budget"])
def test_paper_is_light_for_readers_of_dark_pages(browser, request, name):
    opened(browser, request.getfixturevalue(name), 720, media="print", scheme="dark")
    found = browser.execute_script(CONTRASTS)
    assert found["paper"] == "rgb(255, 255, 255)"
    assert found["texts"] >= 4.5


@pytest.mark.parametrize("width", [360, 1200])
def test_the_bar_of_the_budget_marks_this_release_and_what_is_not_settled(browser, charged, width):
    opened(browser, charged, width)
    bar = browser.find_element(By.CSS_SELECTOR, ".spending svg.whole")
    segments = browser.find_elements(By.CSS_SELECTOR, "rect.this, rect.released, rect.reserved")
    assert [segment.get_attribute("class") for segment in segments] == [
        "released", "reserved", "released", "this", "released",
    ]  # fmt: skip
    fills = {browser.execute_script("return getComputedStyle(arguments[0]).fill", segment) for segment in segments}
    assert len(fills) == 3
    for before, after in pairwise(segments):
        assert after.rect["x"] == pytest.approx(before.rect["x"] + before.rect["width"], abs=1.5)
    label = bar.find_element(By.CSS_SELECTOR, "text")
    assert label.text == "this release"
    this = segments[3].rect
    assert this["x"] - 12 <= label.rect["x"] <= this["x"] + this["width"] + 12
    assert label.rect["x"] + label.rect["width"] <= width
    assert label.rect["y"] + label.rect["height"] <= this["y"]


def test_many_releases_fill_the_bar_without_a_gap(browser, many):
    opened(browser, many, 360)
    bar = browser.find_element(By.CSS_SELECTOR, ".spending svg.whole").rect
    segments = [part.rect for part in browser.find_elements(By.CSS_SELECTOR, "rect.released, rect.reserved")]
    assert 10 < len(segments) < 80
    assert segments[0]["x"] == pytest.approx(bar["x"], abs=1.5)
    for before, after in pairwise(segments):
        assert after["x"] == pytest.approx(before["x"] + before["width"], abs=1.5)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".releases tbody tr")) == 80


def test_a_long_table_has_its_head_on_every_sheet_and_no_heading_ends_one(browser, many, tmp_path):
    program = shutil.which("pdftotext")
    if program is None:
        pytest.skip("pdftotext is not installed")
    opened(browser, many)
    (tmp_path / "page.pdf").write_bytes(base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"]))
    text = subprocess.run(
        [program, "-layout", tmp_path / "page.pdf", "-"], capture_output=True, check=True, encoding="utf-8"
    ).stdout
    sheets = [[line.strip() for line in sheet.splitlines() if line.strip()] for sheet in text.split("\f")[:-1]]
    with_rows = [sheet for sheet in sheets if any(re.match(r"\d+ +20\d\d-", line) for line in sheet)]
    assert len(with_rows) >= 2
    assert all(any(line.startswith("Entry") and "alone" in line for line in sheet) for sheet in with_rows)
    assert not [sheet[-1] for sheet in sheets if re.match(r"\d\. [A-Z]", sheet[-1])]
