from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.html_chart import page
from tests.cli.test_terminal_chart import series

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
    found = Tags(page(series((1.0, 0.0, 2.0), stream=EVIL, device=EVIL))).found

    assert sum(tag == "script" for tag, _ in found) == 2
    assert not [tag for tag, _ in found if tag == "img"]


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page(series((1.0, 0.0, 2.0)))

    assert not [a for _, a in Tags(text).found if {"src", "href"} & set(a)]
    assert not re.search(r"https?://|url\(|@import", text)


def test_the_page_holds_every_bucket_and_draws_band_and_line_in_runs() -> None:
    text = page(series((1.0, 0.0, 2.0), (None, None, None), (2.0, 2.0, 2.0), (None, 1.0, None)))

    data = json.loads(re.findall(r'id="series">(.*?)</script>', text, re.S)[0])
    assert [bucket["value"] for bucket in data["buckets"]] == [1.0, None, 2.0, None]
    assert (text.count('class="band"'), text.count('class="line"')) == (2, 2)


@pytest.mark.skipif(BROWSER is None, reason="no chromium here to open the page with")
def test_a_browser_shows_the_band_and_what_is_pointed_at_without_errors(tmp_path: Path) -> None:
    shown = page(series(*[(float(i), i - 1.0, i + 2.0) for i in range(30)], stream=EVIL))
    probe = """<script>
        const faults = []; addEventListener("error", (event) => faults.push(event.message));
        addEventListener("load", () => {
            const svg = document.querySelector("svg"), box = svg.getBoundingClientRect();
            const middle = {clientX: box.left + box.width / 2, clientY: box.top + 50};
            svg.dispatchEvent(new PointerEvent("pointermove", middle));
            const band = document.querySelector(".band").getBoundingClientRect();
            document.body.dataset.seen = JSON.stringify({faults, width: band.width / box.width, height: band.height,
                fill: getComputedStyle(document.querySelector(".band")).fillOpacity,
                tip: document.getElementById("tip").textContent, title: document.title});
        });
    </script>"""
    (tmp_path / "chart.html").write_text(shown.replace("<head>", f"<head>{probe}"), encoding="utf-8")

    seen = in_browser(tmp_path)

    assert seen["faults"] == []
    assert seen["title"].startswith("avg(temp) of </script>")
    assert seen["width"] > 0.8 and seen["height"] > 100 and 0 < float(seen["fill"]) < 1
    assert "value  14\ninterval  [13, 16]\nrows  5" in seen["tip"]


def in_browser(folder: Path) -> dict[str, Any]:
    from html import unescape

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
