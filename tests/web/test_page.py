"""The page in a real browser: every view, permalinks, the keyboard, no word of the content policy broken."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from lakehouse.cli.app import call
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.withheld import Withheld
from lakehouse.serving.sandbox.sandbox import run_sql
from lakehouse.storage.layout import Home
from tests.serving.conftest import STREAMS, Lakehouse
from tests.web.conftest import TOKEN, bare, published, served, wait_for

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = Path(__file__).parents[2] / ".tools" / "axe.min.js"
EXPLORE = "?view=explore&stream=deep&measure=temp&agg=avg&from=1970-01-01T00:00:00.000100&to=1970-01-01T00:00:00.002999"
VIEWS = {
    "overview": "?view=overview",
    "explore": EXPLORE,
    "explore by key": "?view=explore&stream=deep&measure=temp&by=device",
    "changes": "?view=changes&stream=deep&measure=temp",
    "queries": "?view=queries",
    "quarantine": "?view=quarantine&stream=deep",
}
drawn_in_a_browser = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no chromium with its driver here to open the page with"
)
pytestmark = [drawn_in_a_browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    found = started_browser()
    yield found
    found.quit()


def started_browser() -> webdriver.Chrome:
    """Return a browser without a window, which keeps what it complains of."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = BROWSER or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    found.set_window_size(1280, 1000)
    return found


def opened(browser: webdriver.Chrome, address: str, view: str) -> Any:
    """Open a view and wait until it and its charts are drawn; return what the browser complained of."""
    driver: Any = browser
    # Chromium lets no page ask whose address has a password.
    parts = urlsplit(address)
    if browser.get_cookie(f"tidemark-{parts.port}") is None:
        browser.get(f"{bare(address)}/?token={parts.password}")
        # What it asks for is answered before the log of its complaints is emptied.
        drawn(browser)
    driver.get_log("browser")
    browser.get(f"{bare(address)}/page/{view}")
    drawn(browser)
    return [line for line in driver.get_log("browser") if line["level"] == "SEVERE"]


def drawn(browser: webdriver.Chrome) -> None:
    is_drawn = """
        const main = document.getElementById("main");
        return main.dataset.drawn && !main.hasAttribute("aria-busy") && main.querySelector("h1") !== null
            && main.querySelector("[aria-busy]") === null
            && [...main.querySelectorAll(".chart")].every((one) => one.childElementCount > 0);
    """
    wait_for(lambda: browser.execute_script(is_drawn))


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_drawn_without_a_complaint(browser: webdriver.Chrome, address: str, view: str) -> None:
    complaints = opened(browser, address, VIEWS[view])

    # A home without a table of verdicts or records says so with 404.
    assert [line for line in complaints if "404" not in line["message"]] == []
    assert not browser.find_elements(By.CSS_SELECTOR, "[role=alert]")
    current = browser.find_element(By.CSS_SELECTOR, "nav [aria-current]").get_attribute("href")
    assert current == f"{bare(address)}/page/?view={view.split()[0]}"


