"""URLs of objects on a store: which stores there are, and what a URL of one names. Standard library only."""

import re
from glob import has_magic
from typing import NamedTuple

_KEYS = r"(/(?!\.\.?(/|$))[A-Za-z0-9._=-]+)*/?"
_AZURE = r"[a-z0-9](-?[a-z0-9]){2,62}@[a-z0-9]{3,24}\.dfs\.core\.windows\.net"
# What names a bucket, by scheme.
_BUCKETS = {
    "s3": r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "gs": r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]",
    "abfss": _AZURE,
}
SCHEMES = tuple(_BUCKETS)
SUCH_AS = {
    "s3": "s3://bucket",
    "gs": "gs://bucket",
    "abfss": "abfss://container@account.dfs.core.windows.net",
}
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_REMOTE = tuple(f"{scheme}://" for scheme in SCHEMES)
_PLACE = re.compile("|".join(f"{scheme}://{bucket}{_KEYS}" for scheme, bucket in _BUCKETS.items()))


class Address(NamedTuple):
    """An object's store, bucket and key, or a pattern of keys; on Azure a bucket is ``container@account...``.

    ``endpoint``: where a store of S3 is, None for where the environment says.
    """

    scheme: str
    bucket: str
    key: str
    endpoint: str | None = None

    @property
    def root(self) -> str:
        """The URL of the bucket."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def url(self) -> str:
        """The URL of the object."""
        return f"{self.root}/{self.key}"


def is_remote(path: str) -> bool:
    """True if a landed file, or a pattern of some, is on an object store."""
    return path.startswith(_REMOTE)


def is_url(path: str) -> bool:
    """True for a URL of any kind, which is no path of a file system."""
    return bool(_URL.match(path))


def is_place(url: str) -> bool:
    """True if a URL names a place for tables: a bucket, perhaps with a prefix of plain names."""
    return bool(_PLACE.fullmatch(url))


def is_bucket(scheme: str, bucket: str) -> bool:
    """True if a name is one of a bucket, so no pattern."""
    return bool(re.fullmatch(_BUCKETS[scheme], bucket))


def address_of(url: str, endpoint: str | None = None) -> Address:
    """Return what a URL names; the key may hold any character, ``?`` and ``#`` among them."""
    scheme, _, place = url.partition("://")
    bucket, _, key = place.partition("/")
    return Address(scheme, bucket, key, endpoint)


def fixed_part(pattern: str) -> str:
    """Return what all keys that match a pattern begin with."""
    return re.split(r"[*?\[]", pattern)[0] if has_magic(pattern) else pattern
