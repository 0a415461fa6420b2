"""Rejected records over HTTP and on the page: counted and chosen by four facets, their bytes never obeyed."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from selenium import webdriver
from selenium.webdriver.common.by import By

from lakehouse.storage.layout import Home
from tests.web.conftest import client_of, published, served, wait_for
from tests.web.test_page import browser, drawn, drawn_in_a_browser, opened

__all__ = ["browser"]
EVIL = b"<img src=x onerror=alert(1)>\x1b[31m\xff"
# Batch, reason, file, line.
REJECTED = [
    (1, "malformed", "/landing/a.csv", 1),
    (1, "clock", "/landing/a.csv", 2),
    (2, "clock", "/landing/b.csv", 1),
    (3, "clock", "/landing/b.csv", 2),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with rejected records of three batches on two days."""
    found = published(tmp_path_factory.mktemp("quarantine"), "pair")
    records = [
        {
            "batch": batch,
            "reason": reason,
            "detail": "what was wrong",
            "record": EVIL,
            "source_file": file,
            "source_line": line,
            "source_item": None,
        }
        for batch, reason, file, line in REJECTED
    ]
    items = pa.field("source_item", pa.int32())
    rows = pa.Table.from_pylist(records)
    rows = rows.set_column(rows.column_names.index("source_item"), items, pa.nulls(len(records), pa.int32()))
    write_deltalake(str(found.quarantine("pair")), rows)
    days = {1: 1, 2: 1, 3: 2}
    ledger = [
        {"batch": one, "committed_at": datetime(2026, 1, day, 23, tzinfo=UTC)} for one, day in days.items()
    ]
    write_deltalake(str(found.ledger("pair")), pa.Table.from_pylist(ledger))
    return found


@pytest.mark.parametrize(
    ("chosen", "batches"),
    [
        ({}, [3, 2, 1, 1]),
        ({"reason": "clock"}, [3, 2, 1]),
        ({"source_file": "/landing/a.csv"}, [1, 1]),
        ({"batch": 2}, [2]),
        ({"day": "2026-01-01"}, [2, 1, 1]),
        ({"day": "2026-01-01", "reason": "clock", "source_file": "/landing/b.csv"}, [2]),
        ({"day": "2026-01-03"}, []),
        ({"reason": "clock' OR true --"}, []),
    ],
)
def test_facets_count_the_records_that_are_chosen(
    home: Home, chosen: dict[str, str | int], batches: list[int]
) -> None:
    with client_of(home) as client:
        records = client.get("/quarantine/pair.json", params=chosen).json()["rows"]
        facets = client.get("/quarantine/pair/facets.json", params=chosen).json()["rows"]

    assert [one["batch"] for one in records] == batches
    for facet in ("reason", "source_file", "batch", "day"):
        counts = [one["records"] for one in facets if one["facet"] == facet]
        assert sum(counts) == len(batches), facet
    for one in records:
        assert one["record"] == "<img src=x onerror=alert(1)>\\x1b[31m\\xff"


def test_a_day_that_is_none_is_refused(home: Home) -> None:
    with client_of(home) as client:
        found = client.get("/quarantine/pair.json", params={"day": "2026-01-01' OR true --"})

    assert found.status_code == 422


@pytest.mark.slow
@drawn_in_a_browser
def test_records_are_chosen_by_one_facet_after_the_other(browser: webdriver.Chrome, home: Home) -> None:
    with served(home) as address:
        complaints = opened(browser, address, "?view=quarantine&stream=pair")
        for value in ("clock", "/landing/b.csv", "2026-01-02"):
            _follow(browser, value)
        text = browser.find_element(By.ID, "main").text
        lines = browser.find_elements(By.CSS_SELECTOR, "[aria-label=Records] tbody tr")
        pictures = browser.find_elements(By.TAG_NAME, "img")
        url = browser.current_url

    assert complaints == []
    assert "Only reason clock, file /landing/b.csv, day 2026-01-02" in text
    assert "tidemark requeue 'pair' --reason 'clock'" in text
    assert len(lines) == 1 and "\\x1b[31m" in lines[0].text
    assert pictures == []
    assert "reason=clock" in url and "day=2026-01-02" in url


def _follow(browser: webdriver.Chrome, words: str) -> None:
    """Follow a link within the page, and wait until its view is drawn."""

    def shown() -> str | None:
        return browser.find_element(By.ID, "main").get_attribute("data-drawn")

    before = shown()
    browser.find_element(By.LINK_TEXT, words).click()
    wait_for(lambda: shown() != before)
    drawn(browser)