@contextmanager
def as_wide_as(browser: webdriver.Chrome, width: int) -> Iterator[None]:
    """Show pages in a window of so many pixels."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [360, 1600])
def test_no_view_is_wider_than_the_window(browser: webdriver.Chrome, address: str, width: int) -> None:
    with as_wide_as(browser, width):
        for view in VIEWS.values():
            opened(browser, address, view)
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, view


def test_an_answer_on_the_page_is_the_answer(
    browser: webdriver.Chrome, address: str, lakehouse: Lakehouse
) -> None:
    from lakehouse.serving.ask.ask import ask

    opened(browser, address, EXPLORE)
    (expected,) = ask(lakehouse.reader, "deep", "temp", "avg", 100, 2999)

    shown = browser.find_element(By.CSS_SELECTOR, ".answer").text
    assert float(shown.replace(",", "")) == pytest.approx(expected.value, rel=1e-9)
    text = browser.find_element(By.ID, "main").text
    assert ("not final" in text) and ("bounded" in text)
    tables = browser.execute_script(
        "return [...document.querySelectorAll('details')].map((one) => one.querySelectorAll('tbody tr').length)"
    )
    assert tables == [240, 120]


def test_what_may_still_change_looks_so_and_what_may_not_does_not(
    browser: webdriver.Chrome, address: str
) -> None:
    opened(browser, address, EXPLORE.replace("002999", "001000"))
    assert "all final" in browser.find_element(By.ID, "main").text
    opened(browser, address, "?view=explore&stream=deep&measure=temp")
    text = browser.find_element(By.ID, "main").text
    assert "not final: late rows may still come" in text
    assert re.search(r"of [0-9,]+ rows [0-9,]+ have no value", text)


def test_a_form_makes_an_address_that_shows_the_same(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, EXPLORE)
    field = browser.find_element(By.NAME, "where")
    before = browser.find_element(By.ID, "main").get_attribute("data-drawn")
    field.send_keys("device=a", Keys.ENTER)
    wait_for(lambda: browser.find_element(By.ID, "main").get_attribute("data-drawn") != before)
    drawn(browser)
    first = browser.find_element(By.CSS_SELECTOR, ".answer").text
    asked = parse_qs(urlsplit(browser.current_url).query)

    opened(browser, address, f"?{urlsplit(browser.current_url).query}")

    assert browser.find_element(By.CSS_SELECTOR, ".answer").text == first
    assert asked["where"] == ["device=a"]
    browser.back()
    browser.back()
    drawn(browser)
    assert "where" not in parse_qs(urlsplit(browser.current_url).query)


def test_every_view_can_be_reached_with_the_keyboard(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, "")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the content"
    for _ in range(2):
        browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Explore"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "form[aria-label=Question]"))
    assert browser.switch_to.active_element.get_attribute("id") == "main"


def test_a_chart_is_read_with_the_arrow_keys(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, EXPLORE)
    chart, below = browser.find_elements(By.CSS_SELECTOR, ".chart")

    chart.send_keys(Keys.END)
    below.send_keys(Keys.HOME, Keys.ARROW_RIGHT)

    tips = [str(one.get_attribute("textContent")) for one in browser.find_elements(By.CSS_SELECTOR, ".tip")]
    assert "1970-01-01 00:00:00.002" in tips[0] and "not final" in tips[0]
    assert "of them late" in tips[1] and "an estimate" in tips[1]


def test_dragging_goes_to_finer_nodes_and_a_narrower_band(browser: webdriver.Chrome, address: str) -> None:
    def shown() -> tuple[list[float], float]:
        """Return the widths of the nodes that answer, and the mean width of the intervals, as the page has them."""
        asked = parse_qs(urlsplit(browser.current_url).query)
        given = {name: values[0] for name, values in asked.items() if name != "view"} | {"points": "240"}
        rows = httpx.get(f"{address}/latest/series.json", params=given | {"agg": "avg"}).json()["rows"]
        known = [row for row in rows if row["rows"]]
        widths = [
            row["high"] - row["low"] for row in known if row["low"] is not None and row["high"] is not None
        ]
        return [row["finest_granularity_us"] for row in known], sum(widths) / len(widths)

    opened(browser, address, "?view=explore&stream=deep&measure=temp")
    nodes, band = shown()
    chart = browser.find_element(By.CSS_SELECTOR, ".chart.tall")
    before = browser.find_element(By.ID, "main").get_attribute("data-drawn")
    drag = ActionChains(browser).move_to_element_with_offset(chart, int(chart.size["width"] * 0.3), 0)
    drag.click_and_hold().move_by_offset(int(chart.size["width"] * 0.15), 0).release().perform()
    wait_for(lambda: browser.find_element(By.ID, "main").get_attribute("data-drawn") != before)
    drawn(browser)
    finer, narrower = shown()

    assert "from=" in browser.current_url and "to=" in browser.current_url
    assert min(finer) < max(nodes) and narrower < band
    browser.back()
    drawn(browser)
    assert "from=" not in browser.current_url


@pytest.mark.parametrize("agg", ["sum", "max"])
def test_what_is_copied_asks_the_same_everywhere(
    browser: webdriver.Chrome,
    address: str,
    lakehouse: Lakehouse,
    capsys: pytest.CaptureFixture[str],
    agg: str,
) -> None:
    opened(browser, address, f"?view=explore&stream=deep&measure=temp&agg={agg}&where=device=a&where=")
    copied = {
        one.find_element(By.TAG_NAME, "button").text: one.find_element(By.TAG_NAME, "pre").text
        for one in browser.find_elements(By.CSS_SELECTOR, ".copies > div")
    }

    home = lakehouse.home.root
    assert call(["--home", str(home), *shlex.split(copied["Copy CLI"])[1:], "--json"]) == 0
    of_cli = json.loads(capsys.readouterr().out)
    of_sql = run_sql(lakehouse.reader, copied["Copy SQL"], 10)
    *lines, last = copied["Copy Python"].replace('Path("var")', f"Path({str(home)!r})").splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    (of_python,) = eval(last, names)
    _, _, header, url = shlex.split(copied["Copy curl"])
    given = dict([header.replace("$TIDEMARK_TOKEN", TOKEN).split(": ")])
    (of_curl,) = httpx.get(url, headers=given).json()["rows"]
    promql, time = copied["Copy PromQL"].split("  # at ")
    asked = {"query": promql, "time": time}
    (of_prometheus,) = httpx.get(f"{address}/prometheus/api/v1/query", params=asked).json()["data"]["result"]

    answers = [
        of_cli["value"],
        dict(zip(of_sql.columns, of_sql.rows[0], strict=True))["value"],
        of_python.value,
        of_curl["value"],
        float(of_prometheus["value"][1]),
    ]
    assert answers == [of_python.value] * 5


def test_lines_say_how_far_a_chart_can_be_trusted(
    browser: webdriver.Chrome, address: str, lakehouse: Lakehouse
) -> None:
    opened(browser, address, "?view=explore&stream=deep&measure=temp")
    upright = """
        const [root] = Bokeh.index.roots;
        const spans = root.model.center.filter((one) => one.type === "Span");
        return spans.map((one) => [one.dimension, Math.round(one.location * 1000)]);
    """

    legend = browser.find_element(By.CSS_SELECTOR, "#main .legend:has(.upright)").text
    spans = browser.execute_script(upright)

    (row,) = lakehouse.reader.connection.execute(
        "SELECT newest_us, newest_us - latest_us FROM streams WHERE stream = 'deep'"
    ).fetchall()
    assert spans == [["height", at] for at in row]
    assert "newest row 1970-01-01 00:00:00.002" in legend
    assert "final before" in legend and "after this chart" in legend.split("published")[1]


def test_a_dashed_line_has_a_dashed_mark_in_the_legend(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, "?view=explore&stream=deep&measure=temp&by=device&by=zone")
    marks = browser.find_elements(By.CSS_SELECTOR, ".legend button .swatch")

    def pieces(mark: Any) -> int:
        """Return of how many pieces a mark looks to be."""
        picture = Image.open(io.BytesIO(mark.screenshot_as_png)).convert("RGB")
        row = [picture.getpixel((x, picture.height // 2)) for x in range(picture.width)]
        return sum(here != row[0] and before == row[0] for before, here in pairwise([*row, None]))

    assert len(marks) > 6
    assert [pieces(marks[place]) for place in (0, 6)] == [1, 3]


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a home with a stream of 23 rooms, of which each has many readings."""
    folder = tmp_path_factory.mktemp("rooms")
    deep = STREAMS["deep"]
    rows = [replace(row, device=f"room-{place % 23:03d}") for place, row in enumerate(deep.rows * 4)]
    home = Home(folder / "home")
    publish(home, [replace(deep, name="rooms", rows=rows).write(folder / "rooms")])
    with served(home) as found:
        yield found


