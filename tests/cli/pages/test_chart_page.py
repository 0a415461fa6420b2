from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.pages.chart_page import chart, chart_page, policy
from lakehouse.cli.pages.picture import Picture, picture_of
from lakehouse.web.assets import chart_script
from tests.cli.pages.test_picture import by_device, series

EVIL = "</script><script>document.title='stolen'</script><img src=x onerror=alert(1)>"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium here to open the page with")


class Tags(HTMLParser):
    """What a browser would make of a page: its tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def page(picture: Picture) -> str:
    return chart_page(picture.title, [picture.subtitle], [chart("series", **picture.facts)])


def charts_of(text: str) -> list[dict[str, Any]]:
    """The charts of a page, with their numbers."""
    found: list[dict[str, Any]] = json.loads(re.findall(r'id="charts">(.*?)</script>', text, re.S)[0])
    return found


def is_harmless(text: str) -> bool:
    """Whether a page has its own three scripts, no picture, and nothing that it would load."""
    found = Tags(text).found
    loads = [attributes for _, attributes in found if {"src", "href"} & set(attributes)]
    return sum(tag == "script" for tag, _ in found) == 3 and not loads and "img" not in dict(found)


def test_names_from_the_stream_and_values_of_keys_stay_text() -> None:
    assert is_harmless(page(picture_of([series((1.0, 0.0, 2.0), stream=EVIL, device=EVIL)])))
    assert is_harmless(page(picture_of(by_device(EVIL, "b"))))


def test_a_page_may_load_and_send_nothing_and_run_its_own_scripts_alone() -> None:
    text = page(picture_of([series((1.0, 0.0, 2.0))]))

    (said,) = [a["content"] for _, a in Tags(text).found if a.get("http-equiv") == "Content-Security-Policy"]
    scripts = re.findall(r"<script(?: type=\"module\")?>(.*?)</script>", text, re.S)
    assert len(scripts) == 2 and said == policy(*scripts)
    of_scripts = next(part for part in said.split("; ") if part.startswith("script-src"))
    assert said.startswith("default-src 'none'") and "http" not in said
    assert "unsafe" not in of_scripts and of_scripts.count("'sha256-") == 2


def test_its_script_imports_nothing() -> None:
    assert not re.search(r"^(import|export)\b", chart_script(), re.MULTILINE)


def test_the_page_holds_every_bucket_of_every_key() -> None:
    sides = ((1.0, 0.0, 2.0), (None, None, None), (2.0, 2.0, 2.0), (None, 1.0, None))
    (one,) = charts_of(page(picture_of([series(*sides)])))
    (several,) = charts_of(page(picture_of(by_device("a", None))))

    assert [row["value"] for row in one["rows"]] == [1.0, None, 2.0, None]
    assert [row["from_us"] for row in one["rows"]] == [60_000_000 * i for i in range(4)]
    assert {row["key"]["device"] for row in several["rows"]} == {"a", None}


@pytest.mark.slow
@in_a_browser
def test_a_browser_draws_the_chart_and_tells_of_what_is_pointed_at(tmp_path: Path) -> None:
    shown = page(picture_of([series(*[(float(i), i - 1.0, i + 2.0) for i in range(30)], stream=EVIL)]))

    seen = opened(tmp_path, shown, "point(charts[0], 0.5); see({tip: tip(0), rows: rows(0)});")

    assert (seen["faults"], seen["forbidden"], seen["drawn"]) == ([], [], [True])
    assert seen["title"].startswith("avg(temp) of </script>")
    assert "14 [13, 16] bounded, 5 rows" in seen["tip"]
    assert seen["rows"] == 30


@pytest.mark.slow
@in_a_browser
def test_a_browser_runs_no_script_that_was_put_into_the_page(tmp_path: Path) -> None:
    shown = page(picture_of([series(*[(float(i), float(i), float(i)) for i in range(3)])]))
    foreign = "<script src='https://example.org/a.js'></script><script src='data:text/javascript,stolen()'></script>"
    parts = EVIL.removeprefix("</script>") + foreign

    seen = opened(tmp_path, shown.replace('<div id="sheet">', f'{parts}<div id="sheet">'), "see({});")

    assert (seen["title"], seen["drawn"]) == ("avg(temp) of s, per 1m", [True])
    assert sorted(seen["forbidden"]) == ["img-src", "script-src-attr", *["script-src-elem"] * 3]


@pytest.mark.slow
@in_a_browser
def test_the_arrow_keys_tell_of_each_column(tmp_path: Path) -> None:
    shown = page(picture_of([series(*[(float(i), float(i), float(i)) for i in range(3)])]))
    probe = "press('ArrowLeft'); const last = tip(0); press('Home'); press('ArrowRight'); see({last, second: tip(0)});"

    seen = opened(tmp_path, shown, probe)

    assert seen["faults"] == []
    assert "2 [2, 2] exact" in seen["last"] and "1 [1, 1] exact" in seen["second"]


@pytest.mark.slow
@in_a_browser
def test_the_legend_shows_and_hides_keys(tmp_path: Path) -> None:
    probe = """
        const button = document.querySelectorAll(".legend button")[1];
        const look = () => { point(charts[0], 0.5); return tip(0); };
        const all = look(); button.click(); const fewer = look(), pressed = button.ariaPressed;
        button.click(); see({all, fewer, pressed, again: look()});
    """

    seen = opened(tmp_path, page(picture_of(by_device(EVIL, "second", None))), probe)

    assert seen["faults"] == seen["forbidden"] == []
    assert f"{EVIL}: 0 [-1, 1]" in seen["all"] and "second: 10 [9, 11]" in seen["all"]
    assert "second" not in seen["fewer"] and ": 20 [19, 21]" in seen["fewer"]
    assert (seen["pressed"], seen["again"]) == ("false", seen["all"])


def opened(folder: Path, text: str, probe: str) -> dict[str, Any]:
    """Open a page, run a probe once its charts are drawn, and return what that has seen, every error and the title."""
    script = """<script>
        const faults = []; addEventListener("error", (event) => faults.push(event.message));
        const forbidden = [];
        addEventListener("securitypolicyviolation", (event) => forbidden.push(event.effectiveDirective));
        const charts = document.getElementsByClassName("chart");
        const point = (chart, share) => {
            const box = chart.getBoundingClientRect();
            const at = {clientX: box.left + share * box.width, clientY: box.top + 50};
            chart.dispatchEvent(new PointerEvent("pointermove", at));
        };
        const press = (key) => charts[0].dispatchEvent(new KeyboardEvent("keydown", {key}));
        const tip = (place) => charts[place].querySelector(".tip").innerText;
        const rows = (place) => charts[place].parentElement.querySelectorAll("tbody tr").length;
        const isDrawn = (chart) => chart.querySelector(".tip") !== null && chart.firstElementChild.shadowRoot !== null;
        const see = (seen) => {
            const drawn = [...charts].map((chart) => chart.firstElementChild.getBoundingClientRect().width > 300);
            document.body.dataset.seen = JSON.stringify({faults, forbidden, drawn, title: document.title, ...seen});
        };
        addEventListener("load", () => {
            const waiting = setInterval(() => {
                if (![...charts].every(isDrawn)) return;
                clearInterval(waiting);
                PROBE
            }, 20);
        });
    </script>""".replace("PROBE", probe)
    # The policy holds from where it stands on; the probe is put before it.
    (folder / "chart.html").write_text(text.replace("<head>", f"<head>{script}"), encoding="utf-8")
    quiet = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --virtual-time-budget=20000 --dump-dom"
    )
    command = [
        *(str(BROWSER), *quiet.split()),
        *(f"--user-data-dir={folder}/profile", f"file://{folder}/chart.html"),
    ]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found: dict[str, Any] = json.loads(unescape(re.findall(r'data-seen="(.*?)"', dumped)[0]))
    return found
