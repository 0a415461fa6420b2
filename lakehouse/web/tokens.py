"""Tokens: who may ask for what. The home keeps a hash of each, never the token itself.

    tokens.json    {"tokens": [{"name", "hash", "scopes", "streams", "created_at"}, ...]}, readable by its owner only

A token is 32 random bytes, so one SHA-256 is enough: there is nothing to guess. One that is limited to some streams
can neither run SQL nor fetch the file, which hold every stream.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum

from lakehouse.home.atomic_files import write_json
from lakehouse.home.layout import Home


class Scope(StrEnum):
    """What a token lets its bearer do."""

    READ = "read"
    SQL = "sql"
    FILE = "file"
    QUARANTINE = "quarantine"


class TokenError(ValueError):
    """A token that cannot be made or is not there; the message says why."""


@dataclass(frozen=True)
class Token:
    """What is kept of a token; ``streams`` is None where it may see all."""

    name: str
    hash: str
    scopes: tuple[str, ...]
    streams: tuple[str, ...] | None
    created_at: str

    def may(self, scope: Scope) -> bool:
        """Whether it has a scope."""
        return scope in self.scopes

    def sees(self, stream: str) -> bool:
        """Whether it may see a stream."""
        return self.streams is None or stream in self.streams


# Who asks over the loopback without a token: the user of this machine, who can read the home anyway.
LOCAL = Token("local", "", tuple(Scope), None, "")


def read_tokens(layout: Home) -> list[Token]:
    """Return the tokens of a home, none where none were made."""
    try:
        content = json.loads(layout.tokens.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [
        Token(
            one["name"],
            one["hash"],
            tuple(one["scopes"]),
            None if one["streams"] is None else tuple(one["streams"]),
            one["created_at"],
        )
        for one in content["tokens"]
    ]


def add_token(layout: Home, name: str, scopes: Sequence[Scope], streams: Sequence[str] | None) -> str:
    """Make a token and return it; it cannot be shown again.

    Raises:
        TokenError: when there is one of that name, or scopes and streams do not go together.
    """
    known = read_tokens(layout)
    if any(one.name == name for one in known):
        raise TokenError(f"there is a token {name!r} already: revoke it first, or choose another name")
    if not name or not name.isprintable() or len(name) > 100:
        raise TokenError(f"a token's name has 1 to 100 printable characters, found {name[:100]!r}")
    if streams is not None and {Scope.SQL, Scope.FILE} & set(scopes):
        raise TokenError("scopes sql and file show every stream: they do not go with --stream")
    token = f"tm_{secrets.token_urlsafe(32)}"
    created_at = datetime.now(UTC).isoformat(timespec="seconds")
    limited = None if streams is None else tuple(streams)
    _write(layout, [*known, Token(name, _hash(token), tuple(scopes), limited, created_at)])
    return token


def revoke_token(layout: Home, name: str) -> None:
    """Take a token back: it is refused from the next request on.

    Raises:
        TokenError: when there is none of that name.
    """
    known = read_tokens(layout)
    left = [one for one in known if one.name != name]
    if len(left) == len(known):
        raise TokenError(f"no token {name!r}; there are: {', '.join(one.name for one in known) or 'none'}")
    _write(layout, left)


def token_of(tokens: Sequence[Token], given: str) -> Token | None:
    """Return the token that was given, None for any other text."""
    hashed = _hash(given)
    return next((one for one in tokens if hmac.compare_digest(one.hash, hashed)), None)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _write(layout: Home, tokens: Sequence[Token]) -> None:
    document = {"tokens": [asdict(one) for one in tokens]}
    write_json(layout.tokens, document, durable=True, indent=2, mode=0o600)
