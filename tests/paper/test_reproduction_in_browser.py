"""The page of `dperm reproduce all` in a real browser: its filter works, and it fits on a telephone and on paper."""

import pytest

from dperm.paper.studies.reproduce.page import write_page
from dperm.paper.studies.reproduce.pictures import draw_scatter
from dperm.paper.studies.reproduce.section import Section, Sheet
from dperm.paper.studies.reproduce.verdicts import Finding, Outcome, Verdict, undecided
from report.headless import chromium, needs_a_browser

pytest.importorskip("matplotlib")
pytest.importorskip("selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

pytestmark = needs_a_browser

CLAIMS = {
    "figure-1": [("Curves fall.", Finding(Outcome.HOLDS)), ("Curves rise.", Finding(Outcome.FAILS))],
    "table-1": [("Bounds are kept.", undecided("the interval is too wide")), ("Rows fall.", Finding(Outcome.HOLDS))],
}


def section(name):
    picture = draw_scatter(name, [("one", [0.1, 10.0], [0.2, 0.9]), ("two", [1.0, 99.0], [0.1, 0.5])], 1e-3)
    rows = [[f"method {k}", 1.0 / (k + 1), "x" * 30, None] for k in range(5)]
    sheet = Sheet("Numbers", ["method", "a long heading of a column", "words", "nothing"], rows)
    verdicts = [Verdict(claim, finding, "At ε = 1 it is 1e-300 times as large.") for claim, finding in CLAIMS[name]]
    return Section(
        name, f"{name.capitalize()}: a title in plain words", "n = 5", ("Text.",), "A rule.", ("A headline.",),
        verdicts, (sheet,), sheet, {name: picture},
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "reproduction.html"
    write_page(path, [section(name) for name in CLAIMS])
    return path


@pytest.fixture
def browser(request):
    with chromium(scripts=getattr(request, "param", "") != "without JavaScript") as driver:
        yield driver


def shown(browser):
    """The claims that can be seen."""
    rows = browser.find_elements(By.CSS_SELECTOR, ".verdicts tbody tr")
    return [row.find_elements(By.TAG_NAME, "td")[2].text.partition("\n")[0] for row in rows if row.is_displayed()]


def test_verdicts_are_filtered_by_study_outcome_and_words(browser, page):
    browser.get(page.as_uri())
    study = Select(browser.find_element(By.NAME, "study"))
    outcome = Select(browser.find_element(By.NAME, "outcome"))
    words = browser.find_element(By.NAME, "words")
    assert len(shown(browser)) == 4
    study.select_by_value("table-1")
    assert shown(browser) == ["Bounds are kept.", "Rows fall."]
    outcome.select_by_visible_text("holds")
    assert shown(browser) == ["Rows fall."]
    study.select_by_value("")
    assert shown(browser) == ["Curves fall.", "Rows fall."]
    outcome.select_by_value("")
    words.send_keys("WIDE interval")
    assert shown(browser) == ["Bounds are kept."]
    assert browser.find_element(By.TAG_NAME, "output").text == "1 of 4 shown"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert len(shown(browser)) == 4  # paper cannot be filtered
    assert not browser.find_element(By.ID, "filter").is_displayed()
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("browser", ["without JavaScript"], indirect=True)
def test_without_javascript_all_verdicts_are_there_and_no_filter_pretends_to_work(browser, page):
    browser.get(page.as_uri())
    assert len(shown(browser)) == 4
    assert not browser.find_element(By.ID, "filter").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_no_wider_than_the_screen_and_can_be_read_on_dark_ones(browser, page, width, scheme):
    browser.get(page.as_uri())
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    style = "return getComputedStyle(document.body)"
    assert browser.execute_script(f"{style}.backgroundColor") == {
        "light": "rgb(255, 255, 255)", "dark": "rgb(17, 19, 22)"
    }[scheme]  # fmt: skip
    assert len(shown(browser)) == 4