def test_a_chart_that_leaves_keys_out_says_so_and_has_all_of_them(
    browser: webdriver.Chrome, rooms: str
) -> None:
    opened(browser, rooms, "?view=explore&stream=rooms&measure=hits&by=device")

    assert "draws 12 of 23 values of device" in browser.find_element(By.CSS_SELECTOR, "[role=note]").text
    rows = browser.execute_script("return document.querySelector('details tbody').rows.length")
    assert rows == 23
    opened(browser, rooms, "?view=explore&stream=rooms&measure=hits&by=zone")
    assert not browser.find_elements(By.CSS_SELECTOR, "[role=note]")


def test_the_aggregate_follows_the_measure_until_another_is_chosen(
    browser: webdriver.Chrome, rooms: str
) -> None:
    chosen = []
    for measure in ("hits", "temp", "*"):
        opened(browser, rooms, f"?view=explore&stream=rooms&measure={measure}")
        chosen.append(browser.find_element(By.NAME, "agg").get_attribute("value"))

    assert chosen == ["sum", "avg", "count"]


def test_the_axis_of_a_count_has_whole_numbers_as_people_write_them(
    browser: webdriver.Chrome, rooms: str
) -> None:
    opened(browser, rooms, "?view=explore&stream=rooms&points=1")
    labels = """
        const numbers = arguments[0], done = arguments[1];
        import("/page/charts.js").then(({ ticks }) => {
            const { ticker, formatter } = ticks(numbers);
            done([ticker?.min_interval ?? 0, ...formatter.doFormat(numbers, {})]);
        });
    """

    assert browser.execute_async_script(labels, [0, 600000]) == [1, "0", "600,000"]
    assert browser.execute_async_script(labels, [49500, 49500]) == [1, "49,500", "49,500"]
    assert browser.execute_async_script(labels, [18.2, 21.5]) == [0, "18.2", "21.5"]
    assert browser.execute_async_script(labels, [-0.001, 0.0025]) == [0, "-0.001", "0.0025"]


