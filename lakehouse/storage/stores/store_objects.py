"""Protocol of an object store, whichever one it speaks.

Everything raises StoreUnavailable, ObjectUnread or FileNotFoundError as ``store_client.py`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

from lakehouse.config.store_address import Address


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


class Objects(Protocol):
    """The objects of a store."""

    def head(self, place: Address) -> Head:
        """Return what is known of an object."""
        ...

    def content(self, place: Address) -> bytes:
        """Return an object whole."""
        ...

    def piece(self, place: Address, at: int, size: int, tag: str) -> Piece | None:
        """Return some bytes of the version with a tag, of any without one; None behind the end.

        Raises:
            ObjectUnread: when the object has another tag by now.
        """
        ...

    def write_new(self, place: Address, content: bytes) -> None:
        """Write an object where there is none.

        Raises:
            FileExistsError: when there is one.
        """
        ...

    def delete(self, place: Address) -> None:
        """Delete an object; one that is gone is passed over."""
        ...

    def listed(self, place: Address, after: str = "", page: int | None = None) -> Iterator[tuple[str, Head]]:
        """Yield the objects whose keys begin with that of a place and come behind ``after``, ordered by key.

        ``page``: how many are asked for at once.
        """
        ...

    def level(self, place: Address) -> Iterator[str]:
        """Yield the names of objects and folders directly below a folder."""
        ...
