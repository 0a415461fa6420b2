from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.charts.html_chart import page
from lakehouse.cli.charts.picture import picture_of
from tests.cli.charts.test_terminal_chart import by_device, series

EVIL = "</script><script>document.title='stolen'</script><img src=x onerror=alert(1)>"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Tags(HTMLParser):
    """What a browser would make of a page: its tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_names_from_the_stream_stay_text() -> None:
    found = Tags(page(picture_of([series((1.0, 0.0, 2.0), stream=EVIL, device=EVIL)]))).found

    assert sum(tag == "script" for tag, _ in found) == 2
    assert not [tag for tag, _ in found if tag == "img"]


def test_values_of_keys_stay_text() -> None:
    found = Tags(page(picture_of(by_device(EVIL, "b")))).found

    assert sum(tag == "script" for tag, _ in found) == 2
    assert not [tag for tag, _ in found if tag == "img"]
    assert not [a for _, a in found if {"src", "href"} & set(a)]


def test_each_key_has_a_line_a_band_and_a_button_of_one_colour() -> None:
    found = Tags(page(picture_of(by_device(*map(str, range(12)))))).found

    groups = [a["class"] for tag, a in found if tag == "g"]
    buttons = [a["class"] for tag, a in found if tag == "button"]
    assert groups == [f"series {name}" for name in buttons] == [f"series of{i}" for i in range(12)]
    assert [sum(a.get("class") == kind for _, a in found) for kind in ("band", "line")] == [12, 12]


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page(picture_of([series((1.0, 0.0, 2.0))]))

    assert not [a for _, a in Tags(text).found if {"src", "href"} & set(a)]
    assert not re.search(r"https?://|url\(|@import", text)


def test_the_page_holds_every_bucket_and_draws_band_and_line_in_runs() -> None:
    sides = ((1.0, 0.0, 2.0), (None, None, None), (2.0, 2.0, 2.0), (None, 1.0, None))
    text = page(picture_of([series(*sides)]))

    data = json.loads(re.findall(r'id="series">(.*?)</script>', text, re.S)[0])
    (one,) = data["series"]
    assert [bucket["value"] for bucket in one["buckets"]] == [1.0, None, 2.0, None]
    assert [start for start, _ in data["times"]] == [f"1970-01-01 00:0{i}" for i in range(4)]
    assert (text.count('class="band"'), text.count('class="line"')) == (2, 2)


@pytest.mark.skipif(BROWSER is None, reason="no chromium here to open the page with")
def test_a_browser_shows_the_band_and_what_is_pointed_at_without_errors(tmp_path: Path) -> None:
    shown = page(picture_of([series(*[(float(i), i - 1.0, i + 2.0) for i in range(30)], stream=EVIL)]))
    probe = """
        point();
        const band = document.querySelector(".band").getBoundingClientRect();
        see({width: band.width / box.width, height: band.height,
            fill: getComputedStyle(document.querySelector(".band")).fillOpacity, tip: tip(), title: document.title});
    """

    seen = in_browser(tmp_path, shown, probe)

    assert seen["faults"] == []
    assert seen["title"].startswith("avg(temp) of </script>")
    assert seen["width"] > 0.8 and seen["height"] > 100 and 0 < float(seen["fill"]) < 1
    assert "value  14\ninterval  [13, 16]\nrows  5" in seen["tip"]


@pytest.mark.skipif(BROWSER is None, reason="no chromium here to open the page with")
def test_a_browsers_legend_shows_and_hides_keys(tmp_path: Path) -> None:
    probe = """
        const look = () => [...document.querySelectorAll("g.series")].map((group) => [
            group.querySelector(".band").getBoundingClientRect().height > 0,
            getComputedStyle(group.querySelector(".line")).stroke,
        ]);
        const button = document.querySelectorAll(".key button")[1];
        point(); const before = look(), all = tip();
        button.click(); point(); const hidden = look(), fewer = tip(), pressed = button.ariaPressed;
        button.click(); point();
        see({before, all, hidden, fewer, pressed, after: look(), again: tip()});
    """

    seen = in_browser(tmp_path, page(picture_of(by_device(EVIL, "second", None))), probe)

    assert seen["faults"] == []
    assert [shown for shown, _ in seen["before"]] == [True, True, True]
    assert len({colour for _, colour in seen["before"]}) == 3
    assert ([shown for shown, _ in seen["hidden"]], seen["pressed"]) == ([True, False, True], "false")
    assert f"{EVIL}  0  [-1, 1]second  10  [9, 11]-  20  [19, 21]" in seen["all"]
    assert "second" not in seen["fewer"] and "-  20  [19, 21]" in seen["fewer"]
    assert (seen["after"], seen["again"]) == (seen["before"], seen["all"])


def in_browser(folder: Path, shown: str, probe: str) -> dict[str, Any]:
    """Open a page, run a probe once it is loaded, and return what it has seen and every error."""
    script = """<script>
        const faults = []; addEventListener("error", (event) => faults.push(event.message));
        addEventListener("load", () => {
            const svg = document.querySelector("svg"), box = svg.getBoundingClientRect();
            const middle = {clientX: box.left + box.width / 2, clientY: box.top + 50};
            const point = () => svg.dispatchEvent(new PointerEvent("pointermove", middle));
            const tip = () => document.getElementById("tip").textContent;
            const see = (seen) => { document.body.dataset.seen = JSON.stringify({faults, ...seen}); };
            PROBE
        });
    </script>""".replace("PROBE", probe)
    return opened(folder, shown.replace("<head>", f"<head>{script}"))


def opened(folder: Path, page: str) -> dict[str, Any]:
    """Open a page in a browser and return what its own script has seen."""
    from html import unescape

    (folder / "chart.html").write_text(page, encoding="utf-8")
    quiet = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --dump-dom"
    )
    command = [
        str(BROWSER),
        *quiet.split(),
        f"--user-data-dir={folder}/profile",
        f"file://{folder}/chart.html",
    ]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found: dict[str, Any] = json.loads(unescape(re.findall(r'data-seen="(.*?)"', dumped)[0]))
    return found
