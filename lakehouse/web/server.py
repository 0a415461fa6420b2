"""The server that answers: where it binds, and that nobody but this machine is answered without a token."""

from __future__ import annotations

import re
from dataclasses import replace

import uvicorn

from lakehouse.home.layout import Home
from lakehouse.web.access import LOOPBACK
from lakehouse.web.app import WebOptions, create_app
from lakehouse.web.tokens import read_tokens


class BindRefused(ValueError):
    """An address that cannot be answered at; the message says what is missing."""


def build_server(layout: Home, bind: str, options: WebOptions) -> uvicorn.Server:
    """Return a server of a home at ``HOST:PORT``; any address but the loopback asks each request for a token.

    Raises:
        BindRefused: when it is no address, or not the loopback and the home has no token.
    """
    found = re.fullmatch(r"(.+):(\d{1,5})", bind)
    if found is None or int(found[2]) > 65535:
        raise BindRefused(f"found {bind!r}; expected HOST:PORT such as 127.0.0.1:8417")
    host = found[1]
    needs_token = host not in LOOPBACK
    if needs_token and not read_tokens(layout):
        raise BindRefused(f"{bind} is not the loopback: make a token first, with `tidemark token add NAME`")
    config = uvicorn.Config(
        create_app(layout, replace(options, needs_token=needs_token)),
        host=host.strip("[]"),
        port=int(found[2]),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        limit_concurrency=2_000,
    )
    return uvicorn.Server(config)
