"""Objects of Google's and Microsoft's stores, through obstore, whose engine is also deltalake's.

Credentials come from the ordinary chain of each cloud, which that engine goes through by itself:

    gs       GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT, gcloud's default login, the machine's account
    abfss    AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY, AZURE_CLIENT_ID with its secret or token file, az, the
             machine's identity

What a store or the engine says is looked at and never told: it quotes requests.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from lakehouse.config.store_address import Address
from lakehouse.storage.stores.store_client import TRIES, ObjectUnread, StoreUnavailable
from lakehouse.storage.stores.store_objects import Head, Piece

log = logging.getLogger(__name__)

_CONNECT_S, _READ_S, _RETRY_S = 5, 60, 60
# What sets another address than the cloud's own, in either library.
_ENDPOINTS = {
    "gs": ("GOOGLE_BASE_URL",),
    "abfss": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_CREDENTIALS = {
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or log in with gcloud, or give the machine a service account",
    "abfss": "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_CLIENT_ID and its like, or give the machine an identity",
}
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|ContainerBeingDeleted")
_NO_CREDENTIALS = re.compile(
    "TokenRequest|TokenResponseBody|MissingCredentials|DecodeKey|token request", re.IGNORECASE
)
_STATUS = re.compile(r"status code: (\d{3})")
_REFUSED = ("401", "403")
# The key that the engine cannot name, as its errors have it.
_NAMED = re.compile(
    r'Path "(.*?)"(?: contained empty path segment|: Encountered illegal character sequence)', re.DOTALL
)
_WHY = "a key with an empty part, '.', '..' or a control character cannot be read there"


class CloudObjects:
    """The objects of a store; ``store_objects.py`` says what each answers."""

    def head(self, place: Address) -> Head:
        """Return what is known of an object."""
        with answers(place, place.url):
            return _head(_obstore().head(_store(place), place.key))

    def content(self, place: Address) -> bytes:
        """Return an object whole."""
        with answers(place, place.url):
            return bytes(_obstore().get(_store(place), place.key).bytes())

    def piece(self, place: Address, at: int, size: int, tag: str) -> Piece | None:
        """Return some bytes."""
        options: dict[str, Any] = {"range": (at, at + size)} | ({"if_match": tag} if tag else {})
        with answers(place, place.url):
            try:
                found = _obstore().get(_store(place), place.key, options=options)
                return Piece(bytes(found.bytes()), found.meta["size"], found.meta["e_tag"] or "")
            except _errors().GenericError:
                # A range behind the end is refused without a code of its own.
                if self.head(place).size > at:
                    raise
                return None

    def write_new(self, place: Address, content: bytes) -> None:
        """Write an object where there is none."""
        with answers(place, place.url):
            _obstore().put(_store(place), place.key, content, mode="create")

    def delete(self, place: Address) -> None:
        """Delete an object."""
        try:
            with answers(place, place.url):
                _obstore().delete(_store(place), place.key)
        except FileNotFoundError:
            pass

    def listed(self, place: Address, after: str = "", page: int | None = None) -> Iterator[tuple[str, Head]]:
        """Yield objects by key. Cost: a request for some thousand keys of the folder that the place is in.

        Raises:
            StoreUnavailable: where a key comes that the engine cannot name, which fails its whole page of the listing.
        """
        folder = place.key.rpartition("/")[0]
        # The engine lists folders; what begins likewise comes behind the beginning without its last character.
        after = max(after, place.key[:-1]) if place.key.strip("/") != folder else after
        with answers(place, place.root):
            for found in _obstore().list(
                _store(place), folder or None, offset=after or None, chunk_size=page or 1000
            ):
                # A server that knows no offset begins with the first key.
                for each in found:
                    if each["path"] > after and each["path"].startswith(place.key):
                        yield each["path"], _head(each)

    def level(self, place: Address) -> Iterator[str]:
        """Yield names. Cost: a request for some thousand of them, all of which are in memory."""
        with answers(place, place.root):
            found = _obstore().list_with_delimiter(_store(place), place.key.rstrip("/") or None)
            yield from (each.rstrip("/").rpartition("/")[2] for each in found["common_prefixes"])
            yield from (each["path"].rpartition("/")[2] for each in found["objects"])


def delta_options(scheme: str, bucket: str) -> dict[str, str]:
    """Return how deltalake reaches a store, beyond what it finds in the environment itself."""
    options = {"allow_http": "true"} if _endpoint(scheme).startswith("http:") else {}
    return options | ({"account_name": _account(bucket)} if scheme == "abfss" else {})


class Written:
    """A file that is written to an object, in parts where it is large; it is there when the file is closed."""

    def __init__(self, place: Address) -> None:
        self._place = place
        with answers(place, place.url):
            self._file = _obstore().open_writer(_store(place), place.key)
        self.closed = False

    def write(self, content: Any) -> int:
        """Write some bytes."""
        with answers(self._place, self._place.url):
            # Of Arrow's buffers the engine takes no signed bytes.
            self._file.write(memoryview(content).cast("B"))
        return len(content)

    def flush(self) -> None:
        """Do nothing: a store has no object in part."""

    def close(self) -> None:
        """Let the object be there."""
        if not self.closed:
            self.closed = True
            with answers(self._place, self._place.url):
                self._file.close()


def _store(place: Address) -> Any:
    return _made(place.scheme, place.bucket, _endpoint(place.scheme), os.getpid())


@lru_cache(16)
def _made(scheme: str, bucket: str, endpoint: str, _process: int) -> Any:
    from obstore.store import from_url

    root = f"{scheme}://{bucket}"
    options = _client_options(endpoint)
    if scheme == "abfss":
        options["config"] = {"account_name": _account(bucket)}
    return from_url(root, **options)


def _client_options(endpoint: str) -> dict[str, Any]:
    times = {"connect_timeout": timedelta(seconds=_CONNECT_S), "timeout": timedelta(seconds=_READ_S)}
    retries = {"max_retries": TRIES - 1, "retry_timeout": timedelta(seconds=_RETRY_S)}
    return {
        "client_options": {**times, "allow_http": endpoint.startswith("http:")},
        "retry_config": retries,
    }


def _account(bucket: str) -> str:
    return bucket.partition("@")[2].partition(".")[0]


def _endpoint(scheme: str) -> str:
    """Return the address of a store that is not the cloud's own, as the environment has it."""
    return next((found for name in _ENDPOINTS[scheme] if (found := os.environ.get(name))), "")


