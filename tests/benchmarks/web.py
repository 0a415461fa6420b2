"""Answers over HTTP, beside the same questions asked of DuckDB in a process and beside a scan of the raw rows.

    python -m tests.benchmarks.web [--quick] [--json]

The history of ``tests.benchmarks.rollup serving``: 100 devices, ten readings a second together; 10^7 rows (10^5 with
``--quick``). The server is ``tidemark web`` in a process of its own; clients are threads of this one, each with its
connection. Server and clients share the machine's processors, so 64 clients measure a queue. Times in milliseconds.
"""

from __future__ import annotations

import http.client
import itertools
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psutil

from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import Question
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.web.security.tokens import OWN_TOKEN
from tests.benchmarks.parts import run_parts
from tests.benchmarks.rollup.serving import (
    DAY_US,
    DEVICES,
    START_US,
    STEP_US,
    Range,
    published_in,
    quantile,
    ranges,
    write_nodes,
    write_rows,
)

ROWS, QUICK_ROWS = 10**7, 10**5
REQUESTS, QUICK_REQUESTS = 10**6, 500
LISTENERS, QUICK_LISTENERS = 10_000, 100
_TOKEN = "t" * 43
_AUTHORISED = {"Authorization": f"Bearer {_TOKEN}"}


@dataclass(frozen=True)
class Server:
    """A running server: where it answers, and its process."""

    host: str
    port: int
    process: psutil.Process

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection that stays open."""
        return http.client.HTTPConnection(self.host, self.port, timeout=60)

    @property
    def mb(self) -> float:
        """The memory that the server holds."""
        return float(self.process.memory_info().rss) / 1e6

    @property
    def processors_s(self) -> float:
        """The time that processors have worked for the server; other work on the machine does not change it."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


def figures(quick: bool) -> dict[str, Any]:
    """Return all figures."""
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        raw = write_rows(folder, rows)
        published_in(folder, write_nodes(folder / "nodes", rows))
        asked = ranges(rows * STEP_US, 20 if quick else 2_000)
        found: dict[str, Any] = {"rows": rows, **_alone(folder, raw, asked)}
        with _served(folder / "home") as (server, started_s):
            found["start_s"] = round(started_s, 2)
            for clients in (1, 8, 64):
                found |= _clients(server, asked, clients)
            found |= _known(server, 50 if quick else 5_000) | _charts(server, rows, 10 if quick else 300)
            found |= _memory(server, QUICK_REQUESTS if quick else REQUESTS)
            found |= _listeners(server, QUICK_LISTENERS if quick else LISTENERS)
        found["over_duckdb_alone"] = round(found["ask_1_p50_ms"] / found["alone_p50_ms"], 2)
        found["raw_scan_over_ask"] = round(found["raw_scan_p50_ms"] / found["ask_1_p50_ms"], 2)
        return found


