"""Rules that hold no longer, and again, are posted once each; a home that was never published is no exception."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from lakehouse.serving.quality.report import Asked
from lakehouse.serving.table_reader import connected
from lakehouse.spark.ddl import schema_of
from lakehouse.storage.layout import Home
from lakehouse.web.events.webhooks import Webhooks
from lakehouse.web.versions import Versions
from quality.history import SCHEMA
from tests.support.reported import NOON, NOON_US, verdict, write
from tests.web.test_alarms import Receiver, receiving

HOUR_US = 3_600_000_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def check(home: Home, hour: int, table: str = "raw", **held: bool) -> None:
    """Add a run over a table to the history: whether each of its rules held."""
    at = NOON + timedelta(hours=hour)
    write(
        home.quality, schema_of(SCHEMA), [verdict(table, rule, at, success=one) for rule, one in held.items()]
    )


def posted(receiver: Receiver) -> list[tuple[str, str, int]]:
    bodies = [json.loads(body) for _, body in receiver.found]
    return [(one["rule"], one["state"], (one["at_us"] - NOON_US) // HOUR_US) for one in bodies]


def test_each_failure_is_posted_once_and_once_when_it_ends(home: Home) -> None:
    with receiving() as receiver:
        hooks = Webhooks(home, Versions(home), receiver.url, "")
        check(home, 0, gap=False, origin=True)
        hooks.deliver_new()
        first = posted(receiver)
        check(home, 1, gap=False, origin=True)
        check(home, 2, gap=True, origin=False)
        check(home, 3, gap=True, origin=True)
        check(home, 3, "warnings", temp=False)
        hooks.deliver_new()
        # Another server of the home goes on where this one was.
        check(home, 4, gap=True, origin=True)
        Webhooks(home, Versions(home), receiver.url, "").deliver_new()

    assert first == [("raw.gap", "fails", 0)]
    assert posted(receiver)[1:] == [
        ("raw.origin", "fails", 2),
        ("raw.gap", "holds", 2),
        ("raw.origin", "holds", 3),
        ("warnings.temp", "warns", 3),
    ]
    assert len(set(receiver.identities)) == 5
    assert receiver.identities[0] == f"rules:rooms:raw.gap:{NOON_US}"


def test_a_rule_that_is_declared_no_longer_ends_and_old_failures_are_nobodys_news(home: Home) -> None:
    check(home, 0, "rules", old=False)
    check(home, 1, "rules", old=True, broken=False)
    with receiving() as receiver:
        Webhooks(home, Versions(home), receiver.url, "").deliver_new()
        check(home, 2, "rules", old=True)
        Webhooks(home, Versions(home), receiver.url, "").deliver_new()

    assert posted(receiver) == [("rules.broken", "fails", 1), ("rules.broken", "holds", 2)]


def test_a_refused_post_holds_up_its_own_rule_and_the_report_says_so(home: Home) -> None:
    with receiving() as receiver, connected(home.tables) as connection:
        receiver.refused = {f"rules:rooms:raw.gap:{NOON_US}"}
        check(home, 0, gap=False, origin=False)
        hooks = Webhooks(home, Versions(home), receiver.url, "", lambda: 0.0)
        hooks.deliver_new()
        check(home, 1, gap=True, origin=True)
        hooks.deliver_new()
        notified = Asked(home, connection, receiver.url).report("rooms")["notified"]
        receiver.refused = set()
        Webhooks(home, Versions(home), receiver.url, "").deliver_new()

    assert [rule for rule, _, _ in posted(receiver)] == ["raw.origin", "raw.origin", "raw.gap", "raw.gap"]
    assert notified == (
        "127.0.0.1 was notified of every change up to 2026-01-01 13:00:00 UTC; 2 posts were refused and are repeated."
    )
