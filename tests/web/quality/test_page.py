"""Pages of reports: nothing from data is markup, nothing is loaded from elsewhere, file and server show the same."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from lakehouse.serving.quality.report import Asked
from lakehouse.serving.table_reader import connected
from lakehouse.storage.layout import Home
from lakehouse.web.quality.page import Page, daily, trend
from lakehouse.web.security.tokens import Scope, add_token, revoke_token
from tests.support.reported import HOSTILE, reported
from tests.web.conftest import client_of


class Tags(HTMLParser):
    """The tags of a page, the addresses that they load, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.loads, self.text = set[str](), list[str | None](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [
            value for name, value in attrs if name in ("src", "data") or (tag, name) == ("link", "href")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return reported(tmp_path_factory.mktemp("reported"))


@pytest.fixture(scope="module")
def file(home: Home) -> str:
    with connected(home.tables) as connection:
        asked = Asked(home, connection)
        return Page(is_file=True).overview("Quality", [asked.report(name) for name in asked.subjects()])


def test_what_data_say_is_text_and_nothing_is_loaded(file: str) -> None:
    page = Tags(file)

    assert "script" not in page.tags
    assert page.loads == []
    assert page.text.count(HOSTILE) >= 4
    assert "url(" not in file and "@import" not in file
    assert "default-src 'none'" in file


def test_a_light_is_a_word_and_every_rule_a_sentence(file: str) -> None:
    text = re.sub(r"\s+", " ", Tags(file).text)

    for words in (
        "✕ fails",
        "▲ warns",
        "● holds",
        "Rooms are warm",
        "worst sources: device",
        "10 of 30 runs held",
    ):
        assert words in text, words
    assert "Of 15 records that came in so far, 11 were accepted" in text
    assert file.count("<svg") == 5


def test_rules_of_the_platform_stand_behind_a_line_while_all_of_them_hold() -> None:
    run = {"at_us": 0, "value": 0.0, "state": "holds"}
    holds = {
        **{"rule": "ledger.repeats", "says": "Each batch has one row.", "state": "holds", "is_own": False},
        **{"seen": "", "since_us": 0, "worst": {}, "runs": [run], "checked_us": 0},
    }
    report = {
        **{"stream": "query-q", "day": "2026-01-01", "days": [], "state": "holds", "checked_us": None},
        **{"withheld": None, "notified": "", "rules": [holds]},
    }

    all_hold, one_fails = (
        Page(is_file=True).stream(report | {"rules": [holds | {"state": state}]})
        for state in ("holds", "fails")
    )

    assert "<summary>The only rule holds: what came in" in all_hold
    assert "<details>" not in one_fails and "Each batch has one row." in one_fails


def test_a_page_over_http_has_the_sections_of_the_file(home: Home, file: str) -> None:
    with client_of(home) as client:
        of_day = client.get("/quality/rooms/2026-01-01")
        newest, overview = client.get("/quality/rooms").text, client.get("/quality").text

    (section,) = re.findall(r'<section><h2 id="rooms">.*?</section>', file)
    assert section.replace("h2", "h1").replace("h3", "h2") in newest
    assert 'href="/quality/rooms"' in overview and "query-pairs" in overview
    assert "script-src" not in of_day.headers["content-security-policy"]
    assert "rooms on 2026-01-01" in of_day.text and 'aria-current="page">Quality' in of_day.text
    assert 'href="/quality/rooms/2026-01-02"' in of_day.text


def test_a_token_for_some_streams_sees_their_reports_alone(home: Home) -> None:
    some = {"Authorization": f"Bearer {add_token(home, 'some', [Scope.READ], ['rooms'])}"}
    with client_of(home) as client:
        overview = client.get("/quality", headers=some).text
        statuses = [
            client.get(f"/quality/{name}", headers=some).status_code for name in ("rooms", "query-pairs")
        ]
        unknown = client.get("/quality/none").status_code
    revoke_token(home, "some")

    assert "rooms" in overview and "query-pairs" not in overview
    assert statuses == [200, 403]
    assert unknown == 404


def test_a_trend_says_how_many_runs_held_and_is_higher_where_more_was_broken() -> None:
    runs = [{"at_us": 0, "state": "holds", "value": None}, {"at_us": 1, "state": "fails", "value": 0.5}]
    runs.append({"at_us": 2, "state": "fails", "value": 1.0})

    drawn = trend(runs)

    assert 'aria-label="1 of 3 runs held"' in drawn
    assert re.findall(r' height="([\d.]+)"><title', drawn) == ["4.0", "15.0", "26.0"]


def test_a_daily_figure_skips_days_without_it() -> None:
    drawn = daily(["2026-01-01", "2026-01-02", "2026-01-03"], [1.0, None, 2.0], "mean of <b>")

    assert (drawn.count("<circle"), drawn.count("<line")) == (2, 0)
    assert "mean of &lt;b&gt;: 1 to 2" in drawn
    assert daily(["2026-01-01"], [None], "mean") == ""
