"""Verdicts of checks over HTTP and on the page, and the reports behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from selenium import webdriver
from selenium.webdriver.common.by import By

from lakehouse.storage.layout import Home
from lakehouse.web.security.tokens import Scope, add_token, revoke_token
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
            "run_id": f"pair-{run}",
            "stream": "pair",
            "batch": run,
            "table": "raw",
            "expectation": rule,
            "success": success,
            "observed": float(not success),
            "expected": "at most 0",
            "at": f"2026-01-0{run + 1}T00:00:00+00:00",
        }
        for rule, verdicts in RUNS.items()
        for run, success in enumerate(verdicts)
    ]
    write_deltalake(str(home.quality), pa.Table.from_pylist(rows))
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
def test_a_rule_that_holds_again_is_no_news(browser: webdriver.Chrome, of_checked: str) -> None:
    opened(browser, of_checked, "?view=overview")
    overview = browser.find_element(By.ID, "main").text
    opened(browser, of_checked, "?view=quality")
    runs = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "tbody tr")]
    browser.find_element(By.PARTIAL_LINK_TEXT, "Data Docs").click()

    assert "1 of 2 rules hold" in overview
    assert "broken" in overview and "mended" not in overview
    assert [line.split()[2:4] + line.split()[-2:-1] for line in sorted(runs)] == [
        ["broken", "no", "✕●●"],
        ["mended", "yes", "●✕✕"],
    ]
    assert browser.title == "Report"
