"""Options by which deltalake, Arrow, DuckDB and Spark reach an object store themselves.

On S3 all are told what AWS's own library finds, so a profile, a role or an endpoint that serves one serves the others.
On the other stores all but Spark are one library of Rust, which looks for credentials itself (``store_clouds.py``).
Spark looks for them itself on every store, since what it is told can be read on its pages.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from lakehouse.storage.stores.store_client import client, credentials, is_amazon

_REGION = "us-east-1"


def delta_options(scheme: str, bucket: str) -> dict[str, str]:
    """Return how deltalake reaches a store."""
    if scheme != "s3":
        from lakehouse.storage.stores.store_clouds import delta_options as of_cloud

        return of_cloud(scheme, bucket)
    key, secret, token = credentials()
    endpoint = _endpoint()
    options = {
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "aws_region": _region(),
        "aws_endpoint": endpoint,
        "aws_allow_http": str(endpoint.startswith("http:")).lower(),
        # A version's log entry is only written where there is none.
        "aws_conditional_put": "etag",
    }
    return options | ({"aws_session_token": token} if token else {})


def arrow_filesystem(scheme: str) -> Any:
    """Return Arrow's way to the stores of a kind, whose paths begin with the bucket."""
    if scheme != "s3":
        from lakehouse.storage.stores.store_arrow import arrow_filesystem as of_cloud

        return of_cloud(scheme)
    return _filesystem(os.getpid(), *credentials(), _endpoint(), _region())


def duckdb_filesystem(scheme: str) -> Any:
    """Return DuckDB's way to the stores of a kind, by URL."""
    if scheme != "s3":
        from lakehouse.storage.stores.store_arrow import duckdb_filesystem as of_cloud

        return of_cloud(scheme)
    from fsspec.implementations.arrow import ArrowFSWrapper

    return ArrowFSWrapper(arrow_filesystem(scheme))


@lru_cache(4)
def _filesystem(_process: int, key: str, secret: str, token: str | None, endpoint: str, region: str) -> Any:
    from pyarrow.fs import S3FileSystem

    address = urlsplit(endpoint)
    return S3FileSystem(
        access_key=key,
        secret_key=secret,
        session_token=token,
        region=region,
        scheme=address.scheme,
        endpoint_override=None if is_amazon(endpoint) else address.netloc,
    )


def spark_options(scheme: str) -> dict[str, str]:
    """Return how Spark reaches a store; credentials are none of it, each process of Spark finds its own."""
    if scheme != "s3":
        # The options of a connector that the configuration names are the configuration's.
        return {}
    endpoint = _endpoint()
    told = {
        "impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "endpoint.region": _region(),
    }
    if not is_amazon(endpoint):
        told |= {"endpoint": endpoint, "path.style.access": "true"}
    options = {f"spark.hadoop.fs.s3a.{name}": value for name, value in told.items()}
    return {"spark.hadoop.fs.s3.impl": told["impl"], **options}


def _endpoint() -> str:
    return str(client(None).meta.endpoint_url)


def _region() -> str:
    return client(None).meta.region_name or _REGION
