"""Access to the server: the Host asked for, the token, and one line of log for each question.

Each request carries a token, at any address: as ``Authorization: Bearer`` or as the password of Basic, which browsers
and Grafana can send. The server of a home without tokens has one of its own, which it prints when it starts. A browser
gives that once, in the address, and keeps it as a cookie. It opens everything, to requests of this machine only: those
that name the loopback and that no proxy passed on. What a page of another site asks in the background is refused
whatever it carries, since browsers add passwords by themselves.
"""

import asyncio
import base64
import binascii
import hmac
import logging
import re
import time
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, urlencode
from weakref import WeakValueDictionary

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asgi

from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.layout import Home
from lakehouse.web.problems import Problem, response_of
from lakehouse.web.security.audit import Audit
from lakehouse.web.security.binding import LOOPBACK
from lakehouse.web.security.tokens import BEGINS, LOCAL, Scope, Token, read_tokens, token_of

log = logging.getLogger(__name__)
# A chart asks for some dozen.
MOST_PARAMETERS = 500
_LENGTHS = (b"content-length", b"transfer-encoding")
# What proxies add to a request that came from elsewhere.
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# Answered without a token: that a server is there.
_HEALTH = "/healthz"
# So many requests of one address are looked at together until they have shown a token; those of others do not wait.
_AT_ONCE = 4
# Where the address may carry the server's own token.
_ENTRANCES = ("/", "/page/")
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

    def __init__(self, app: ASGIApp, layout: Home, own_token: str) -> None:
        self._app, self._own_token, self._layout = app, own_token.encode(), layout
        self._audit = Audit(layout)
        self._doors = WeakValueDictionary[str, asyncio.Semaphore]()

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
            from_address = _taken_from_address(scope)
            async with self._door(scope):
                # Whoever came meanwhile from another address is next.
                await asyncio.sleep(0)
                scope["token"] = await self._token(scope, from_address)
            # Nothing behind here needs one, and the application would parse it.
            scope["headers"] = [each for each in scope["headers"] if each[0] != b"cookie"]
            answering: ASGIApp = self._app
            if scope["path"] == _HEALTH:
                answering = JSONResponse({"ok": True})
            elif from_address is not None:
                answering = _kept_as_cookie(scope, from_address)
            await answering(scope, receive, secured)
        except Problem as problem:
            await response_of(problem)(scope, receive, secured)
        finally:
            self._audit.note(scope, status, time.monotonic() - began)

    def _door(self, scope: Asgi) -> asyncio.Semaphore:
        """Return what the requests of an address pass one after the other; nobody keeps it once all have."""
        address = (scope.get("client") or ("",))[0]
        return self._doors.setdefault(address, asyncio.Semaphore(_AT_ONCE))

    async def _token(self, scope: Asgi, from_address: str | None) -> Token | None:
        headers = Headers(scope=scope)
        if scope["path"] == _HEALTH:
            return None
        given = _given(scope, headers) if from_address is None else from_address
        is_own = bool(self._own_token) and hmac.compare_digest(self._own_token, given.encode())
        foreign = _foreign(headers) if self._own_token else None
        # The store is asked where its answer matters only: whoever has no token costs little.
        is_asked = not is_own and (given.startswith(BEGINS) or foreign)
        tokens = await self._tokens() if is_asked else []
        if foreign and not tokens:
            raise foreign
        # Only the server's own token may be part of an address, which others may read.
        token = LOCAL if is_own else token_of(tokens, given) if from_address is None else None
        if token is None:
            raise Problem(
                401,
                "No token",
                "give a token as `Authorization: Bearer ...` or as Basic's password; `tidemark token add` makes one, "
                "and a server of a home without tokens prints an address with one",
                {"WWW-Authenticate": 'Basic realm="tidemark", charset="UTF-8"'},
            )
        if _is_of_another_site(scope["method"], headers):
            raise Problem(
                403, "Wrong site", "a page of another site asked; its links may be followed, no more"
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
    """Refuse what no address means, and a body of two lengths, before anything reads it. Raises Problem: 400."""
    if sum(name in _LENGTHS for name, _ in scope["headers"]) > 1:
        # A proxy that goes by the other one would take the rest for somebody else's request.
        said = "a body has Content-Length or Transfer-Encoding, not both"
        raise Problem(400, "Wrong request", said, {"Connection": "close"})
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise Problem(400, "Wrong parameter", "a text with a NUL character cannot be asked for")
    if scope["query_string"].count(b"&") >= MOST_PARAMETERS:
        scope["query_string"] = b""
        raise Problem(400, "Wrong parameter", f"an address may have {MOST_PARAMETERS} parameters")


def _taken_from_address(scope: Asgi) -> str | None:
    """Return the token in the address of a page, None without one; the address then has it no more."""
    if scope["method"] != "GET" or scope["path"] not in _ENTRANCES or b"token=" not in scope["query_string"]:
        return None
    asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    rest = [(name, value) for name, value in asked if name != "token"]
    scope["query_string"] = urlencode(rest).encode("ascii")
    return next((value for name, value in asked if name == "token"), None)


def _kept_as_cookie(scope: Asgi, token: str) -> Response:
    """Return what has a browser keep a token for this server, out of reach of scripts, and ask again without it."""
    asked = scope["query_string"].decode("ascii")
    response = RedirectResponse(f"/page/?{asked}" if asked else "/page/", 303, {"Cache-Control": "no-store"})
    response.set_cookie(_cookie_of(scope), token, httponly=True, samesite="strict")
    return response


def _cookie_of(scope: Asgi) -> str:
    """Return the name of the cookie; browsers keep one set for all ports of a host."""
    return f"tidemark-{(scope.get('server') or ('', 0))[1]}"


def _foreign(headers: Headers) -> Problem | None:
    """Return the refusal of a request that did not come from this machine, where there are no tokens."""
    if re.sub(r":\d*$", "", headers.get("host", "")) not in LOOPBACK:
        return Problem(421, "Wrong host", "without tokens only localhost and 127.0.0.1 are answered")
    if passed_on := [name for name in _FORWARDED if name in headers]:
        return Problem(
            403,
            "No token",
            f"a proxy passed this request on ({passed_on[0]}), and the home has no tokens: "
            "make one with `tidemark token add NAME`, and have the proxy or its clients send it",
        )
    return None


def _is_of_another_site(method: str, headers: Headers) -> bool:
    """True if a page of another site asks, which could have the server work; its links may be followed.

    Servers on two ports of a host are one site to a browser, and two here.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site in ("cross-site", "same-site"):
        # A frame navigates, too, as often as its page likes.
        is_followed = (
            headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        )
        return method != "GET" or not is_followed
    # To an address without TLS that is not this machine browsers say the origin only.
    return site is None and origin is not None and origin.partition("://")[2] != headers.get("host", "")


def _given(scope: Asgi, headers: Headers) -> str:
    """Return the token of a request, empty without one."""
    if "authorization" not in headers:
        return _cookie(headers.get("cookie", ""), _cookie_of(scope))
    kind, _, text = headers["authorization"].partition(" ")
    if kind.lower() == "bearer":
        return text.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(text, validate=True).decode("utf-8").partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _cookie(header: str, name: str) -> str:
    """Return a cookie, empty without one; the standard library's parser takes a minute for one of backslashes."""
    pairs = (one.strip().partition("=") for one in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")


def token(request: Request, scope: Scope = Scope.READ) -> Token:
    """Return the token of a request. Raises Problem: 403 when it lacks the scope."""
    found: Token = request.scope["token"]
    if not found.may(scope):
        raise Problem(
            403, "Not allowed", f"token {found.name!r} has no scope {scope}; it has {list(found.scopes)}"
        )
    return found


def check_stream(request: Request, stream: str, scope: Scope = Scope.READ) -> None:
    """Refuse a stream that the request's token may not see.

    Raises Problem: 403, whether or not there is such a stream.
    """
    found = token(request, scope)
    if not found.sees(stream):
        raise Problem(
            403, "Not allowed", f"token {found.name!r} may see the streams {list(found.streams or ())}"
        )


def check_all_streams(request: Request, scope: Scope = Scope.READ) -> None:
    """Refuse what shows rows of every stream to a token that may see some. Raises Problem: 403."""
    if token(request, scope).streams is not None:
        raise Problem(403, "Not allowed", "this shows every stream, and the token may see some only")


def note(request: Request, asked: Mapping[str, str]) -> None:
    """Have the line of audit say what the body of a request asked, as it says what its address did."""
    request.scope["asked"] = dict(asked)
