"""A stand-in for Google's storage that tests start and kill, on the loopback: moto's server of S3.

What Google calls its XML protocol is that of S3 but for a few headers, of which the one that says "where there is none"
is translated here. It takes any credentials, keeps objects in memory, and looks first and writes then.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.servers import Server
from tests.support.stores.bucket import serving

BUCKET, SECRET = "landing", "never-to-be-said-by-anyone-at-all"
ROOT = f"gs://{BUCKET}"
_SIGNED = "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


class Google(Server):
    """A server with one bucket."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        root = Path(__file__).parents[3]
        words = [sys.executable, "-m", "tests.support.stores.google", str(self.port)]
        self.begin(words, env=env | {"PYTHONPATH": str(root)})

    def make_bucket(self) -> None:
        self._create("")

    def put_raw(self, key: str) -> None:
        """Write an empty object under a key that libraries may refuse."""
        self._create(f"/{quote(key)}")

    def _create(self, path: str) -> None:
        asked = urllib.request.Request(f"{self.endpoint}/{BUCKET}{path}", method="PUT", data=b"")
        with urllib.request.urlopen(asked) as answer:
            assert answer.status == 200


@contextmanager
def named() -> Iterator[Google]:
    """Start a server that everything in this process looks for, with credentials; undo both afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-google-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in [name for name in os.environ if name.startswith("GOOGLE_")]:
            patch.delenv(name)
        server = Google(Path(folder))
        account = {
            "gcs_base_url": server.endpoint,
            "disable_oauth": True,
            "client_email": "nobody@example.com",
        }
        (server.folder / "account.json").write_text(
            json.dumps(account | {"private_key": SECRET, "private_key_id": ""})
        )
        patch.setenv("GOOGLE_SERVICE_ACCOUNT", str(server.folder / "account.json"))
        patch.setenv("GOOGLE_BASE_URL", server.endpoint)
        with serving(server):
            yield server


def _as_s3(application: Any) -> Callable[..., Any]:
    def answer(environ: dict[str, Any], start: Any) -> Any:
        if environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH") == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
        # Of a token it makes nothing; signatures it reads and does not check.
        environ["HTTP_AUTHORIZATION"] = _SIGNED
        return application(environ, start)

    return answer


if __name__ == "__main__":
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    served = _as_s3(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), served, threaded=True)
