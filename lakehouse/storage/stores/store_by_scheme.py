"""Clients of object stores, by the scheme of their URLs.

s3       store_s3.py, by botocore
gs       store_clouds.py, by obstore
abfss    store_clouds.py, by obstore
"""

from __future__ import annotations

from lakehouse.config.store_address import Address
from lakehouse.storage.stores.store_objects import Objects


def objects_of(place: Address, endpoint: str | None = None) -> Objects:
    """Return who speaks to the store that has an object; ``endpoint``: where it is, None for the usual place."""
    # A process has to do with one kind of store, if any.
    if place.scheme == "s3":
        from lakehouse.storage.stores.store_s3 import S3Objects

        return S3Objects(endpoint)
    from lakehouse.storage.stores.store_clouds import CloudObjects

    return CloudObjects()
