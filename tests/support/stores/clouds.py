"""The servers of stores other than S3, by the scheme of their URLs."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.support.stores import azure, google
from tests.support.stores.azure import Azurite
from tests.support.stores.google import Google

CLOUDS = {"gs": google, "abfss": azure}
ROOTS = {scheme: cloud.ROOT for scheme, cloud in CLOUDS.items()}
SECRETS = {scheme: cloud.SECRET for scheme, cloud in CLOUDS.items()}


def cloud(scheme: str) -> AbstractContextManager[Google | Azurite]:
    """Start the server of a scheme, which everything in this process looks for."""
    return google.named() if scheme == "gs" else azure.named()
