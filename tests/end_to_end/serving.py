"""A service beside a stream of readings: what lands is counted, what it does is asked for, and it can be killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.versions.versions import NotPublished
from lakehouse.storage.heartbeats import service_heartbeat
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_columns
from lakehouse.web.security.tokens import OWN_TOKEN
from tests.support.readings import declared

T0 = 1_600_000_000
ROOT = Path(__file__).parents[2]
ROWS = 40


class Lake:
    """A home with a stream of readings, and what ``more`` declares; of good rows ``landed`` in all, ``rows`` a file."""

    def __init__(self, folder: Path, more: str = "", rows: int = ROWS) -> None:
        self.folder, self.home, self.landed, self.rows = folder, Home(folder / "var"), 0, rows
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.web = f"127.0.0.1:{free.getsockname()[1]}"
        self.token = "t" * 43
        (folder / "landing").mkdir()
        (folder / "tidemark.toml").write_text(declared() + more)

    def land(self) -> None:
        """Put one more file there: new rows, the same ones once more, and a line that cannot be read."""
        rows = [
            {"ts": T0 + n, "device": "abc"[n % 3], "temp": 1.0, "count": n}
            for n in range(self.landed, self.landed + self.rows)
        ]
        lines = [json.dumps(row) for row in rows]
        scratch = self.folder / "landing" / f"{self.landed:06d}.tmp"
        scratch.write_text("\n".join([*lines, *lines[:5], '{"ts":']) + "\n")
        scratch.rename(scratch.with_suffix(".ndjson"))
        self.landed += self.rows

    def counts(self) -> dict[str, int]:
        """Return what ledger, raw and the published answer say of the rows."""
        layout, names = self.home, ("accepted", "quarantined", "duplicates")
        ledger = read_columns(layout.ledger("readings"), names)
        raw = read_columns(layout.raw("readings"), ("count",))
        distinct = len(set(raw))
        sums = dict(zip(names, map(sum, zip(*ledger, strict=True)), strict=False))
        return {**sums, "raw": len(raw), "distinct": distinct, "published": self.published()}

    def expected(self) -> dict[str, int]:
        files = self.landed // self.rows
        rows = dict.fromkeys(("accepted", "raw", "distinct", "published"), self.landed)
        return {**rows, "quarantined": files, "duplicates": 5 * files}

    def published(self) -> int:
        try:
            # A row is a second: a soak of two hours lands those of five months.
            [answer] = ask(self.home, "readings", "temp", "count", "2020-01-01", "2100-01-01")
        except (NotPublished, KeyError):
            return 0
        return int(answer.value or 0)

    def write(self, place: str, text: str) -> None:
        """Put a whole file below the folder of the configuration, in the place of the one there."""
        path = self.folder / place
        path.parent.mkdir(exist_ok=True)
        scratch = path.with_suffix(".tmp")
        scratch.write_text(text)
        scratch.rename(path)

    def found(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of the selection and the pairs of the join, as they are published."""
        statements = {
            "even": "SELECT count FROM selection_even ORDER BY ALL",
            "pairs": "SELECT one, other FROM pairs_pairs ORDER BY ALL",
        }
        try:
            with open_published(self.home) as published:
                return {
                    name: published.connection.execute(text).fetchall() for name, text in statements.items()
                }
        except (NotPublished, duckdb.CatalogException):
            return {}

    def expected_found(self) -> dict[str, list[tuple[Any, ...]]]:
        evens = range(0, self.landed, 2)
        # Of one device, and at most five seconds apart.
        pairs = [(one, one + 3) for one in evens if one + 3 < self.landed]
        return {"even": [(count,) for count in evens], "pairs": pairs}

    def state(self, query: str) -> str:
        """Return the state of a query as `tidemark queries --json` tells it."""
        told = subprocess.run(command(self, "queries", "--json"), capture_output=True, text=True, cwd=ROOT)
        assert told.returncode == 0, told.stderr
        return next(
            str(each["state"]) for each in json.loads(told.stdout)["queries"] if each["query"] == query
        )

    def fresh(self) -> dict[str, Any]:
        """Return what the heartbeat says of how fresh the answers are."""
        told: dict[str, Any] = (service_heartbeat(self.home) or {})["streams"]["readings"]
        return told

    def step(self, job: str, name: str) -> dict[str, Any]:
        tasks = (service_heartbeat(self.home) or {}).get("tasks", [])
        return next((s for s in tasks if (s["job"], s["name"]) == (job, name)), {})


def command(lake: Lake, *words: str) -> list[str]:
    return [sys.executable, "-m", "lakehouse.cli", "--config", str(lake.folder / "tidemark.toml"), *words]


@contextmanager
def served(lake: Lake, **environment: str) -> Iterator[subprocess.Popen[str]]:
    log = (lake.folder / "serve.log").open("a")
    words = command(lake, "serve", "--every", "1s", "--publish", "1s", "--log-json", "--web", lake.web)
    environment = {OWN_TOKEN: lake.token} | environment
    process = subprocess.Popen(
        words, cwd=ROOT, env=os.environ | environment, stdout=log, stderr=log, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        log.close()


def until(what: Callable[[], bool], lake: Lake, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, (lake.folder / "serve.log").read_text()[-4000:]
        time.sleep(0.2)
