"""Pictures of the page in docs/pictures, of the home of ``make demo``.

Usage, beside ``tidemark web``: ``python -m tests.web.pictures ADDRESS [NAME...]``. ADDRESS is the one that it prints,
and NAME a picture of ``VIEWS``, each without one. That of quality is of a home whose telemetry has rules of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.web.test_page import drawn, started_browser

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH = 1200
# Name, address, colours, and how much of the page is shown.
VIEWS = (
    ("quality", "/quality/telemetry", "light", 1180),
    ("explore", "/page/?view=explore&stream=telemetry&measure=temp", "light", 1320),
    ("query", "/page/?view=queries&query=warmer_neighbours", "dark", 1160),
    ("alarms", "/page/?view=queries&query=warm_and_dry", "light", 960),
)


def main() -> None:
    """Take every picture."""
    browser: Any = started_browser()
    browser.get(sys.argv[1])
    address = sys.argv[1].partition("/?")[0]
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    try:
        for name, view, colours, height in (view for view in VIEWS if view[0] in (sys.argv[2:] or view[0])):
            size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
            scheme = [{"name": "prefers-color-scheme", "value": colours}]
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            browser.get(f"{address}{view}")
            if view.startswith("/page/"):
                drawn(browser)
            # Charts are in the page before the library has painted them.
            browser.execute_async_script("setTimeout(arguments[0], 1500)")
            browser.save_screenshot(str(PICTURES / f"{name}.png"))
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