@contextmanager
def _served(home: Path) -> Iterator[tuple[Server, float]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.perf_counter()
    line = [sys.executable, "-m", "lakehouse.cli", "--home", str(home), "web", "--bind", f"127.0.0.1:{port}"]
    environment = os.environ | {OWN_TOKEN: _TOKEN}
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        server = Server("127.0.0.1", port, psutil.Process(process.pid))
        while True:
            with suppress(OSError):
                _get(server.connection(), "/latest/streams.json")
                break
            assert time.perf_counter() - began < 60, "the server does not answer"
            time.sleep(0.01)
        yield server, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(timeout=20)


def _get(connection: http.client.HTTPConnection, path: str, etag: str = "") -> tuple[int, str]:
    """Ask, read everything, and return the status and the validator."""
    connection.request("GET", path, headers=_AUTHORISED | ({"If-None-Match": etag} if etag else {}))
    answered = connection.getresponse()
    answered.read()
    return answered.status, answered.headers.get("etag", "")


def _path(one: Range) -> str:
    between = f"from={one.start_us}us&to={one.end_us}us"
    return f"/latest/ask.json?stream=readings&measure=temp&agg=sum&{between}&where=device={one.device}"


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def _told(name: str, taken: Sequence[float]) -> dict[str, float]:
    return {
        f"{name}_p50_ms": round(statistics.median(taken), 2),
        f"{name}_p95_ms": round(quantile(taken, 0.95), 2),
    }


def _alone(folder: Path, raw: str, asked: Sequence[Range]) -> dict[str, float]:
    """Ask DuckDB in this process: the published nodes, and the raw rows."""
    with open_published(folder / "home") as reader, duckdb.connect(config={"threads": 2}) as scan:

        def ours(one: Range) -> object:
            where: dict[str, str | None] = {"device": str(one.device)}
            question = Question("readings", "temp", "sum", one.start_us, one.end_us, where)
            return answer(reader.connection, question)

        def raw_scan(one: Range) -> object:
            return scan.execute(
                f"SELECT sum(temp) FROM read_parquet('{raw}') WHERE device = {one.device} "
                f"AND event_us >= {one.start_us} AND event_us < {one.end_us}"
            ).fetchall()

        some = asked[:200]
        taken = [_timed(lambda one=one: ours(one)) for one in asked]  # type: ignore[misc]
        scanned = [_timed(lambda one=one: raw_scan(one)) for one in some]  # type: ignore[misc]
    return _told("alone", taken) | _told("raw_scan", scanned)


def _clients(server: Server, asked: Sequence[Range], clients: int) -> dict[str, float]:
    """Ask from several clients at once, each with a connection of its own."""
    taken: list[float] = []
    left = iter(asked)
    lock = threading.Lock()

    def work() -> None:
        connection = server.connection()
        while True:
            with lock:
                one = next(left, None)
            if one is None:
                return
            path = _path(one)
            spent = _timed(lambda path=path: _get(connection, path))  # type: ignore[misc]
            with lock:
                taken.append(spent)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    per_s = round(len(asked) / (time.perf_counter() - began))
    return _told(f"ask_{clients}", taken) | {f"ask_{clients}_per_s": per_s}


def _known(server: Server, times: int) -> dict[str, float]:
    connection = server.connection()
    path = _path(Range(3, START_US, START_US + DAY_US))
    _, etag = _get(connection, path)
    statuses = set[int]()
    taken = [_timed(lambda: statuses.add(_get(connection, path, etag)[0])) for _ in range(times)]
    assert statuses == {304}, statuses
    return _told("known", taken)


def _charts(server: Server, rows: int, times: int) -> dict[str, float]:
    """Ask for a day of one device in 240 buckets, or for all that there is where it is less."""
    connection, dice = server.connection(), random.Random(5)
    length = min(DAY_US, rows * 100_000)

    def chart() -> None:
        start = START_US + dice.randrange(max(1, rows * 100_000 - length))
        between = f"from={start}us&to={start + length}us&where=device={dice.randrange(DEVICES)}"
        status, _ = _get(connection, f"/latest/series.json?stream=readings&measure=temp&points=240&{between}")
        assert status == 200, status

    chart()
    before = server.processors_s
    taken = [_timed(chart) for _ in range(times)]
    spent = 1000 * (server.processors_s - before) / times
    return {**_told("chart", taken), "chart_processors_ms": round(spent, 1)}


def _memory(server: Server, requests: int) -> dict[str, float]:
    """Ask for different ranges again and again; memory after a tenth of them, and at the end."""
    asked = itertools.cycle(ranges(ROWS * STEP_US, 1_000))
    connection = server.connection()
    before, path, etag = 0.0, "", ""
    began = time.perf_counter()
    for number in range(requests):
        if number == requests // 10:
            before = server.mb
        # Every tenth asks the nodes; the others have the answer before already.
        path = _path(next(asked)) if number % 10 == 0 else path
        etag = _get(connection, path, "" if number % 10 == 0 else etag)[1]
    per_s = round(requests / (time.perf_counter() - began))
    return {
        "requests": requests,
        "requests_per_s": per_s,
        "tenth_mb": round(before),
        "end_mb": round(server.mb),
    }


def _listeners(server: Server, listeners: int) -> dict[str, float]:
    """Open idle event streams until all that were wanted are held or refused; questions are still answered."""
    sockets, held, refused, before = [], 0, 0, server.mb
    try:
        for _ in range(listeners):
            listening = socket.create_connection((server.host, server.port), timeout=20)
            sockets.append(listening)
            lines = [
                "GET /events HTTP/1.1",
                "Host: 127.0.0.1",
                *(": ".join(each) for each in _AUTHORISED.items()),
            ]
            listening.sendall("\r\n".join([*lines, "", ""]).encode())
            status = listening.recv(64).split(b" ")[1]
            held, refused = held + (status == b"200"), refused + (status == b"503")
            if status != b"200":
                listening.close()
        connection = server.connection()
        path = _path(Range(3, START_US, START_US + DAY_US))
        answered = [_timed(lambda: _get(connection, path)) for _ in range(50)]
        return {
            "listeners_held": held,
            "listeners_refused": refused,
            "listeners_mb": round(server.mb - before),
            **_told("ask_beside_listeners", answered),
        }
    finally:
        for listening in sockets:
            listening.close()


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("web",))