def test_explore_says_that_newer_data_are_withheld(browser: webdriver.Chrome, tmp_path: Path) -> None:
    home = published(tmp_path, "pair")
    publish(home, [], withheld=[Withheld("pair", "totals.rejected_share is 1")])

    with served(home) as address:
        opened(browser, address, "?view=explore&stream=pair")
        answer = browser.find_element(By.CSS_SELECTOR, "[aria-label='Answer for the whole range']")
        assert "newer data of pair are withheld since" in answer.text
        assert "because totals.rejected_share is 1; answers are as of batch 3" in answer.text


def test_nearly_all_is_not_all(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, "")
    shares = "const done = arguments[0]; import('/page/dom.js').then(({ share }) => done("
    shares += "[[10227, 10228], [999999999, 1000000000], [1, 1], [0, 5], [1, 100000], [1, 3]]"
    shares += ".map((one) => share(...one))))"

    assert browser.execute_async_script(shares) == [
        "99.99 %",
        "99.99 %",
        "100.0 %",
        "0.0 %",
        "0.01 %",
        "33.3 %",
    ]


def test_a_wrong_question_is_an_error_that_says_what_there_is(
    browser: webdriver.Chrome, address: str
) -> None:
    opened(browser, address, "?view=explore&stream=deep&measure=tmp")

    assert "temp" in browser.find_element(By.CSS_SELECTOR, "[role=alert]").text
    assert browser.find_elements(By.CSS_SELECTOR, "form[aria-label=Question]")


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("?view=explore&stream=deep&from=yesterday", "expected a time"),
        ("?view=explore&stream=deep&from=2026-01-02&to=2026-01-01", "must begin before it ends"),
        ("?view=explore&stream=deep&agg=median", "agg: "),
        ("?view=explore&stream=deep&where=device", "expected KEY=VALUE"),
        ("?view=explore&stream=d%C3%A9ep&measure=%F0%9F%98%80", "no stream déep is published"),
        ("?view=changes&stream=nowhere", "no stream"),
        ("?view=queries&query=nothing", "no query nothing is published"),
        ("?view=quarantine&stream=nowhere", "no stream nowhere is published"),
        ("?view=nope", "no view nope; there are: overview, explore"),
        ("?view=toString", "no view toString"),
        (
            "?view=explore&stream=deep&measure=temp&where=device=z",
            "no row of deep has device 'z'; there are:",
        ),
    ],
)
def test_what_cannot_be_shown_is_said(browser: webdriver.Chrome, address: str, view: str, said: str) -> None:
    opened(browser, address, view)

    assert said in browser.find_element(By.CSS_SELECTOR, "[role=alert]").text


