"""Alarms of a published query over HTTP: as pages, as ALERTS, as events, and posted to somebody else's address."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from lakehouse.settings import Settings
from lakehouse.storage.control.lease import LeaseHeld, lease
from lakehouse.storage.control.store import FILE
from lakehouse.web.app import WebOptions
from lakehouse.web.events.webhooks import Webhooks
from lakehouse.web.versions import Versions
from tests.cli.pages.test_chart_page import EVIL
from tests.queries.aggregate.test_commands import published, run_by_hand
from tests.queries.answered import Alarm, declare
from tests.web.conftest import client_of, served, wait_for
from tests.web.test_page import browser, drawn_in_a_browser, opened

__all__ = ["browser"]

HALL = ("hall",)
# The third is of the second batch.
ALARMS = [
    Alarm("a", 5, group=HALL),
    Alarm("b", 5, 10, group=(EVIL,), state="cleared"),
    Alarm("c", 15, group=HALL, batch=2),
]


class Receiver(ThreadingHTTPServer):
    """An address that notes what is posted; it fails as often as ``failing`` says, and for changes in ``refused``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Noting)
        self.found: list[tuple[dict[str, str], bytes]] = []
        self.failing = 0
        self.refused: set[str] = set()
        self.asked = 0
        self.status = 500
        # What a failure says; by default the status.
        self.garbage = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/alarms"

    @property
    def identities(self) -> list[str]:
        return [headers["Tidemark-Id"] for headers, _ in self.found]


