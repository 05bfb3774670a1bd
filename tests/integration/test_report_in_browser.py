"""The report in a real browser: it fits on a telephone and on paper, and hostile names do nothing."""

import base64
import shutil
from pathlib import Path

import numpy as np
import pytest

from dperm import PrivateLogisticRegression
from dperm.release.model_file import save_model
from dperm.release.report import write_report
from dperm.schema import Category, Classes, Number, Schema

pandas = pytest.importorskip("pandas")
pytest.importorskip("jinja2")
webdriver = pytest.importorskip("selenium.webdriver")

from selenium.common.exceptions import NoAlertPresentException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium or chromedriver is not installed")

SCRIPT, IMAGE, LONG = "<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a_long_name_" * 40
N_ROWS = 600


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


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


def opened(browser, page, width=1200, media=""):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
    browser.get(page.as_uri())
    return browser


@pytest.mark.parametrize("name", ["plain", "hostile"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_loads_without_errors_and_does_not_scroll_sideways(browser, request, name, width):
    browser.get_log("browser")
    opened(browser, request.getfixturevalue(name), width)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    outside = """return [...document.querySelectorAll('body *')].filter(element => {
        const box = element.getBoundingClientRect(); return box.width && (box.right > innerWidth + 1 || box.left < -1)
    }).map(element => element.tagName)"""
    assert browser.execute_script(outside) == []


def test_hostile_names_raise_no_alert_and_become_text(browser, hostile):
    opened(browser, hostile)
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert
    assert browser.find_elements(By.CSS_SELECTOR, "script, img") == []
    assert SCRIPT in browser.find_element(By.CSS_SELECTOR, ".plot").text
    assert LONG in browser.find_element(By.CSS_SELECTOR, ".rules").text.replace("\n", "")


def test_the_verdict_and_the_chart_can_be_seen(browser, plain):
    opened(browser, plain, 360)
    verdict = browser.find_element(By.CSS_SELECTOR, ".verdict")
    assert verdict.is_displayed()
    assert verdict.text == "VERIFIED: what is promised follows from the events in the file"
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
