"""Who may ask: the Host asked for, the token, and one line of log for each question.

A home without tokens is shown on the loopback only, to requests that name it so and that no proxy passed on: a page of
some other site cannot reach it through a name that it points here (DNS rebinding), nor have it work by asking in the
background. Once a home has a token each request carries one, at any address: as ``Authorization: Bearer`` or as the
password of Basic, which browsers and Grafana can send.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asgi

from lakehouse.home.control.database import ControlUnreachable
from lakehouse.home.layout import Home
from lakehouse.web.problems import Problem, response_of
from lakehouse.web.tokens import LOCAL, Scope, Token, read_tokens, token_of

log = logging.getLogger(__name__)
audit = logging.getLogger("tidemark.audit")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# A chart asks for some dozen.
MOST_PARAMETERS = 500
# What proxies add to a request that came from elsewhere.
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# Without a token nobody learns anything; these hold no data.
_OPEN_PATHS = ("/healthz",)
_SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Access:
    """Lets a request through to the application, or tells why not; writes one line of audit for each."""

    def __init__(self, app: ASGIApp, layout: Home, needs_token: bool) -> None:
        self._app, self._needs_token, self._layout = app, needs_token, layout

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def secured(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            _check_address(scope)
            scope["token"] = await self._token(scope)
            await self._app(scope, receive, secured)
        except Problem as problem:
            await response_of(problem)(scope, receive, secured)
        finally:
            _log(scope, status, time.monotonic() - began)

    async def _token(self, scope: Asgi) -> Token | None:
        headers = Headers(scope=scope)
        if scope["path"] in _OPEN_PATHS:
            return None
        tokens = await self._tokens()
        # Who revokes the last token does not open the home to everybody.
        self._needs_token = self._needs_token or bool(tokens)
        if not self._needs_token:
            _require_local(scope["method"], headers)
            return LOCAL
        token = token_of(tokens, _given(headers.get("authorization", "")))
        if token is None:
            raise Problem(
                401,
                "No token",
                "give a token as `Authorization: Bearer ...` or as Basic's password; `tidemark token add` makes one",
                {"WWW-Authenticate": 'Basic realm="tidemark", charset="UTF-8"'},
            )
        return token

    async def _tokens(self) -> Sequence[Token]:
        """Return the tokens as they are now: one that was revoked is refused from the next request on."""
        try:
            # A database that does not answer must not keep others waiting.
            return await asyncio.to_thread(read_tokens, self._layout)
        except ControlUnreachable as error:
            log.error("%s", error)
            raise Problem(503, "No tokens", "the store of tokens does not answer; ask again later") from error


def _check_address(scope: Asgi) -> None:
    """Refuse what no address means, before anything reads it.

    Raises:
        Problem: 400.
    """
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise Problem(400, "Wrong parameter", "a text with a NUL character cannot be asked for")
    if scope["query_string"].count(b"&") >= MOST_PARAMETERS:
        scope["query_string"] = b""
        raise Problem(400, "Wrong parameter", f"an address may have {MOST_PARAMETERS} parameters")


def _require_local(method: str, headers: Headers) -> None:
    """Refuse what did not come from this machine, where there are no tokens.

    Raises:
        Problem: with what to do.
    """
    if re.sub(r":\d*$", "", headers.get("host", "")) not in LOOPBACK:
        raise Problem(421, "Wrong host", "without tokens only localhost and 127.0.0.1 are answered")
    if passed_on := [name for name in _FORWARDED if name in headers]:
        raise Problem(
            403,
            "No token",
            f"a proxy passed this request on ({passed_on[0]}), and the home has no tokens: "
            "make one with `tidemark token add NAME`, after which each request needs one",
        )
    if _is_of_another_site(method, headers):
        raise Problem(403, "Wrong site", "a page of another site asked; without tokens it is not answered")


def _is_of_another_site(method: str, headers: Headers) -> bool:
    """Whether a page of another site asks, which could have the server work; its links may be followed."""
    is_link = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    return headers.get("sec-fetch-site") == "cross-site" and not is_link


def _given(authorization: str) -> str:
    kind, _, text = authorization.partition(" ")
    if kind.lower() == "bearer":
        return text.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(text, validate=True).decode("utf-8").partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def token(request: Request, scope: Scope = Scope.READ) -> Token:
    """Return the token of a request.

    Raises:
        Problem: 403 when it lacks the scope.
    """
    found: Token = request.scope["token"]
    if not found.may(scope):
        raise Problem(
            403, "Not allowed", f"token {found.name!r} has no scope {scope}; it has {list(found.scopes)}"
        )
    return found


def check_stream(request: Request, stream: str, scope: Scope = Scope.READ) -> None:
    """Refuse a stream that the request's token may not see.

    Raises:
        Problem: 403, whether or not there is such a stream.
    """
    found = token(request, scope)
    if not found.sees(stream):
        raise Problem(
            403, "Not allowed", f"token {found.name!r} may see the streams {list(found.streams or ())}"
        )


def check_all_streams(request: Request, scope: Scope = Scope.READ) -> None:
    """Refuse what shows rows of every stream to a token that may see some.

    Raises:
        Problem: 403.
    """
    if token(request, scope).streams is not None:
        raise Problem(403, "Not allowed", "this shows every stream, and the token may see some only")


def note(request: Request, asked: Mapping[str, str]) -> None:
    """Have the line of audit say what the body of a request asked, as it says what its address did."""
    request.scope["asked"] = dict(asked)


def _log(scope: Asgi, status: int, seconds: float) -> None:
    found: Token | None = scope.get("token")
    asked = dict([*parse_qsl(scope["query_string"].decode("latin-1")), *scope.get("asked", {}).items()][:20])
    line = {
        "token": found.name if found else None,
        "method": scope["method"],
        "path": scope["path"][:500],
        "asked": {name[:100]: value[:500] for name, value in asked.items()},
        "status": status,
        "ms": round(1000 * seconds, 1),
    }
    audit.info("%s", json.dumps(line))
