"""A real server of Azure's blob storage that tests start and kill, on the loopback: azurite, Microsoft's own.

It keeps objects as files, checks signatures and writes what must be new for one writer alone. ``TIDEMARK_AZURITE``
names its program ``azurite-blob``, else that on the path is taken: ``npm install azurite`` brings it, 370 MB.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.servers import Server
from tests.stores.bucket import serving

ACCOUNT, SECRET = "tidemarktest", base64.b64encode(b"never to be said by anyone at all anywhere").decode()
CONTAINER = "landing"
ROOT = f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"


class Azurite(Server):
    """A server with one container."""

    def __init__(self, folder: Path) -> None:
        found = os.environ.get("TIDEMARK_AZURITE") or shutil.which("azurite-blob")
        if found is None:
            pytest.skip("no azurite-blob: `npm install azurite`, and TIDEMARK_AZURITE names it")
        self._program = found
        super().__init__(folder)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        place = (
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            str(self.port),
            "--location",
            str(self.folder / "objects"),
        )
        quiet = ("--silent", "--disableTelemetry", "--skipApiVersionCheck")
        known = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{SECRET}"}
        self.begin([self._program, *place, *quiet], env={**os.environ, **known})

    def make_bucket(self) -> None:
        when, version = formatdate(usegmt=True), "2021-08-06"
        place = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        text = "PUT" + "\n" * 12 + f"x-ms-date:{when}\nx-ms-version:{version}\n{place}"
        signed = hmac.new(base64.b64decode(SECRET), text.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": when,
            "x-ms-version": version,
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}",
            "Content-Length": "0",
        }
        url = f"{self.endpoint}/{CONTAINER}?restype=container"
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)) as answer:
            assert answer.status == 201


@contextmanager
def named() -> Iterator[Azurite]:
    """Start a server that everything in this process looks for, with credentials; undo both afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-azure-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in [name for name in os.environ if name.startswith("AZURE_")]:
            patch.delenv(name)
        server = Azurite(Path(folder))
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)
        patch.setenv("AZURE_STORAGE_ENDPOINT", server.endpoint)
        with serving(server):
            yield server
