"""The application and its server: every address, the limits, who may ask, what is closed at the end."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asgi

from lakehouse.storage.layout import Home
from lakehouse.web import file, home_tables, page, questions, tables
from lakehouse.web.connections import config_of
from lakehouse.web.events import changes, events
from lakehouse.web.events.webhooks import Webhooks
from lakehouse.web.parameters import Limits
from lakehouse.web.problems import answer_with_problems, problem_of, response_of
from lakehouse.web.prometheus import routes as prometheus
from lakehouse.web.quality import routes as quality
from lakehouse.web.responses import Declared
from lakehouse.web.security.access import Access
from lakehouse.web.security.binding import checked
from lakehouse.web.versions import Versions
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
    """Options of a server: ceilings, and the number of requests that work and wait at once.

    ``own_token``: opens everything to requests of this machine, beside the tokens of the home; empty for none.
    ``alerts_url``: where changes of alarms are posted, signed with ``alerts_secret``.
    ``units``: by stream the columns that hold times, with the unit of each.
    """

    limits: Limits = field(default_factory=Limits)
    at_once: int = 4
    waiting: int = 100
    own_token: str = field(default="", repr=False)
    alerts_url: str | None = None
    alerts_secret: str = field(default="", repr=False)
    units: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


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
    return Access(_Guard(app), layout, options.own_token)


@cache
def _addresses() -> tuple[BaseRoute, ...]:
    """Return every address, the same for all homes: FastAPI reads once a process what each of them takes."""
    router = APIRouter()
    for module in (questions, tables, file):
        router.include_router(module.router, prefix="/v/{version}", dependencies=[Declared])
        router.include_router(module.router, prefix="/latest")
    for module in (home_tables, changes, events, page, quality):
        router.include_router(module.router)
    router.include_router(prometheus.router, prefix="/prometheus/api/v1")
    return tuple(router.routes)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    options: WebOptions = app.state.options
    app.state.versions = Versions(app.state.layout)
    app.state.work = Work(options.at_once, options.waiting, options.limits.timeout_s)
    app.state.events = events.Events(app.state.layout, app.state.versions)
    following = app.state.events.follow(), app.state.events.watch_tokens()
    tasks = [asyncio.create_task(each) for each in following]
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


def build_server(layout: Home, bind: str, options: WebOptions) -> uvicorn.Server:
    """Return a server of a home at ``HOST:PORT``. Raises BindRefused as ``checked``."""
    host, port = checked(layout, bind)
    config = config_of(create_app(layout, options), host=host, port=port, timeout_graceful_shutdown=5)
    return uvicorn.Server(config)
