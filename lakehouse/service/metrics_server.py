"""The address at which a service shows its metrics: a few at a time, each within seconds, and to nobody's web page.

On the loopback only requests that name it are answered, so that a page of some other site that a browser shows cannot
read them through a name of its own.
"""

import re
import socket
from collections.abc import Callable, Iterable
from threading import BoundedSemaphore, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from lakehouse.service.metrics import Quarantine, registry_of
from lakehouse.storage.layout import Home

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Who asks while so many are answered is turned away; Prometheus asks again.
MOST_AT_ONCE = 8
# A client that sends or takes nothing for so long is let go.
TIMEOUT_S = 10

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape every few seconds is no event."""


class _Server(ThreadingWSGIServer):
    # Those that wait to be answered or turned away; of five, the default, a sixth would wait for a second.
    request_queue_size = 128

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self._free = BoundedSemaphore(MOST_AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless too many are answered already."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""


class _ServerOf6(_Server):
    address_family = socket.AF_INET6


def start_server(layout: Home, host: str, port: int, quarantine: Quarantine = tuple) -> int:
    """Show a home's metrics at ``http://host:port/metrics`` from threads of this process; return the port."""
    app: App = make_wsgi_app(registry_of(layout, quarantine))
    kind = _ServerOf6 if ":" in host else _Server
    server = make_server(host, port, _for_loopback(app) if host in LOOPBACK else app, kind, _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_port)


def _for_loopback(app: App) -> App:
    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        named = re.sub(r":\d*$", "", environ.get("HTTP_HOST", "")).strip("[]")
        if named in LOOPBACK:
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"only localhost and 127.0.0.1 are answered here\n"]

    return guarded
