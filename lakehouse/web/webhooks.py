"""Alarms to somebody else's address: one POST for each alarm that is raised, changed or withdrawn, at least once.

What has been delivered stands in the home's control store, so a server that starts again goes on where it was; a
change whose delivery nobody confirmed is sent again. Receivers tell repeats by ``Tidemark-Id``, which is the same each
time, and senders by ``Tidemark-Signature``: the HMAC-SHA-256 of the body under the secret. One process of a home
delivers at a time, by a lease, and others find it done.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.request import HTTPRedirectHandler, Request, build_opener

from lakehouse.home.control.move_in import move_in
from lakehouse.home.control.store import Store, store_of
from lakehouse.home.layout import Home
from lakehouse.home.lease import LeaseHeld, lease
from lakehouse.serving.file.versions import NotPublished, VersionGone
from lakehouse.web.alarm_changes import NOTHING, Told, changes_after, newest_told, queries_with_alarms
from lakehouse.web.versions import Versions

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)
LOOK_S, TIMEOUT_S = 1.0, 10.0
# How long to wait after a delivery that failed, longer each time.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
_DELIVERED = "SELECT query, batch, repair FROM tidemark_delivered WHERE home = :home"
_KEEP = (
    "INSERT INTO tidemark_delivered VALUES (:home, :query, :batch, :repair) "
    "ON CONFLICT (home, query) DO UPDATE SET batch = excluded.batch, repair = excluded.repair"
)


class _NoRedirects(HTTPRedirectHandler):
    """Alarms go where the configuration says, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Webhooks:
    """Delivers the changes of alarms of a home to one address; ``deliver`` runs as one task, until cancelled."""

    def __init__(self, layout: Home, versions: Versions, url: str, secret: str) -> None:
        self._layout, self._versions, self._url, self._secret = layout, versions, url, secret.encode()
        self._seen = 0

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
        """Deliver every change that nobody confirmed yet, in order.

        Raises:
            LeaseHeld: when another process delivers now.
            Exception: when the address does not answer, or with anything but success.
        """
        version = self._versions.current()
        if version == self._seen:
            return
        move_in(self._layout.root)
        with lease(self._layout.delivered_alarms), self._versions.reader(version) as reader:
            self._deliver(reader.connection, store_of(self._layout.root))
        self._seen = version

    def _deliver(self, connection: duckdb.DuckDBPyConnection, store: Store) -> None:
        delivered: dict[str, Told] = {
            query: (batch, repair) for query, batch, repair in store.rows(_DELIVERED)
        }
        # A query is named once for each database of the version that has its alarms.
        for query in sorted(set(queries_with_alarms(connection))):
            told, newest = delivered.get(query, NOTHING), newest_told(connection, query)
            if told == newest:
                continue
            for change in changes_after(connection, query, told):
                self._post(change)
            store.change(_KEEP, query=query, batch=newest[0], repair=newest[1])

    def _post(self, change: Mapping[str, Any]) -> None:
        body = json.dumps(change, ensure_ascii=False).encode()
        request = Request(self._url, body, self._headers(change, body), method="POST")
        with build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S):
            pass

    def _headers(self, change: Mapping[str, Any], body: bytes) -> dict[str, str]:
        identity = f"{change['query']}:{change['alarm']}:{change['change']}"
        signature = hmac.new(self._secret, body, hashlib.sha256).hexdigest()
        signed = {"Tidemark-Signature": f"sha256={signature}"} if self._secret else {}
        return {"Content-Type": "application/json", "Tidemark-Id": identity, **signed}
