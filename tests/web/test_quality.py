"""Verdicts of checks over HTTP and on the page, and the reports behind them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from lakehouse.spark.ddl import schema_of
from lakehouse.storage.layout import Home
from lakehouse.web.security.tokens import Scope, add_token, revoke_token
from quality.history import SCHEMA
from tests.support.reported import verdict, write
from tests.web.conftest import client_of, published, served
from tests.web.test_page import browser, drawn_in_a_browser, opened

__all__ = ["browser"]
# Whether two rules held in three runs.
RUNS = {"mended": (False, False, True), "broken": (True, True, False)}
REPORT = '<html><head><title>Report</title></head><body><a href="validations/one.html">one</a></body></html>'


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which one rule failed and holds now, and another held and fails now."""
    home = published(tmp_path_factory.mktemp("quality"), "pair")
    rows = [
        {
            **verdict("raw", rule, datetime(2026, 1, run + 1, tzinfo=UTC), stream="pair", success=success),
            "batch": run,
            "says": f"This one is {rule}.",
        }
        for rule, verdicts in RUNS.items()
        for run, success in enumerate(verdicts)
    ]
    write(home.quality, schema_of(SCHEMA), rows)
    site = home.reports / "site"
    (site / "validations").mkdir(parents=True)
    (site / "index.html").write_text(REPORT, encoding="utf-8")
    (site / "validations" / "one.html").write_text(REPORT, encoding="utf-8")
    (home.reports / "secret.html").write_text("not for the web", encoding="utf-8")
    (site / "outside.html").symlink_to(home.reports / "secret.html")
    return home


@pytest.fixture(scope="module")
def of_checked(checked: Home) -> Iterator[str]:
    with served(checked) as found:
        yield found


def test_only_the_newest_verdicts_of_each_rule_may_be_asked_for(checked: Home) -> None:
    with client_of(checked) as client:
        newest = client.get("/quality.json", params={"runs": 1}).json()["rows"]
        two = client.get("/quality.json", params={"runs": 2, "failed": True}).json()["rows"]

    assert {row["expectation"]: row["success"] for row in newest} == {"mended": True, "broken": False}
    assert sorted((row["expectation"], row["batch"]) for row in two) == [
        ("broken", 2),
        ("mended", 0),
        ("mended", 1),
    ]


def test_reports_are_shown_and_nothing_beside_them(checked: Home) -> None:
    with client_of(checked) as client:
        found = client.get("/reports/validations/one.html")
        beside = [
            client.get(f"/reports/{path}").status_code
            for path in ("../secret.html", "%2e%2e/secret.html", "outside.html", "validations", "none.html")
        ]

    assert found.text == REPORT
    assert "script-src" not in found.headers["content-security-policy"]
    assert beside == [404] * 5


def test_reports_are_for_tokens_that_see_every_stream(checked: Home) -> None:
    some = {"Authorization": f"Bearer {add_token(checked, 'some', [Scope.READ], ['pair'])}"}
    every = {"Authorization": f"Bearer {add_token(checked, 'every', [Scope.READ], None)}"}

    none = {"Authorization": ""}
    with client_of(checked) as client:
        statuses = [
            client.get("/reports/index.html", headers=given).status_code for given in (none, some, every)
        ]

    for name in ("some", "every"):
        revoke_token(checked, name)
    assert statuses == [401, 403, 200]


@drawn_in_a_browser
@pytest.mark.slow
def test_a_reader_goes_from_the_overview_to_a_day_and_prints_it(
    browser: webdriver.Chrome, of_checked: str
) -> None:
    opened(browser, of_checked, "?view=overview")
    overview = browser.find_element(By.ID, "main").text
    browser.find_element(By.LINK_TEXT, "Quality").click()
    lights = browser.find_element(By.ID, "main").text
    browser.find_element(By.LINK_TEXT, "pair").click()
    newest = browser.find_element(By.ID, "main").text
    browser.find_element(By.LINK_TEXT, "2026-01-02").click()
    of_day = browser.find_element(By.ID, "main").text

    assert "1 of 2 rules hold" in overview
    assert "This one is broken." in overview and "mended" not in overview
    assert "✕ fails" in lights
    assert newest.index("This one is broken.") < newest.index("This one is mended.")
    assert "2 of 3 runs held" in newest and "1 of 3 runs held" in newest
    assert browser.current_url.endswith("/quality/pair/2026-01-02")
    assert of_day.index("This one is mended.") < of_day.index("This one is broken.")
    assert "2 of 2 runs held" in of_day
    assert [line for line in cast(Any, browser).get_log("browser") if line["level"] == "SEVERE"] == []
    for medium, shown in (("print", False), ("screen", True)):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium})
        assert browser.find_element(By.TAG_NAME, "header").is_displayed() is shown
    browser.find_element(By.LINK_TEXT, "Data Docs").click()
    assert browser.title == "Report"
