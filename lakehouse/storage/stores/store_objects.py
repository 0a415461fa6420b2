"""Objects of stores on S3, at Google and Microsoft, through obstore, whose engine is also deltalake's.

Whatever fails is a StoreUnavailable, an ObjectUnread or, of one object, a FileNotFoundError or FileExistsError. What a
store or the engine says is looked at and never quoted: it may hold parts of a request.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.config.store_address import Address
from lakehouse.storage.stores.store_access import (
    NO_CREDENTIALS,
    ObjectUnread,
    StoreUnavailable,
    endpoint_of,
    engine_options,
    shown_endpoint,
)

# A request is made so often, and waited for so long.
TRIES = 3
_CONNECT_S, _READ_S, _RETRY_S = 5, 60, 60
_RIGHTS = {"s3": ("; reading it takes s3:GetObject", "; listing it takes s3:ListBucket")}
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|ContainerBeingDeleted")
_NO_TOKEN = re.compile(
    "TokenRequest|TokenResponseBody|MissingCredentials|DecodeKey|token request", re.IGNORECASE
)
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_REFUSED, _PAST_END = ("401", "403"), "416"
# The key that the engine cannot name, as its errors have it.
_NAMED = re.compile(
    r'Path "(.*?)"(?: contained empty path segment|: Encountered illegal character sequence)', re.DOTALL
)
_WHY = "a key with an empty part, '.', '..' or a control character cannot be read there"


class Head(NamedTuple):
    """Size, time of upload, and what is another where the content is."""

    size: int
    uploaded: datetime
    tag: str

    @property
    def uploaded_ns(self) -> int:
        """The time of upload in whole milliseconds, which is what stores tell, as nanoseconds."""
        return round(self.uploaded.timestamp() * 1000) * 1_000_000


class Piece(NamedTuple):
    """Some bytes of an object, the size of the whole, and its tag."""

    content: bytes
    size: int
    tag: str


def head(place: Address) -> Head:
    """Return what is known of an object."""
    with answers(place, place.url):
        return _head(_obstore().head(_store(place), place.key))


def exists(place: Address) -> bool:
    """Return True if there is such an object."""
    try:
        head(place)
    except FileNotFoundError:
        return False
    return True


def content(place: Address) -> bytes:
    """Return an object whole."""
    with answers(place, place.url):
        return bytes(_obstore().get(_store(place), place.key).bytes())


def piece(place: Address, at: int, size: int, tag: str) -> Piece | None:
    """Return some bytes of the version with a tag, of any without one; None behind the end.

    Raises ObjectUnread when the object has another tag by now.
    """
    options: dict[str, Any] = {"range": (at, at + size)} | ({"if_match": tag} if tag else {})
    with answers(place, place.url):
        try:
            found = _obstore().get(_store(place), place.key, options=options)
            return Piece(bytes(found.bytes()), found.meta["size"], found.meta["e_tag"] or "")
        except _errors().GenericError as error:
            # A range behind the end is refused without an error of its own.
            if _PAST_END not in _STATUS.findall(str(error)):
                raise
            return None


def write_new(place: Address, content: bytes) -> None:
    """Write an object where there is none.

    Raises FileExistsError when there is one, perhaps by this very call: its answer may be lost, and it is tried
    again.
    """
    with answers(place, place.url):
        _obstore().put(_store(place), place.key, content, mode="create")


def upload(place: Address, file: Path) -> None:
    """Write a file of this machine, of any size, as an object."""
    with answers(place, place.url):
        _obstore().put(_store(place), place.key, file)


def delete(place: Address) -> None:
    """Delete an object; one that is gone is passed over."""
    with suppress(FileNotFoundError), answers(place, place.url):
        _obstore().delete(_store(place), place.key)


def listed(place: Address, after: str = "", page: int | None = None) -> Iterator[tuple[str, Head]]:
    """Yield the objects whose keys begin with that of a place and come behind ``after``, ordered by key.

    ``page``: how many are handed over at once. Cost: a request for each 1,000 keys from there on, at Microsoft for each
    key of the folder. Raises StoreUnavailable where a key comes that the engine cannot name, which fails its whole
    page of the listing.
    """
    folder = place.key.rpartition("/")[0]
    # The engine lists folders; what begins likewise comes behind the beginning without its last character.
    after = max(after, place.key[:-1]) if place.key.strip("/") != folder else after
    with answers(place, place.root):
        pages = _obstore().list(_store(place), folder or None, offset=after or None, chunk_size=page or 1000)
        for each in (each for found in pages for each in found):
            key = each["path"]
            # A server that knows no offset begins with the first key.
            if key > after and key.startswith(place.key):
                yield key, _head(each)
            elif key > place.key and place.scheme != "abfss":
                # Microsoft's folders are in an order of their own.
                return


def level(place: Address) -> Iterator[str]:
    """Yield the names of objects and folders directly below a folder. Cost: a request for each 1,000; all in memory."""
    with answers(place, place.root):
        found = _obstore().list_with_delimiter(_store(place), place.key.rstrip("/") or None)
        yield from (each.rstrip("/").rpartition("/")[2] for each in found["common_prefixes"])
        yield from (each["path"].rpartition("/")[2] for each in found["objects"])


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
    return _made(place.root, endpoint_of(place), *engine_options(place).items())


@lru_cache(16)
def _made(root: str, _endpoint: str, *options: tuple[str, str]) -> Any:
    from obstore.store import from_url

    config: Any = dict(options)
    client: Any = {"connect_timeout": timedelta(seconds=_CONNECT_S), "timeout": timedelta(seconds=_READ_S)}
    return from_url(
        root,
        client_options=client | {"allow_http": bool(config.pop("allow_http", ""))},
        retry_config={"max_retries": TRIES - 1, "retry_timeout": timedelta(seconds=_RETRY_S)},
        config=config,
    )


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise StoreUnavailable(
            "an object store needs obstore: pip install 'tidemark[s3]', 'tidemark[gs]' or 'tidemark[abfss]'"
        ) from None
    return obstore


def _errors() -> Any:
    from obstore import exceptions

    return exceptions


@contextmanager
def answers(place: Address, what: str) -> Iterator[None]:
    """Turn what a store answers into the project's errors, without what it says. ``what``: object or bucket."""
    _obstore()
    try:
        yield
    except (_errors().BaseError, OSError, ValueError) as error:
        raise _translated(place, what, error) from None


