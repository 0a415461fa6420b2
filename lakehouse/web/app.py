"""The application and its server: every address, the limits, who may ask, where it binds, what is closed at the end."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asgi

from lakehouse.home.layout import Home
from lakehouse.web import changes, events, file, home_tables, page, questions, tables
from lakehouse.web.access import LOOPBACK, Access
from lakehouse.web.connections import config_of
from lakehouse.web.parameters import Limits
from lakehouse.web.problems import answer_with_problems, problem_of, response_of
from lakehouse.web.prometheus import routes as prometheus
from lakehouse.web.responses import Declared
from lakehouse.web.tokens import read_tokens
from lakehouse.web.versions import Versions
from lakehouse.web.webhooks import Webhooks
from lakehouse.web.work import ClientLeft, Work

# Ten times the longest statement; more is never read into memory.
LONGEST_BODY = 1_000_000
_DESCRIPTION = """
Answers of a Tidemark home, each with the interval that is sure to hold the truth.

`/v/{version}/...` never changes and may be kept for ever. `/latest/...` is the current version, named in
`Content-Location`; with `If-None-Match` it is answered 304 until something is published. Errors are
`application/problem+json`.
"""


@dataclass(frozen=True)
class WebOptions:
    """How a server answers: ceilings, how many work and wait at once, and whether it answers nobody without a token.

    Of a home that has tokens each request needs one, whatever ``needs_token`` is.

    ``alerts_url``: where changes of alarms are posted, signed with ``alerts_secret``.
    """

    limits: Limits = field(default_factory=Limits)
    at_once: int = 4
    waiting: int = 100
    needs_token: bool = False
    alerts_url: str | None = None
    alerts_secret: str = field(default="", repr=False)


def create_app(layout: Home, options: WebOptions | None = None) -> ASGIApp:
    """Return the application that shows a home."""
    options = options or WebOptions()
    app = FastAPI(
        title="Tidemark",
        version=version("tidemark"),
        description=_DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.layout, app.state.limits, app.state.options = layout, options.limits, options
    app.router.routes += _addresses()
    answer_with_problems(app)
    return Access(_Guard(app), layout, options.needs_token)


@cache
def _addresses() -> tuple[BaseRoute, ...]:
    """Return every address, the same for all homes: FastAPI reads once a process what each of them takes."""
    router = APIRouter()
    for module in (questions, tables, file):
        router.include_router(module.router, prefix="/v/{version}", dependencies=[Declared])
        router.include_router(module.router, prefix="/latest")
    for module in (home_tables, changes, events, page):
        router.include_router(module.router)
    router.include_router(prometheus.router, prefix="/prometheus/api/v1")
    router.add_api_route("/healthz", _healthy, include_in_schema=False)
    return tuple(router.routes)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    options: WebOptions = app.state.options
    app.state.versions = Versions(app.state.layout)
    app.state.work = Work(options.at_once, options.waiting, options.limits.timeout_s)
    app.state.events = events.Events(app.state.layout, app.state.versions)
    tasks = [asyncio.create_task(app.state.events.follow())]
    if options.alerts_url is not None:
        hooks = Webhooks(app.state.layout, app.state.versions, options.alerts_url, options.alerts_secret)
        tasks.append(asyncio.create_task(hooks.deliver()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        app.state.work.close()
        app.state.versions.close()


async def _healthy(request: Request) -> Response:
    return JSONResponse({"ok": True})


class _Guard:
    """Refuses what no address means and bodies without end; ends quietly where the client has gone; tells of errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_head, has_begun = scope["method"] == "HEAD", False
        if is_head:
            # As GET, whose headers it asks for: of what has them, every address has a GET.
            scope = {**scope, "method": "GET"}

        async def noting(message: Message) -> None:
            nonlocal has_begun
            # Starlette's own page for what nobody caught says nothing that we would not say better.
            if message["type"] == "http.response.start" and message["status"] == 500:
                return
            has_begun = has_begun or message["type"] == "http.response.start"
            if is_head and message["type"] == "http.response.body":
                is_endless, message = message.get("more_body", False), {"type": message["type"], "body": b""}
                await send(message)
                if is_endless:
                    # Nobody reads the rest, which for events has no end.
                    raise ClientLeft
            elif has_begun:
                await send(message)

        try:
            await self._app(scope, _at_most(LONGEST_BODY, receive), noting)
        except ClientLeft:
            return
        except Exception as error:
            if has_begun:
                raise
            await response_of(problem_of(error))(scope, receive, send)


def _at_most(most: int, receive: Receive) -> Receive:
    """Return what receives a request whose body is refused with 413 once it is longer than so many bytes."""
    came = 0

    async def counted() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > most:
            raise HTTPException(413, f"a body may have {most:,} bytes")
        return message

    return counted


class BindRefused(ValueError):
    """An address that cannot be answered at; the message says what is missing."""


def build_server(layout: Home, bind: str, options: WebOptions) -> uvicorn.Server:
    """Return a server of a home at ``HOST:PORT``; only on the loopback may a home be without tokens.

    Raises:
        BindRefused: when it is no address, or not the loopback and the home has no token; or when nobody can be
            answered there, as where another process is.
    """
    found = re.fullmatch(r"(.+):(\d{1,5})", bind)
    if found is None or int(found[2]) > 65535:
        raise BindRefused(f"found {bind!r}; expected HOST:PORT such as 127.0.0.1:8417")
    host = found[1]
    needs_token = host not in LOOPBACK
    if needs_token and not read_tokens(layout):
        raise BindRefused(f"{bind} is not the loopback: make a token first, with `tidemark token add NAME`")
    _check_free(host.strip("[]"), int(found[2]))
    app = create_app(layout, replace(options, needs_token=needs_token))
    config = config_of(app, host=host.strip("[]"), port=int(found[2]), timeout_graceful_shutdown=5)
    return uvicorn.Server(config)


def _check_free(host: str, port: int) -> None:
    """Bind for a moment: whoever reads an address on the screen must not find another server there."""
    failed: list[OSError] = []
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BindRefused(f"{host} is no address: {error.strerror}") from None
    for family, kind, protocol, _, address in places:
        try:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
        except OSError as error:
            failed.append(error)
    # A name may stand for addresses of which this machine has some only.
    is_taken = any(error.errno == errno.EADDRINUSE for error in failed)
    if is_taken or len(failed) == len(places):
        said = "another process answers there" if is_taken else failed[-1].strerror
        raise BindRefused(f"{host}:{port} cannot be answered at: {said}")