class _Noting(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fails = self.server.failing > 0
        self.server.failing -= fails
        self.server.asked += 1
        fails = fails or self.headers["Tidemark-Id"] in self.server.refused
        if not fails:
            self.server.found.append((dict(self.headers), body))
        if fails and self.server.garbage:
            self.wfile.write(self.server.garbage)
            self.close_connection = True
            return
        self.send_response(self.server.status if fails else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home whose query has two alarms, one of a group whose name would be markup if it could."""
    found = declare(tmp_path)
    published(found, run_by_hand(found, alarms=ALARMS, batches=1))
    return found


def test_alarms_are_pages_and_alerts(settings: Settings) -> None:
    with client_of(settings.layout) as client:
        queries = client.get("/latest/queries.json").json()["rows"]
        alarms = client.get("/latest/queries/busy/alarms.json").json()["rows"]
        first = client.get("/latest/queries/busy/alarm_changes.json", params={"limit": 1}).json()
        second = client.get(
            "/latest/queries/busy/alarm_changes.json", params={"limit": 1, "after": first["next"]}
        ).json()
        answers = client.get("/latest/queries/busy/answers.csv").text
        time = alarms[0]["raised_us"] / 1e6
        raised = client.get(
            "/prometheus/api/v1/query", params={"query": 'ALERTS{alertname="busy"}', "time": time}
        )
        none = client.get(
            "/prometheus/api/v1/query", params={"query": 'ALERTS{alertname="calm"}', "time": time}
        )

    assert [row["query"] for row in queries] == ["busy"]
    assert {row["alarm"] for row in alarms} == {"a", "b"}
    assert {first["rows"][0]["alarm"], second["rows"][0]["alarm"]} == {"a", "b"}
    assert (first["truncated"], second["truncated"], second["next"]) == (True, False, None)
    assert answers.startswith("tick_at,")
    assert {one["metric"]["place"] for one in raised.json()["data"]["result"]} == {"hall", EVIL}
    assert none.json()["data"]["result"] == []


@pytest.mark.slow
def test_an_alarm_that_changes_is_an_event(settings: Settings) -> None:
    found: list[dict[str, object]] = []
    with served(settings.layout) as address:

        def listen() -> None:
            with httpx.stream("GET", f"{address}/events", timeout=30) as response:
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        found.append(json.loads(line.removeprefix("data: ")))
                        if len(found) == 3:
                            return

        listening = threading.Thread(target=listen)
        listening.start()
        wait_for(lambda: found)
        published(settings, run_by_hand(settings, alarms=ALARMS))
        listening.join(timeout=20)

    assert [one["version"] for one in found] == [1, 2, 2]
    assert (found[2]["query"], found[2]["alarm"], found[2]["state"]) == ("busy", "c", "raised")


@pytest.mark.slow
def test_each_change_is_posted_signed_and_again_until_it_is_confirmed(settings: Settings) -> None:
    with receiving() as receiver:
        receiver.failing = 1
        options = WebOptions(alerts_url=receiver.url, alerts_secret="shared")
        with served(settings.layout, options):
            wait_for(lambda: len(receiver.found) == 2)
        with served(settings.layout, options):
            published(settings, run_by_hand(settings, alarms=ALARMS))
            wait_for(lambda: len(receiver.found) == 3)

    assert sorted(receiver.identities) == ["busy:a:0", "busy:b:0", "busy:c:0"]
    for headers, body in receiver.found:
        signed = f"{headers['Tidemark-Id']}.{headers['Tidemark-Time']}.".encode() + body
        signature = hmac.new(b"shared", signed, hashlib.sha256).hexdigest()
        assert abs(int(headers["Tidemark-Time"]) - time.time()) < 60
        assert headers["Tidemark-Signature"] == f"sha256={signature}"
        assert json.loads(body)["query"] == "busy"


@pytest.mark.slow
def test_an_alarm_that_is_refused_holds_up_no_other_and_is_delivered_when_it_is_taken(
    settings: Settings,
) -> None:
    with receiving() as receiver:
        receiver.refused = {"busy:a:0"}
        options = WebOptions(alerts_url=receiver.url)
        with served(settings.layout, options):
            wait_for(lambda: receiver.identities == ["busy:b:0"])
            again = [Alarm("a", 5, 20, group=HALL, state="cleared", change=1, batch=2), *ALARMS]
            published(settings, run_by_hand(settings, alarms=again))
            wait_for(lambda: len(receiver.found) == 2)
        refused_once = receiver.asked
        # Another server knows what the last one set aside.
        with served(settings.layout, options):
            wait_for(lambda: receiver.asked > refused_once)
            receiver.refused = set()
            wait_for(lambda: len(receiver.found) == 4)

    assert receiver.identities == ["busy:b:0", "busy:c:0", "busy:a:0", "busy:a:1"]


def test_an_alarm_that_is_always_refused_is_posted_again_after_longer_and_longer_pauses(
    settings: Settings,
) -> None:
    now = [0.0]
    versions = Versions(settings.layout)
    posted = []
    with receiving() as receiver:
        receiver.refused = {"busy:a:0"}
        hooks = Webhooks(settings.layout, versions, receiver.url, "", lambda: now[0])
        for second in range(2_000):
            now[0], before = float(second), receiver.asked
            hooks.deliver_new()
            if receiver.asked > before:
                posted.append(second)
    versions.close()

    assert receiver.identities == ["busy:b:0"]
    assert posted == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1623]


@pytest.mark.parametrize("status", [429, 503])
def test_an_address_that_asks_to_be_left_alone_is_asked_once_and_nothing_is_set_aside(
    settings: Settings, status: int
) -> None:
    versions = Versions(settings.layout)
    with receiving() as receiver:
        receiver.refused, receiver.status = {"busy:a:0", "busy:b:0"}, status
        hooks = Webhooks(settings.layout, versions, receiver.url, "")
        with pytest.raises(HTTPError):
            hooks.deliver_new()
        asked = receiver.asked
        receiver.refused = set()
        hooks.deliver_new()
    versions.close()

    assert asked == 1
    assert receiver.identities == ["busy:a:0", "busy:b:0"]


@pytest.mark.slow
def test_an_answer_that_is_no_http_ends_no_delivery(settings: Settings) -> None:
    with receiving() as receiver:
        receiver.failing, receiver.garbage = 1, b"no HTTP at all\r\n\r\n"
        with served(settings.layout, WebOptions(alerts_url=receiver.url)):
            wait_for(lambda: len(receiver.found) == 2)

    assert sorted(receiver.identities) == ["busy:a:0", "busy:b:0"]


@pytest.mark.slow
def test_a_server_that_ends_between_delivery_and_note_posts_again_and_loses_nothing(
    settings: Settings,
) -> None:
    versions = Versions(settings.layout)
    with receiving() as receiver:
        Webhooks(settings.layout, versions, receiver.url, "").deliver_new()
        (settings.layout.root / FILE).unlink()
        Webhooks(settings.layout, versions, receiver.url, "").deliver_new()
        Webhooks(settings.layout, versions, receiver.url, "").deliver_new()
    versions.close()

    assert sorted(receiver.identities) == ["busy:a:0", "busy:a:0", "busy:b:0", "busy:b:0"]
    assert not any("Tidemark-Signature" in headers for headers, _ in receiver.found)


@pytest.mark.slow
def test_while_another_process_delivers_this_one_looks_on_and_finds_it_done(settings: Settings) -> None:
    versions = Versions(settings.layout)
    with receiving() as receiver:
        hooks = [Webhooks(settings.layout, versions, receiver.url, "") for _ in range(2)]
        with lease(settings.layout, settings.layout.delivered_alarms), pytest.raises(LeaseHeld):
            hooks[0].deliver_new()
        for each in hooks:
            each.deliver_new()
    versions.close()

    assert sorted(receiver.identities) == ["busy:a:0", "busy:b:0"]


def test_what_each_batch_did_is_a_row_and_a_query_without_conditions_has_no_operators(
    settings: Settings,
) -> None:
    with client_of(settings.layout) as client:
        batches = client.get("/queries/busy/batches.json").json()
        operators = client.get("/queries/busy/operators.json")
        elsewhere = client.get("/queries/../batches.json")

    assert [row["batch"] for row in batches["rows"]] == [1]
    assert {"rows", "held", "bytes", "answered"} <= set(batches["columns"])
    assert operators.json()["rows"] == []
    assert elsewhere.status_code == 404


@pytest.mark.slow
@drawn_in_a_browser
def test_alarms_are_drawn_as_lanes_and_a_group_is_never_markup(
    settings: Settings, browser: webdriver.Chrome
) -> None:
    with served(settings.layout) as address:
        complaints = opened(browser, address, "?view=queries&query=busy")
        lanes = browser.find_elements(By.CSS_SELECTOR, ".lane button")
        lanes[0].click()
        said = browser.find_element(By.CSS_SELECTOR, "p[role=status]").text
        text = browser.find_element(By.ID, "main").text
        title = browser.title

    assert complaints == []
    assert len(lanes) == 2 and "changed 0 times" in said
    assert EVIL in text
    assert title == "Queries · Tidemark"
