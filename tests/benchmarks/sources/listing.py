"""Cost of looking for new files on a store: all keys, and those behind the last one alone.

A process of its own answers as S3 does, a thousand keys at a time and without a disk, so what is measured is this side:
requests, and processors of listing, of comparing with manifests and of remembering how far it was.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import urllib.request
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.listing import Look
from lakehouse.storage.stores import store_access

PAGE = 1000
_COUNT = "/-/requests"
_OBJECT = (
    "<Contents><Key>in/{:012}.csv</Key><LastModified>2026-01-05T06:00:00.000Z</LastModified>"
    "<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


def figures(quick: bool) -> dict[str, Any]:
    """Return requests and seconds of processors of looks at stores of two sizes."""
    sizes = (2_000, 20_000) if quick else (10_000, 100_000)
    return {"page": PAGE} | {
        f"{name}_at_{size}": value for size in sizes for name, value in _looks(size).items()
    }


def _looks(keys: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with _answering(keys) as endpoint, tempfile.TemporaryDirectory() as folder:
        source = Source.model_validate(
            {"path": "s3://store/in/*.csv", "format": "csv", "endpoint": endpoint, "key_order": "time"}
        )
        for name in ("all", "next"):
            before, began = _requests(endpoint), time.process_time()
            look = Look(Path(folder), source)
            seen = sum(len(piece) for piece in look.pieces())
            look.note()
            found[f"{name}_s"] = round(time.process_time() - began, 4)
            found |= {f"{name}_requests": _requests(endpoint) - before, f"{name}_keys": seen}
    return found


def _requests(endpoint: str) -> int:
    """Return how many listings the server has answered."""
    with urllib.request.urlopen(f"{endpoint}{_COUNT}") as answer:
        return int(answer.read())


@contextmanager
def _answering(keys: int) -> Iterator[str]:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(keys, there), daemon=True)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "any")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "any")
        store_access.forget()
        try:
            yield f"http://127.0.0.1:{here.recv()}"
        finally:
            store_access.forget()
            server.terminate()
            server.join()


def _serve(keys: int, port: Connection) -> None:
    objects = [_OBJECT.format(number) for number in range(keys)]
    answered: list[str] = []
    names = [f"in/{number:012}.csv" for number in range(keys)]

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == _COUNT:
                self._send(str(len(answered)).encode())
                return
            answered.append(self.path)
            asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            after = asked.get("continuation-token") or asked.get("start-after", "")
            low = bisect_right(names, after)
            high = min(low + PAGE, keys)
            is_cut = high < keys
            more = f"<NextContinuationToken>{names[high - 1]}</NextContinuationToken>" if is_cut else ""
            body = (
                '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<Name>store</Name><KeyCount>{high - low}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
                f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{more}{''.join(objects[low:high])}</ListBucketResult>"
            ).encode()
            self._send(body)

        def _send(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    port.send(server.server_address[1])
    server.serve_forever()
