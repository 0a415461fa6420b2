"""Clients of object stores, by the scheme of their URLs.

s3       store_s3.py, by botocore
gs       store_clouds.py, by obstore
abfss    store_clouds.py, by obstore
"""

from __future__ import annotations

from lakehouse.declare.store_address import Address
from lakehouse.home.store_objects import Objects


def objects_of(place: Address, endpoint: str | None = None) -> Objects:
    """Return who speaks to the store that has an object; ``endpoint``: where it is, None for the usual place."""
    # A process has to do with one kind of store, if any.
    if place.scheme == "s3":
        from lakehouse.home.store_s3 import S3Objects

        return S3Objects(endpoint)
    from lakehouse.home.store_clouds import CloudObjects

    return CloudObjects()
