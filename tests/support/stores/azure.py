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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.servers import Server
from tests.support.stores.bucket import serving

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
        self._create(CONTAINER, "restype", "container")

    def put_raw(self, key: str) -> None:
        """Write an empty object under a key that libraries may refuse."""
        self._create(f"{CONTAINER}/{quote(key)}", headers={"x-ms-blob-type": "BlockBlob"})

    def _create(self, path: str, *query: str, headers: Mapping[str, str] | None = None) -> None:
        told = {**(headers or {}), "x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        place = "".join([f"/{ACCOUNT}/{ACCOUNT}/{path}", *(["\n" + ":".join(query)] if query else [])])
        text = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in told.items()) + place
        signed = hmac.new(base64.b64decode(SECRET), text.encode(), hashlib.sha256).digest()
        told["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}"
        url = f"{self.endpoint}/{path}" + ("?" + "=".join(query) if query else "")
        asked = urllib.request.Request(url, method="PUT", headers=told | {"Content-Length": "0"})
        with urllib.request.urlopen(asked) as answer:
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