def _translated(place: Address, what: str, error: Exception) -> Exception:
    known, text, at = _errors(), str(error), shown_endpoint(place)
    is_object = what != place.root
    no_bucket = StoreUnavailable(f"{what}: there is no such bucket at {at}")
    if _NO_BUCKET.search(text):
        return no_bucket
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(2, "No such object", what) if is_object else no_bucket
    if isinstance(error, known.AlreadyExistsError):
        return FileExistsError(17, "There is such an object", what)
    if isinstance(error, known.PreconditionError):
        return ObjectUnread(f"{what} was replaced while it was read")
    if isinstance(error, known.InvalidPathError | ValueError):
        named = next((f" ({key!r})" for key in _NAMED.findall(text)), "")
        return OSError(22, _WHY, what) if is_object else StoreUnavailable(f"{what}: {_WHY}{named}: delete it")
    if _NO_TOKEN.search(text):
        return StoreUnavailable(f"there are no credentials for {place.root}: {NO_CREDENTIALS[place.scheme]}")
    if "redirect without LOCATION" in text:
        return StoreUnavailable(
            f"{what}: {at} has it in another region: set AWS_REGION or the source's endpoint"
        )
    return _refused(place, what, text) or StoreUnavailable(
        f"{what}: {at} does not answer ({type(error).__name__})"
    )


def _refused(place: Address, what: str, text: str) -> Exception | None:
    """Return what a store's answer with a code means, None where there is no code."""
    at, is_object = shown_endpoint(place), what != place.root
    status = next(iter(_STATUS.findall(text)), "")
    # Of the answer itself only its code is shown.
    code = next(iter(_CODE.findall(text)), status)
    if status not in _REFUSED and code != "InvalidObjectState":
        return StoreUnavailable(f"{what}: {at} answers {code}") if code else None
    kind = ObjectUnread if is_object else StoreUnavailable
    right = _RIGHTS.get(place.scheme, ("", ""))[not is_object]
    return kind(f"{what}: {at} {'does not give it' if is_object else 'refuses'} ({code}){right}")


def _head(found: Any) -> Head:
    return Head(found["size"], found["last_modified"], found["e_tag"] or "")
