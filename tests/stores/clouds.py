"""The servers of stores other than S3, by the scheme of their URLs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.servers import Server
from tests.stores import azure, google

CLOUDS = {"gs": google, "abfss": azure}
ROOTS = {scheme: cloud.ROOT for scheme, cloud in CLOUDS.items()}
SECRETS = {scheme: cloud.SECRET for scheme, cloud in CLOUDS.items()}


def _named(scheme: str) -> AbstractContextManager[Server]:
    return google.named() if scheme == "gs" else azure.named()


@contextmanager
def cloud(scheme: str) -> Iterator[Server]:
    """Start the server of a scheme, which everything in this process looks for."""
    with _named(scheme) as server:
        yield server
