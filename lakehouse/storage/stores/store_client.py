"""The one seam to stores that speak the protocol of S3: who speaks to them, with what credentials, and what went wrong.

Credentials, region and endpoint come from the ordinary chain of AWS's own library: variables ``AWS_...``, profiles,
roles of the machine. Nothing of them is in an error: of what a store answers only its code is told.

    a store that does not answer, or refuses     StoreUnavailable: whoever asked fails, and asks again later
    an object that it does not give              ObjectUnread: likewise; others may be given
    an object that is gone                       FileNotFoundError, as of a file
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

# A request is made so often, and waited for so long.
TRIES = 3
_CONNECT_S, _READ_S, _CONNECTIONS = 5, 60, 32
_GONE = ("NoSuchKey", "404", "NoSuchVersion")
_REFUSED = ("AccessDenied", "403", "InvalidObjectState", "Forbidden")
_CHANGED = ("PreconditionFailed", "412")
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn")
_NO_CREDENTIALS = (
    "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give "
    "the machine a role"
)


class StoreUnavailable(RuntimeError):
    """A store does not answer, or refuses who asks."""


class ObjectUnread(RuntimeError):
    """A store does not give one object, or gave parts of two: it was replaced while it was read."""


def client(endpoint: str | None) -> Any:
    """Return this process's client of a store; it may be shared by threads, and a fork has one of its own."""
    return _client(endpoint, os.getpid())


@lru_cache(8)
def _client(endpoint: str | None, _process: int) -> Any:
    try:
        import botocore.session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise StoreUnavailable("an object store needs botocore: pip install 'tidemark[s3]'") from None
    options: dict[str, Any] = {
        "connect_timeout": _CONNECT_S,
        "read_timeout": _READ_S,
        "max_pool_connections": _CONNECTIONS,
        "retries": {"mode": "standard", "total_max_attempts": TRIES},
        # Stores that only speak the protocol know no newer sums.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    try:
        session = botocore.session.Session()
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_instant)
        made = session.create_client("s3", endpoint_url=endpoint, config=Config(**options))
        address = urlsplit(made.meta.endpoint_url)
        if not is_amazon(made.meta.endpoint_url):
            options["s3"] = {"addressing_style": "path"}
            made = session.create_client("s3", endpoint_url=endpoint, config=Config(**options))
    except BotoCoreError as error:
        raise StoreUnavailable(f"no client of S3 can be made: {type(error).__name__}{_profile()}") from None
    except ValueError:
        raise StoreUnavailable("the endpoint of S3 (AWS_ENDPOINT_URL) is no address") from None
    if address.username is not None:
        raise StoreUnavailable("the endpoint of S3 (AWS_ENDPOINT_URL) has a user name or password in it")
    return made


def is_amazon(endpoint: str) -> bool:
    """True if an endpoint is Amazon's own, which has a name for each bucket; others seldom have."""
    return (urlsplit(endpoint).hostname or "").endswith(_AMAZON)


def credentials() -> tuple[str, str, str | None]:
    """Return key, secret and perhaps a token, as they hold now, for a library that speaks to a store itself.

    Raises:
        StoreUnavailable: when there are none.
    """
    client(None)
    from botocore.exceptions import BotoCoreError

    try:
        found = _session(os.getpid()).get_credentials()
        now = found.get_frozen_credentials() if found else None
    except BotoCoreError as error:
        raise StoreUnavailable(f"no credentials of S3: {type(error).__name__}{_profile()}") from None
    if now is None:
        _session.cache_clear()
        raise StoreUnavailable(_NO_CREDENTIALS)
    return now.access_key, now.secret_key, now.token


@lru_cache(2)
def _session(_process: int) -> Any:
    import botocore.session

    return botocore.session.Session()


def _instant(text: str) -> datetime:
    """Read a time as a listing tells it, in half the time that the library takes for a key; others as this does."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        from botocore.utils import parse_timestamp

        found: datetime = parse_timestamp(text)
        return found


def _profile() -> str:
    profile = os.environ.get("AWS_PROFILE")
    return f"; AWS_PROFILE is {profile!r}" if profile else ""


def refusals() -> tuple[type[Exception]]:
    """Return the errors by which a store refuses a request."""
    from botocore.exceptions import ClientError

    return (ClientError,)


def broken_off() -> tuple[type[Exception], ...]:
    """Return the errors of an answer that ends in its midst, after which the library does not ask again."""
    from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return IncompleteReadError, ReadTimeoutError, ResponseStreamingError


def code_of(error: Any) -> str:
    """Return the code of such an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def answers(what: str, endpoint: str | None) -> Iterator[None]:
    """Tell what a store answers without what it says: that may hold parts of a request."""
    client(endpoint)
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise _told(what, code_of(error), _at(endpoint)) from None
    except BotoCoreError as error:
        raise StoreUnavailable(f"{what}: {_lacking(error, _at(endpoint))}") from None


def _told(what: str, code: str, at: str) -> Exception:
    is_object = what.count("/") > 2
    if code == "NoSuchBucket" or (code in _GONE and not is_object):
        return StoreUnavailable(f"{what}: there is no such bucket at {at}")
    if code in _GONE:
        return FileNotFoundError(2, "No such object", what)
    if code in _CHANGED:
        return ObjectUnread(f"{what} was replaced while it was read")
    if code in _REFUSED and is_object:
        return ObjectUnread(f"{what}: {at} does not give it ({code}); reading it takes s3:GetObject")
    if code in _REFUSED:
        return StoreUnavailable(f"{what}: {at} refuses ({code}); listing it takes s3:ListBucket")
    return StoreUnavailable(f"{what}: {at} answers {code or 'nothing that can be read'}")


def _lacking(error: Exception, at: str) -> str:
    from botocore import exceptions as known

    if isinstance(error, known.NoCredentialsError | known.PartialCredentialsError):
        # Those that come later are looked for again.
        _client.cache_clear()
        return _NO_CREDENTIALS
    if isinstance(error, known.HTTPClientError | known.ConnectionError):
        return f"{at} does not answer ({type(error).__name__})"
    return f"{type(error).__name__} from {at}"


def _at(endpoint: str | None) -> str:
    address = urlsplit(client(endpoint).meta.endpoint_url)
    return f"{address.scheme}://{address.hostname}" + (f":{address.port}" if address.port else "")
