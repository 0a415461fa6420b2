"""A real S3 server that tests start, stop and kill, on the loopback: moto's, or the one of ``TIDEMARK_VERSITYGW``.

moto keeps objects in memory and takes any credentials; versitygw keeps them as files and checks signatures.

    python -m tests.support.stores.s3 COMMAND ...    run a command whose tables are on such a server, until it ends
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from lakehouse.spark.jars import missing_jars
from lakehouse.storage.stores import store_access
from tests.support.servers import Server, run_beside
from tests.support.stores.bucket import serving

KEY, SECRET = "AKIATESTTESTTESTTEST", "never/to/be/said/by/anyone/at/all/anywhere"
BUCKET = "landing"
_ASKED = re.compile(r'"(?:\x1b\[\d+m)*((?:GET|HEAD|PUT|POST|DELETE) \S+) HTTP')


def require_jars() -> None:
    """Skip a test of tables on a store where the jars are missing that sessions ask for there."""
    if missing_jars(store="s3"):
        pytest.skip("no jars for stores: `python -m lakehouse.spark.jars --s3`")


class S3(Server):
    """A server with one bucket."""

    def __init__(self, folder: Path) -> None:
        for module in ("botocore", "moto", "flask"):
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"no {module}: `make setup` installs it")
        super().__init__(folder)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_real(self) -> bool:
        """Whether it keeps objects on disk and checks who asks."""
        return "TIDEMARK_VERSITYGW" in os.environ

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        words, env = self._command()
        self.begin(words, env=env)

    def _command(self) -> tuple[list[str], dict[str, str]]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        if self.is_real:
            kept = self.folder / "objects"
            kept.mkdir(exist_ok=True)
            words = [os.environ["TIDEMARK_VERSITYGW"], "--port", f"127.0.0.1:{self.port}", "posix", str(kept)]
            return words, env | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)], env

    def make_bucket(self) -> None:
        self.client.create_bucket(Bucket=BUCKET)

    @cached_property
    def client(self) -> Any:
        """A client of the tests' own."""
        import botocore.session

        return botocore.session.Session().create_client("s3", "us-east-1", endpoint_url=self.endpoint)

    def requests(self) -> list[str]:
        """Return what was asked of it so far, as its log has it: a verb and a path each."""
        return _ASKED.findall((self.folder / "log").read_text())

    def put(self, key: str, content: bytes) -> str:
        """Upload an object; return its URL."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def remove(self, key: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=key)


@contextmanager
def running() -> Iterator[S3]:
    """Start a server with one empty bucket, and give this process credentials; undo both afterwards."""
    with tempfile.TemporaryDirectory(prefix="tidemark-s3-") as folder, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", f"{folder}/config")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{folder}/credentials")
        store_access.forget()
        server = S3(Path(folder))
        try:
            with serving(server):
                yield server
        finally:
            store_access.forget()


@contextmanager
def named() -> Iterator[S3]:
    """Start a server which is the one that everything in this process looks for, ``AWS_ENDPOINT_URL``."""
    with running() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        yield server


@contextmanager
def tables() -> Iterator[dict[str, str]]:
    """Start a server, and return the variable that puts tables there."""
    require_jars()
    with named() as server:
        path = f"s3://{BUCKET}/lake"
        print(f"tables are at {path} of an S3 server on port {server.port} of the loopback", flush=True)
        yield {"TIDEMARK_TABLES__PATH": path}


if __name__ == "__main__":
    raise SystemExit(run_beside(tables(), "tables are in the home"))
