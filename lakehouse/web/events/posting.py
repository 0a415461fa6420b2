"""One POST to an address, which has a time for all of it: a receiver that sends a byte now and then holds nobody."""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener


class _NoRedirects(HTTPRedirectHandler):
    """Alarms go where the configuration says, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Http(HTTPHandler):
    """Plain HTTP over connections that can be cut off."""

    def __init__(self, made: list[HTTPConnection]) -> None:
        super().__init__()
        self._made = made

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(lambda host, **how: _kept(HTTPConnection(host, **how), self._made), req)


class _Https(HTTPSHandler):
    """HTTP over TLS, the same."""

    def __init__(self, made: list[HTTPConnection]) -> None:
        super().__init__()
        self._made = made

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(lambda host, **how: _kept(HTTPSConnection(host, **how), self._made), req)


def signed(url: str, secret: bytes, identity: str, body: bytes) -> Request:
    """Return a request whose receiver can tell repeats by the identity and, if there is a secret, who has sent it."""
    sent_at = str(int(time.time()))
    signature = hmac.new(secret, f"{identity}.{sent_at}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", "Tidemark-Id": identity, "Tidemark-Time": sent_at}
    headers |= {"Tidemark-Signature": f"sha256={signature}"} if secret else {}
    return Request(url, body, headers, method="POST")


def post(request: Request, within_s: float) -> None:
    """Send a request and read the head of its answer; a redirect is a refusal.

    Raises:
        HTTPError: when the address refuses.
        URLError: when it cannot be reached.
        OSError: when the answer takes longer than ``within_s``.
    """
    made: list[HTTPConnection] = []
    is_late = threading.Event()
    timer = threading.Timer(within_s, _cut_off, (made, is_late))
    timer.daemon = True
    timer.start()
    try:
        with build_opener(_NoRedirects, _Http(made), _Https(made)).open(request, timeout=within_s):
            pass
    finally:
        timer.cancel()
    # What was cut off ends like any head of an answer.
    if is_late.is_set():
        raise TimeoutError(f"no whole answer within {within_s:g} s")


def _kept(connection: Any, made: list[HTTPConnection]) -> Any:
    made.append(connection)
    return connection


def _cut_off(made: list[HTTPConnection], is_late: threading.Event) -> None:
    is_late.set()
    for connection in made:
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