def test_a_range_of_all_times_is_drawn(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, "?view=explore&stream=deep&measure=temp&from=0001-01-02&to=9999-12-30")

    assert len(browser.find_elements(By.CSS_SELECTOR, ".chart")) == 2
    assert not browser.find_elements(By.CSS_SELECTOR, "[role=alert]")


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("?view=overview", "Nothing is published yet"),
        ("?view=overview", "No rule has been checked yet"),
        ("?view=explore", "nothing published yet"),
        ("?view=changes", "nothing published yet"),
        ("?view=queries", "nothing published yet"),
        ("?view=quarantine", "nothing published yet"),
    ],
)
def test_an_empty_home_says_so_in_each_view(
    browser: webdriver.Chrome, empty: str, view: str, said: str
) -> None:
    opened(browser, empty, view)

    assert said in browser.find_element(By.ID, "main").text


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of a home in which nothing has been published."""
    with served(Home(tmp_path_factory.mktemp("empty"))) as found:
        yield found


def test_the_parts_of_a_view_are_of_one_version(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, EXPLORE)

    asked = browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)"
    )
    named = {path for path in asked if path.endswith(".json")}
    assert {path for path in named if path.startswith("/latest/")} == {"/latest/streams.json"}
    assert {"/v/1/series.json", "/v/1/ask.json", "/v/1/arrivals.json"} <= named


# The first question to a version is put to one that is not kept, as if it had been removed since the page asked for it.
REMOVED = """
    const real = window.fetch;
    window.fetch = (path, ...rest) => {
      if (!path.startsWith("/v/")) return real(path, ...rest);
      if (!arguments[0]) window.fetch = real;
      return real(path.replace(/^.v.[0-9]+/, "/v/999"), ...rest);
    };
"""


@pytest.mark.parametrize("is_for_good", [False, True])
def test_a_version_that_goes_while_a_view_is_drawn_is_asked_for_anew_once(
    browser: webdriver.Chrome, address: str, is_for_good: bool
) -> None:
    opened(browser, address, "?view=overview")
    browser.execute_script(REMOVED, is_for_good)
    browser.find_element(By.LINK_TEXT, "Explore").click()
    wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "form[aria-label=Question]"))
    drawn(browser)

    alerts = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#main > [role=alert]")]
    assert bool(browser.find_elements(By.CSS_SELECTOR, ".answer")) is not is_for_good
    assert ["not kept" in text for text in alerts] == [True] * is_for_good


def test_a_server_that_goes_leaves_what_is_shown_and_says_so(
    browser: webdriver.Chrome, lakehouse: Lakehouse
) -> None:
    with served(lakehouse.home) as address:
        opened(browser, address, EXPLORE)
        wait_for(lambda: "version" in browser.find_element(By.ID, "version").text)

    wait_for(lambda: "not connected" in browser.find_element(By.ID, "version").text)
    assert browser.find_elements(By.CSS_SELECTOR, ".answer")
    browser.find_element(By.LINK_TEXT, "Queries").click()
    wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "#main > [role=alert]"))


def test_text_from_data_is_never_markup(browser: webdriver.Chrome, address: str) -> None:
    opened(browser, address, "?view=explore&stream=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")

    assert browser.execute_script("return document.querySelectorAll('img').length") == 0


@pytest.mark.skipif(not AXE.is_file(), reason=f"no {AXE.name} in .tools; .ci/run fetches it")
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [360, 1600])
def test_axe_finds_nothing_serious(browser: webdriver.Chrome, address: str, view: str, width: int) -> None:
    with as_wide_as(browser, width):
        opened(browser, address, VIEWS[view])
        browser.execute_script(AXE.read_text(encoding="utf-8"))

        found = browser.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
        )

    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in serious] == []
