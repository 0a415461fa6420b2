"""Alarms and rules to somebody else's address: one POST for each change of them, at least once.

An alarm is raised, changed or withdrawn; a rule of quality holds no longer, or again.

What has been delivered stands in the home's control store, so a server that starts again goes on where it was; a
change whose delivery nobody confirmed is sent again. Receivers tell repeats by ``Tidemark-Id``, which is the same each
time, and senders by ``Tidemark-Signature``: the HMAC-SHA-256, under the secret, of that identity, ``Tidemark-Time`` and
the body, so nobody else can send an old post under another identity. One process of a home delivers at a time, by a
lease, and others find it done.

An alarm that the address refuses holds up its own later changes and no other alarm: it is set aside in the control
store and posted again after pauses that grow. Where the address cannot be reached, or asks to be left alone, nothing is
set aside and everything waits.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Hashable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError

import duckdb

from lakehouse.serving.quality.changes import RULES, changes_between, newest_runs
from lakehouse.serving.table_reader import connected
from lakehouse.serving.versions.versions import NotPublished, VersionGone
from lakehouse.storage.control.lease import LeaseHeld, lease
from lakehouse.storage.control.move_in import move_in
from lakehouse.storage.control.store import Store, store_of
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.newest_commits import Commits
from lakehouse.web.events.alarm_changes import NOTHING, Told, changes_after, newest_told, queries_with_alarms
from lakehouse.web.events.posting import post, signed
from lakehouse.web.versions import Versions

log = logging.getLogger(__name__)
LOOK_S, TIMEOUT_S = 1.0, 10.0
# How long to wait after a delivery that failed, longer each time.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
# How long an alarm that was refused waits at most, and how long those that waited are posted before new ones are.
LONGEST_ASIDE_S, AGAIN_S = 600.0, 20.0
# What an address says of itself and not of an alarm.
_NOT_NOW = (429, 502, 503, 504)
_DELIVERED = "SELECT query, batch, repair FROM tidemark_delivered WHERE home = :home"
_KEEP = (
    "INSERT INTO tidemark_delivered VALUES (:home, :query, :batch, :repair) "
    "ON CONFLICT (home, query) DO UPDATE SET batch = excluded.batch, repair = excluded.repair"
)
_ASIDE = (
    "SELECT query, alarm, change, body FROM tidemark_refused WHERE home = :home ORDER BY query, alarm, change"
)
_SET_ASIDE = (
    "INSERT INTO tidemark_refused VALUES (:home, :query, :alarm, :change, :body) ON CONFLICT DO NOTHING"
)
_TAKEN = "DELETE FROM tidemark_refused WHERE home = :home AND query = :query AND alarm = :alarm AND change = :change"
# A query, and one of its alarms; or what stands for the rules of a stream, and one of them.
Alarm = tuple[str, str]


class Webhooks:
    """Delivers changes of alarms and rules of a home to one address; ``deliver`` runs as one task, until cancelled."""

    def __init__(
        self,
        layout: Home,
        versions: Versions,
        url: str,
        secret: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout, self._versions, self._url, self._secret = layout, versions, url, secret.encode()
        self._checked, self._clock = Commits(layout.quality), clock
        self._seen: tuple[int | None, Hashable] | None = None
        # How long each alarm that was refused waits now, and until when by the monotonic clock.
        self._pauses: dict[Alarm, tuple[float, float]] = {}

    async def deliver(self) -> None:
        """Deliver what comes, waiting longer after each failure."""
        wait_s = LOOK_S
        while True:
            try:
                await asyncio.to_thread(self.deliver_new)
                wait_s = LOOK_S
            except (NotPublished, VersionGone, LeaseHeld):
                pass
            # Whatever it was, of the address or of the home: an alarm that nobody hears of is worse.
            except Exception as error:
                wait_s = min(max(FIRST_WAIT_S, 2 * wait_s), LONGEST_WAIT_S)
                log.warning("an alarm could not be delivered, again in %g s: %r", wait_s, error)
            await asyncio.sleep(wait_s)

    def deliver_new(self) -> None:
        """Deliver every change that nobody confirmed yet, those of one alarm in order; set aside what is refused.

        Raises LeaseHeld when another process delivers now; Exception when the address cannot be reached, or asks to
        be left alone.
        """
        now = self._published(), self._checked()
        if now == self._seen and not any(map(self._is_due, self._pauses)):
            return
        move_in(self._layout)
        with lease(self._layout, self._layout.delivered_alarms):
            store = store_of(self._layout)
            aside = self._post_again(store)
            delivered = {query: (batch, repair) for query, batch, repair in store.rows(_DELIVERED)}
            # A check that fails may be what keeps anything from being published.
            self._deliver_rules(store, delivered, aside)
            if now[0] is not None:
                with self._versions.reader(now[0]) as reader:
                    self._deliver_alarms(reader.connection, store, delivered, aside)
        self._seen = now

    def _published(self) -> int | None:
        try:
            return self._versions.current()
        except NotPublished:
            return None

    def _post_again(self, store: Store) -> set[Alarm]:
        """Post what is set aside and has waited long enough; return the alarms that stay aside."""
        aside: set[Alarm] = set()
        end = self._clock() + AGAIN_S
        for query, alarm, change, body in store.rows(_ASIDE):
            one = query, alarm
            if one in aside:
                continue
            if not self._is_due(one) or self._clock() >= end or not self._is_taken(one, change, body):
                aside.add(one)
                continue
            store.change(_TAKEN, query=query, alarm=alarm, change=change)
            # The address has been mended, perhaps for the others too.
            self._pauses.clear()
        self._pauses = {one: self._pauses.get(one, (0.0, 0.0)) for one in aside}
        return aside

    def _is_due(self, alarm: Alarm) -> bool:
        """Return whether an alarm has waited long enough; one of which this process knows nothing has."""
        return self._clock() >= self._pauses.get(alarm, (0.0, 0.0))[1]

    def _deliver_rules(self, store: Store, delivered: Mapping[str, Told], aside: set[Alarm]) -> None:
        table = self._layout.quality
        with connected(self._layout.tables, {"threads": 1, "memory_limit": "512MB"}) as connection:
            for subject, newest_us in newest_runs(connection, table).items():
                through_us, _ = delivered.get(f"{RULES}{subject}", (None, -1))
                if through_us == newest_us:
                    continue
                for change in changes_between(connection, table, subject, through_us, newest_us):
                    rule = f"{RULES}{subject}", change["rule"]
                    self._post(store, rule, change["at_us"], change, aside)
                store.change(_KEEP, query=f"{RULES}{subject}", batch=newest_us, repair=-1)

    def _deliver_alarms(
        self,
        connection: duckdb.DuckDBPyConnection,
        store: Store,
        delivered: Mapping[str, Told],
        aside: set[Alarm],
    ) -> None:
        for query in queries_with_alarms(connection):
            known, newest = delivered.get(query, NOTHING), newest_told(connection, query)
            if known == newest:
                continue
            for change in changes_after(connection, query, known):
                self._post(store, (query, change["alarm"]), change["change"], change, aside)
            store.change(_KEEP, query=query, batch=newest[0], repair=newest[1])

    def _post(
        self, store: Store, alarm: Alarm, change: int, document: Mapping[str, Any], aside: set[Alarm]
    ) -> None:
        """Post a change, or set it aside where the address refuses it or an earlier one of its alarm."""
        body = json.dumps(document, ensure_ascii=False)
        if alarm in aside or not self._is_taken(alarm, change, body):
            store.change(_SET_ASIDE, query=alarm[0], alarm=alarm[1], change=change, body=body)
            aside.add(alarm)

    def _is_taken(self, alarm: Alarm, change: int, body: str) -> bool:
        """Post a change; where the address refuses it, the alarm waits, longer each time.

        Raises HTTPError when the address asks to be left alone; URLError when it cannot be reached.
        """
        try:
            identity = f"{alarm[0]}:{alarm[1]}:{change}"
            post(signed(self._url, self._secret, identity, body.encode()), TIMEOUT_S)
        except (HTTPException, OSError) as error:
            if error.code in _NOT_NOW if isinstance(error, HTTPError) else isinstance(error, URLError):
                raise
            wait_s = min(max(FIRST_WAIT_S, 2 * self._pauses.get(alarm, (0.0, 0.0))[0]), LONGEST_ASIDE_S)
            self._pauses[alarm] = (wait_s, self._clock() + wait_s)
            log.warning("alarm %s of %s was refused, again in %g s: %r", alarm[1], alarm[0], wait_s, error)
            return False
        return True