def _at(place: Address) -> str:
    own = {
        "gs": "https://storage.googleapis.com",
        "abfss": f"https://{_account(place.bucket)}.blob.core.windows.net",
    }
    address = urlsplit(_endpoint(place.scheme) or own[place.scheme])
    return f"{address.scheme}://{address.hostname}" + (f":{address.port}" if address.port else "")


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise StoreUnavailable(
            "a store at gs:// or abfss:// needs obstore: pip install 'tidemark[gs]' or 'tidemark[abfss]'"
        ) from None
    return obstore


def _errors() -> Any:
    from obstore import exceptions

    return exceptions


@contextmanager
def answers(place: Address, what: str) -> Iterator[None]:
    """Tell what a store answers without what it says: that may hold parts of a request. ``what``: object or bucket."""
    _obstore()
    try:
        yield
    except (_errors().BaseError, OSError, ValueError) as error:
        raise _told(place, what, error) from None


def _told(place: Address, what: str, error: Exception) -> Exception:
    known, said, at = _errors(), str(error), _at(place)
    code = next(iter(_STATUS.findall(said)), "")
    is_object = what != place.root
    if _NO_BUCKET.search(said):
        return StoreUnavailable(f"{what}: there is no such bucket at {at}")
    if isinstance(error, FileNotFoundError):
        gone = FileNotFoundError(2, "No such object", what)
        return gone if is_object else StoreUnavailable(f"{what}: there is no such bucket at {at}")
    if isinstance(error, known.AlreadyExistsError):
        return FileExistsError(17, "There is such an object", what)
    if isinstance(error, known.PreconditionError):
        return ObjectUnread(f"{what} was replaced while it was read")
    if isinstance(error, known.InvalidPathError | ValueError):
        named = next((f" ({key!r})" for key in _NAMED.findall(said)), "")
        return OSError(22, _WHY, what) if is_object else StoreUnavailable(f"{what}: {_WHY}{named}: delete it")
    if _NO_CREDENTIALS.search(said):
        return StoreUnavailable(f"there are no credentials for {place.root}: {_CREDENTIALS[place.scheme]}")
    if code in _REFUSED:
        kind = ObjectUnread if is_object else StoreUnavailable
        return kind(f"{what}: {at} does not give it ({code})")
    if code:
        return StoreUnavailable(f"{what}: {at} answers {code}")
    return StoreUnavailable(f"{what}: {at} does not answer ({type(error).__name__})")


def _head(found: Any) -> Head:
    return Head(found["size"], found["last_modified"], found["e_tag"] or "")
