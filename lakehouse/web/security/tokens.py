"""Tokens: who may ask for what. The home's control store keeps a hash of each, never the token itself.

A token is 32 random bytes, so one SHA-256 is enough: there is nothing to guess. One that is limited to some streams
can neither run SQL nor fetch the file, which hold every stream.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from lakehouse.storage.control.move_in import move_in
from lakehouse.storage.control.store import store_of
from lakehouse.storage.layout import Home

_ALL = (
    "SELECT name, hash, scopes, streams, created_at FROM tidemark_tokens WHERE home = :home "
    "ORDER BY created_at, name"
)
_ADD = "INSERT INTO tidemark_tokens VALUES (:home, :name, :hash, :scopes, :streams, :created_at) ON CONFLICT DO NOTHING"
_REVOKE = "DELETE FROM tidemark_tokens WHERE home = :home AND name = :name"
# So each token begins; whatever does not is none.
BEGINS = "tm_"
# The variable of the environment that gives the server its own token, which is else another one at each start.
OWN_TOKEN = "TIDEMARK_WEB_TOKEN"


class Scope(StrEnum):
    """Right that a token gives its bearer."""

    READ = "read"
    SQL = "sql"
    FILE = "file"
    QUARANTINE = "quarantine"


class TokenError(ValueError):
    """A token that cannot be made or is not there; the message says why."""


@dataclass(frozen=True)
class Token:
    """Record of a token; ``streams`` is None where it may see all."""

    name: str
    hash: str
    scopes: tuple[str, ...]
    streams: tuple[str, ...] | None
    created_at: str

    def may(self, scope: Scope) -> bool:
        """True if it has a scope."""
        return scope in self.scopes

    def sees(self, stream: str) -> bool:
        """True if it may see a stream."""
        return self.streams is None or stream in self.streams


# Who has the server's own token: the user who started it, who can read the home anyway.
LOCAL = Token("local", "", tuple(Scope), None, "")


def read_tokens(layout: Home) -> list[Token]:
    """Return the tokens of a home by age, none where none were made.

    Raises ControlUnreachable when the control store does not answer.
    """
    move_in(layout)
    return [
        Token(name, hashed, tuple(json.loads(scopes)), tuple(json.loads(streams)) if streams else None, made)
        for name, hashed, scopes, streams, made in store_of(layout).rows(_ALL)
    ]


def own_token(layout: Home) -> str:
    """Return the server's own token: of a home without tokens, the environment's or a new one; else an empty text.

    Raises TokenError when the environment's can be guessed; ControlUnreachable when the control store does not
    answer.
    """
    if read_tokens(layout):
        return ""
    given = os.environ.get(OWN_TOKEN, "")
    if given and not re.fullmatch(r"[\w-]{32,200}", given, re.ASCII):
        raise TokenError(
            f"{OWN_TOKEN}: expected 32 to 200 letters, digits, - and _; found {len(given)} characters"
        )
    return given or secrets.token_urlsafe(32)


def add_token(layout: Home, name: str, scopes: Sequence[Scope], streams: Sequence[str] | None) -> str:
    """Make a token and return it; it cannot be shown again.

    Raises TokenError when there is one of that name, or scopes and streams do not go together.
    """
    if not name or not name.isprintable() or len(name) > 100:
        raise TokenError(f"a token's name has 1 to 100 printable characters, found {name[:100]!r}")
    if streams is not None and {Scope.SQL, Scope.FILE} & set(scopes):
        raise TokenError("scopes sql and file show every stream: they do not go with --stream")
    move_in(layout)
    token = f"{BEGINS}{secrets.token_urlsafe(32)}"
    added = store_of(layout).change(
        _ADD,
        name=name,
        hash=_hash(token),
        scopes=json.dumps(scopes),
        streams=None if streams is None else json.dumps(streams),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if not added:
        raise TokenError(f"there is a token {name!r} already: revoke it first, or choose another name")
    return token


def revoke_token(layout: Home, name: str) -> None:
    """Take a token back: it is refused from the next request on. Raises TokenError when there is none of that name."""
    known = read_tokens(layout)
    if not store_of(layout).change(_REVOKE, name=name):
        raise TokenError(f"no token {name!r}; there are: {', '.join(one.name for one in known) or 'none'}")


def token_of(tokens: Sequence[Token], given: str) -> Token | None:
    """Return the token that was given, None for any other text."""
    hashed = _hash(given)
    return next((one for one in tokens if hmac.compare_digest(one.hash, hashed)), None)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
