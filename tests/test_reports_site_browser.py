"""The site in a real browser, opened from a file: it sorts, filters, switches, and asks for nothing from elsewhere."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from site_records import DATASETS, METHODS, site_records
from test_reports_site import HOSTILE, built

from reports.site.material import Material, MethodText
from results.record import FoldRecord

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium and its driver are not installed")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,900",
)  # fmt: skip
LONG = "my_losses/2024/experiments/a_long_name.py:SquaredContrastiveWithMarginAndMore"
NAMES = (METHODS[0], "contrastive", "proxy-anchor", "arcface", "ccp-contrastive", HOSTILE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = site_records(NAMES, DATASETS[:2], "finals.n_runs=3", "folds.n_folds=2", n_trials=3)
    texts = {
        name: MethodText(family=family, formula=HOSTILE, source="nobody")
        for name, family in (("contrastive", "pair"), ("proxy-anchor", "class"), ("arcface", "class"))
    }
    return built(records, tmp_path_factory.mktemp("site") / "board & co", Material(methods=texts))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    assert BROWSER
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = Chrome(options=options, service=Service(DRIVER))
    yield found
    found.quit()


@pytest.fixture
def board(browser: Chrome, site: Path) -> Chrome:
    """The board of CUB200, as a visitor first sees it."""
    (path,) = site.glob("boards/*cub200*.html")
    browser.get("about:blank")  # or another place within the page would be no new visit
    browser.get(path.as_uri())
    return browser


MEAN_ENDS = """
const text = document.createTreeWalker(arguments[0], NodeFilter.SHOW_TEXT).nextNode(), range = document.createRange();
range.setStart(text, 0);
range.setEnd(text, text.data.indexOf(".") + 3);
return range.getBoundingClientRect().right;
"""


def rows(page: Chrome, body: str = "tbody:first-of-type") -> list[WebElement]:
    return [row for row in page.find_elements(By.CSS_SELECTOR, f".board {body} tr:not(.part)") if row.is_displayed()]


def names(page: Chrome, body: str = "tbody:first-of-type") -> list[str]:
    return [row.find_element(By.TAG_NAME, "th").text.splitlines()[0] for row in rows(page, body)]


def numbers(page: Chrome) -> list[float]:
    """The chosen metric of each row."""
    return [float(row.find_element(By.CSS_SELECTOR, ".n.on:not([hidden])").text.split()[0]) for row in rows(page)]


def button(page: Chrome, key: str) -> WebElement:
    found = page.find_elements(By.CSS_SELECTOR, f".board button[data-key='{key}']")
    return next(one for one in found if one.is_displayed())


def choose(page: Chrome, text: str) -> None:
    page.find_element(By.XPATH, f"//fieldset//label[span[text()='{text}']]/input").click()


def sorting(page: Chrome, key: str) -> str | None:
    return button(page, key).find_element(By.XPATH, "..").get_attribute("aria-sort")


def test_a_board_begins_with_the_best_and_sorts_by_any_heading(board: Chrome) -> None:
    assert numbers(board) == sorted(numbers(board), reverse=True)
    assert sorting(board, "place") == "descending"
    button(board, "name").click()
    assert names(board) == sorted(names(board), key=str.lower)
    assert (sorting(board, "name"), sorting(board, "place")) == ("ascending", "none")
    button(board, "name").click()
    assert names(board) == sorted(names(board), key=str.lower, reverse=True)
    button(board, "rank").click()
    assert [int(row.find_element(By.CLASS_NAME, "rank").text.split()[0]) for row in rows(board)] == [1, 2, 3, 4, 5]


def test_headings_sort_from_the_keyboard(board: Chrome) -> None:
    before = names(board)
    button(board, "place").send_keys(Keys.ENTER)
    assert names(board) == before[::-1]
    button(board, "place").send_keys(Keys.SPACE)
    assert names(board) == before


def test_setting_and_metric_switch_numbers_marks_ranks_and_order(board: Chrome) -> None:
    def state() -> tuple[list[float], list[str | None], str]:
        marks = [row.find_element(By.CSS_SELECTOR, ".mark .mean").get_attribute("d") for row in rows(board)]
        return numbers(board), marks, button(board, "place").text

    concatenated = state()
    choose(board, "Separated")
    separated = state()
    choose(board, "P@1")
    precision = state()
    assert (concatenated[2], separated[2], precision[2]) == ("MAP@R", "MAP@R", "P@1")
    # The fold models are 4 points below their concatenation, and P@1 is made 2.4 times MAP@R.
    assert concatenated[0] == pytest.approx([value + 4 for value in separated[0]], abs=0.011)
    assert precision[0] == pytest.approx([2.4 * value for value in separated[0]], abs=0.02)
    assert len({str(found[1]) for found in (concatenated, separated, precision)}) >= 2
    grids = board.find_elements(By.CSS_SELECTOR, "#grid")
    assert len(grids) == 1
    assert grids[0].find_element(By.XPATH, "..").get_attribute("hidden") is None
    headings = [
        one.text.split()[0] for one in board.find_elements(By.CSS_SELECTOR, "th.n button") if one.is_displayed()
    ]
    assert headings == ["P@1", "R-precision", "MAP@R", "Runs"]


def test_a_filter_finds_names_and_families_and_counts(board: Chrome) -> None:
    box = board.find_element(By.NAME, "filter")
    box.send_keys("CLASS")
    assert set(names(board)) == {"proxy-anchor", "arcface"}
    assert board.find_element(By.NAME, "count").text == "3 of 42 rows"  # margin-class is published
    box.clear()
    box.send_keys("contrast ccp")
    assert names(board) == ["ccp-contrastive"]
    box.clear()
    box.send_keys(HOSTILE)
    assert names(board) == [HOSTILE]
    board.find_element(By.NAME, "published").click()
    assert not rows(board, ".published")


def test_baselines_and_published_rows_can_be_left_out_and_are_never_ranked(board: Chrome) -> None:
    assert names(board, ".baselines") == ["untrained"]
    assert {row.find_element(By.CLASS_NAME, "rank").text for row in rows(board, ".published")} == {"–"}
    board.find_element(By.NAME, "baselines").click()
    assert not rows(board, ".baselines")
    assert len(rows(board)) == 5


def test_means_line_up_with_and_without_an_interval_and_without_a_run(browser: Chrome, tmp_path: Path) -> None:
    records = site_records(NAMES[:3], DATASETS[:1], "finals.n_runs=3", "folds.n_folds=2")
    broken = next(one for one in records if one.identity.method == "contrastive" and isinstance(one, FoldRecord))
    records[records.index(broken)] = replace(broken, outcome="failed", reason="collapsed", test=None)
    browser.get(next(built(records, tmp_path / "site").glob("boards/*")).as_uri())
    choose(browser, "Separated")
    texts, ends = [], set()
    for row in browser.find_elements(By.CSS_SELECTOR, ".board tbody tr:not(.part)"):
        cell = row.find_element(By.CSS_SELECTOR, ".n.on:not([hidden])")
        if cell.is_displayed():
            texts.append(cell.text)
            ends.add(round(browser.execute_script(MEAN_ENDS, cell)))
    assert any("±" in text for text in texts)
    assert any("±" not in text for text in texts)
    assert any("†" in text for text in texts)
    assert max(ends) - min(ends) <= 1


def test_a_paper_is_not_shown_where_it_has_no_number(board: Chrome) -> None:
    def shown() -> list[str]:
        return [row.find_element(By.CSS_SELECTOR, ".n.on:not([hidden])").text for row in rows(board, ".published")]

    before = shown()
    choose(board, "Separated")
    assert 0 < len(shown()) < len(before)
    assert "–" not in shown()
    n = len(shown()) + len(rows(board)) + len(rows(board, ".baselines"))
    assert board.find_element(By.NAME, "count").text == f"{n} of {n} rows"


def test_the_address_keeps_what_was_chosen(board: Chrome) -> None:
    choose(board, "Separated")
    choose(board, "R-precision")
    button(board, "name").click()
    board.find_element(By.NAME, "filter").send_keys("a")
    seen, address = (names(board), numbers(board)), board.current_url
    assert "#" in address
    board.get("about:blank")
    board.get(address)
    assert (names(board), numbers(board)) == seen
    assert sorting(board, "name") == "ascending"


def test_the_overview_switches_its_setting(browser: Chrome, site: Path) -> None:
    browser.get((site / "index.html").as_uri())

    def first() -> float:
        cells = browser.find_elements(By.CSS_SELECTOR, ".matrix td span")
        return float(next(one.text.split("±")[0] for one in cells if one.is_displayed()))

    concatenated = first()
    choose(browser, "Separated")
    assert first() == pytest.approx(concatenated - 4, abs=0.011)


def test_the_theme_follows_the_system_until_one_is_chosen_and_is_kept(browser: Chrome, site: Path) -> None:
    def background() -> str:
        return str(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))

    def prefer(scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    browser.get((site / "index.html").as_uri())
    prefer("light")
    light = background()
    prefer("dark")
    dark = background()
    assert light != dark
    theme = browser.find_element(By.CSS_SELECTOR, ".top button")
    theme.click()
    assert (theme.text, background()) == ("Theme: light", light)
    browser.get(next(site.glob("records/*.html")).as_uri())
    assert background() == light
    for _ in range(2):
        browser.find_element(By.CSS_SELECTOR, ".top button").click()
    assert browser.find_element(By.CSS_SELECTOR, ".top button").text == "Theme: auto"
    assert background() == dark


PAGES = ("index.html", "boards/*cub200*", "methods/ccp*", "methods/script*", "records/*", "conditions/*")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_is_wider_than_a_phone_and_none_says_an_error(browser: Chrome, site: Path, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser")
    for pattern in PAGES:
        browser.get(next(site.glob(pattern)).as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, pattern
        assert browser.find_element(By.TAG_NAME, "h1").is_displayed()
    assert browser.get_log("browser") == []
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_a_long_name_pushes_no_number_out_of_sight(browser: Chrome, tmp_path: Path, width: int) -> None:
    folder = built(
        site_records((*NAMES[:3], LONG), ("other",), "finals.n_runs=3", "folds.n_folds=2"), tmp_path / "site"
    )
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(next(folder.glob("boards/*")).as_uri())
    for cell in browser.find_elements(By.CSS_SELECTOR, ".board .n.on:not([hidden])"):
        assert cell.rect["x"] + cell.rect["width"] <= width
    browser.get((folder / "index.html").as_uri())
    for cell in browser.find_elements(By.CSS_SELECTOR, ".matrix td"):
        assert cell.rect["x"] + cell.rect["width"] <= width
        shaded = any(cell.find_elements(By.CSS_SELECTOR, f".q{n}:not([hidden])") for n in (2, 3, 4, 5))
        assert shaded == (cell.value_of_css_property("background-color") != "rgba(0, 0, 0, 0)")  # to its edges
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_no_name_or_year_of_the_chart_is_cut_off_on_a_phone(board: Chrome) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    board.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chart = board.find_element(By.CSS_SELECTOR, ".years")
    top, height = chart.rect["y"], chart.rect["height"]
    texts = [one.rect for one in chart.find_elements(By.TAG_NAME, "text")]
    assert len(texts) > 10
    for text in texts:
        assert top - 1 <= text["y"]
        assert text["y"] + text["height"] <= top + height + 1
    board.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_no_request_leaves_the_folder(browser: Chrome, site: Path) -> None:
    browser.get_log("performance")
    for pattern in PAGES:
        browser.get(next(site.glob(pattern)).as_uri())
    asked = [
        address for entry in browser.get_log("performance") for address in _requested(json.loads(entry["message"]))
    ]
    assert len([address for address in asked if address.endswith("site.css")]) == len(PAGES)
    assert not [address for address in asked if not address.startswith(f"{site.as_uri()}/")]


def _requested(entry: dict[str, Any]) -> Iterator[str]:
    message = entry["message"]
    if message["method"] == "Network.requestWillBeSent":
        yield message["params"]["request"]["url"]


def test_what_gets_into_a_page_all_the_same_cannot_run(browser: Chrome, site: Path) -> None:
    for pattern in ("boards/*cub200*", "records/*"):
        browser.get(next(site.glob(pattern)).as_uri())
        browser.execute_script(
            "document.body.insertAdjacentHTML('beforeend', '<img src=\"icon.svg#none\" onerror=\"window.ran = 1\">');"
            "const one = document.createElement('script'); one.text = 'window.ran = 1'; document.body.append(one);"
        )
        assert browser.execute_script("return window.ran") is None
    assert {"security"} == {entry["source"] for entry in browser.get_log("browser")} - {"network"}
