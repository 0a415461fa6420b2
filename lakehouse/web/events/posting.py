"""One POST to an address, which has a time for all of it: a receiver that sends a byte now and then holds nobody."""

import hashlib
import hmac
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener


class _NoRedirects(HTTPRedirectHandler):
    """Alarms go where the configuration says, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Cutting(HTTPHandler, HTTPSHandler):
    """HTTP, plain or over TLS, over connections that can be cut off."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[HTTPConnection] = []
        self.is_late = threading.Event()

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(self._connection, HTTPConnection), req)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(self._connection, HTTPSConnection), req)

    def _connection(self, kind: type[HTTPConnection], host: str, **how: Any) -> Any:
        self._made.append(kind(host, **how))
        return self._made[-1]

    def cut_off(self) -> None:
        """Let what is sent or read now end like the head of any answer."""
        self.is_late.set()
        for connection in self._made:
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)


def signed(url: str, secret: bytes, identity: str, body: bytes) -> Request:
    """Return a request whose receiver can tell repeats by the identity and, if there is a secret, who has sent it."""
    sent_at = str(int(time.time()))
    signature = hmac.new(secret, f"{identity}.{sent_at}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", "Tidemark-Id": identity, "Tidemark-Time": sent_at}
    headers |= {"Tidemark-Signature": f"sha256={signature}"} if secret else {}
    return Request(url, body, headers, method="POST")


def post(request: Request, within_s: float) -> None:
    """Send a request and read the head of its answer; a redirect is a refusal.

    Raises HTTPError when the address refuses; URLError when it cannot be reached; OSError when the answer takes
    longer than ``within_s``.
    """
    sender = _Cutting()
    timer = threading.Timer(within_s, sender.cut_off)
    timer.daemon = True
    timer.start()
    try:
        with build_opener(_NoRedirects, sender).open(request, timeout=within_s):
            pass
    finally:
        timer.cancel()
    if sender.is_late.is_set():
        raise TimeoutError(f"no whole answer within {within_s:g} s")
