"""Objects of S3, and of what speaks its protocol, through botocore (``store_client.py``)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakehouse.config.store_address import Address
from lakehouse.storage.stores.store_client import TRIES, answers, broken_off, client, code_of, refusals
from lakehouse.storage.stores.store_objects import Head, Piece

_PAST_END = ("InvalidRange", "416")
# How a store says that the object is there, or that another is writing it now.
_LOST = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")


@dataclass(frozen=True)
class S3Objects:
    """The objects of a store at an endpoint, None for the usual one; ``store_objects.py`` says what each answers."""

    endpoint: str | None

    def head(self, place: Address) -> Head:
        """Return what is known of an object."""
        with answers(place.url, self.endpoint):
            found = self._client.head_object(Bucket=place.bucket, Key=place.key)
            return Head(found["ContentLength"], found["LastModified"], found["ETag"])

    def content(self, place: Address) -> bytes:
        """Return an object whole."""
        with answers(place.url, self.endpoint):
            content: bytes = self._client.get_object(Bucket=place.bucket, Key=place.key)["Body"].read()
        return content

    def piece(self, place: Address, at: int, size: int, tag: str) -> Piece | None:
        """Return some bytes; a connection that breaks off in their midst is tried again."""
        asked = {"Bucket": place.bucket, "Key": place.key, "Range": f"bytes={at}-{at + size - 1}"}
        if tag:
            asked["IfMatch"] = tag
        with answers(place.url, self.endpoint):
            for left in reversed(range(TRIES)):
                try:
                    return _given(self._client.get_object(**asked))
                except broken_off():
                    if not left:
                        raise
                    time.sleep(0.1)
                except refusals() as error:
                    if code_of(error) in _PAST_END:
                        return None
                    raise
        raise AssertionError("the last try returns or raises")

    def write_new(self, place: Address, content: bytes) -> None:
        """Write an object where there is none."""
        with answers(place.url, self.endpoint):
            try:
                self._client.put_object(Bucket=place.bucket, Key=place.key, Body=content, IfNoneMatch="*")
            except refusals() as error:
                if code_of(error) in _LOST:
                    raise FileExistsError(17, "There is such an object", place.url) from None
                raise

    def delete(self, place: Address) -> None:
        """Delete an object."""
        with answers(place.url, self.endpoint):
            self._client.delete_object(Bucket=place.bucket, Key=place.key)

    def listed(self, place: Address, after: str = "", page: int | None = None) -> Iterator[tuple[str, Head]]:
        """Yield objects by key. Cost: a request for each 1,000 keys."""
        asked: dict[str, Any] = {"PaginationConfig": {"PageSize": page}} if page else {}
        if after:
            asked["StartAfter"] = after
        for found in self._pages(place, asked):
            for each in found.get("Contents", ()):
                yield each["Key"], Head(each["Size"], each["LastModified"], each["ETag"])

    def level(self, place: Address) -> Iterator[str]:
        """Yield names. Cost: a request for each 1,000 of them."""
        for found in self._pages(place, {"Delimiter": "/"}):
            yield from (each["Prefix"].split("/")[-2] for each in found.get("CommonPrefixes", ()))
            names = (each["Key"].rpartition("/")[2] for each in found.get("Contents", ()))
            yield from (name for name in names if name)

    def _pages(self, place: Address, asked: dict[str, Any]) -> Iterator[Any]:
        with answers(place.root, self.endpoint):
            pages = self._client.get_paginator("list_objects_v2")
            yield from pages.paginate(Bucket=place.bucket, Prefix=place.key, **asked)

    @property
    def _client(self) -> Any:
        return client(self.endpoint)


def _given(answer: Any) -> Piece:
    """Return what an answer holds."""
    content: bytes = answer["Body"].read()
    whole = int(answer["ContentRange"].rpartition("/")[2]) if "ContentRange" in answer else len(content)
    return Piece(content, whole, answer["ETag"])
