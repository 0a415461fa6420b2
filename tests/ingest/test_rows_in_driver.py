"""Rows stay in tasks: of 200,000 rows some kilobytes come to the driver in every step, which reads no more."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from jobs import build_rollups, check_quality, ingest, maintain, requeue, retract
from lakehouse.corrections.wrong_rows import Wrong
from lakehouse.engine.local import LocalEngine
from tests.ingest.no_session import no_session

if TYPE_CHECKING:
    from lakehouse.settings import Settings

ROWS, MOST_BYTES = 200_000, 64 * 1024
DAY_S, T0 = 86_400, 1_600_000_000 - 1_600_000_000 % 86_400
CONFIG = """
home = "var"
[streams.pond]
event_time = { column = "at", unit = "s" }
arrival_time = { column = "came", unit = "s" }
identity = ["station", "at"]
keys = ["station"]
measures = ["depth"]
groupings = [["station"], []]
levels = ["10s for 30d", "1d forever"]
keep_raw = "2d"
duplicates_within = "4d"
source = { path = "land/*.csv", format = "csv", settle = 0 }
columns = { at = "int", came = "int", depth = "double" }
"""


class Driver:
    """Counts the bytes that the driver gets of tasks, and those of rows that it reads itself."""

    def __init__(self) -> None:
        self.received = self.read = self._kernels = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count bytes for some time; files of hashes, which the index of identities is made of, are not counted."""
        with pytest.MonkeyPatch.context() as patched:
            for name in ("map", "by_key"):
                patched.setattr(LocalEngine, name, self._in_kernels(getattr(LocalEngine, name)))
            for name in ("read", "read_row_group", "iter_batches"):
                patched.setattr(pq.ParquetFile, name, self._by_driver(getattr(pq.ParquetFile, name)))
            self.received = self.read = 0
            yield

    def _in_kernels(self, call: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
        def counted(*asked: Any) -> pa.Table:
            self._kernels += 1
            try:
                found = call(*asked)
            finally:
                self._kernels -= 1
            self.received += found.nbytes
            return found

        return counted

    def _by_driver(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(file: pq.ParquetFile, *asked: Any, **how: Any) -> Any:
            found = read(file, *asked, **how)
            if self._kernels or file.schema_arrow.names[0] == "hash":
                return found
            if isinstance(found, pa.Table):
                self.read += found.nbytes
                return found
            batches = list(found)
            self.read += sum(batch.nbytes for batch in batches)
            return iter(batches)

        return counted


def land(settings: Settings, name: str, first_s: int, rows: int = ROWS, bad: int = 0) -> None:
    at = T0 + first_s + np.arange(rows) // 100
    stations = np.array([f"s{number}" for number in range(100)])[np.arange(rows) % 100]
    depth = pa.array(np.where(np.arange(rows) < bad, "deep", "1.5"))
    folder = settings.home.parent / "land"
    folder.mkdir(exist_ok=True)
    csv.write_csv(pa.table({"at": at, "came": at + 5, "station": stations, "depth": depth}), folder / name)


def test_no_step_brings_rows_to_the_driver(lakehouse_of: Callable[[str], Settings]) -> None:
    settings = lakehouse_of(CONFIG)
    spark, driver = no_session(settings), Driver()
    figures: dict[str, dict[str, Any]] = {}
    counted: dict[str, tuple[int, int]] = {}

    def step(name: str, work: Callable[..., dict[str, Any]], *more: Any) -> None:
        with driver.counting():
            figures[name] = work(settings, spark, "pond", *more)
        counted[name] = driver.received, driver.read

    land(settings, "0.csv", 0, bad=20_000)
    step("ingest", ingest.run)
    land(settings, "1.csv", 1_000)
    # It is made again of what raw holds.
    shutil.rmtree(settings.layout.identities("pond"))
    step("ingest with repeats", ingest.run)
    step("rollup", build_rollups.run)
    step("check", check_quality.run)
    step("requeue", requeue.run)
    step("retract", retract.run, Wrong(where={"station": "s7"}), "me", "wrong")
    step("rebuild", build_rollups.rebuild, None, None)
    for name, first_s in (("2.csv", 3 * DAY_S), ("3.csv", 6 * DAY_S), ("4.csv", 6 * DAY_S + 60)):
        land(settings, name, first_s, 100)
        ingest.run(settings, spark, "pond")
    build_rollups.run(settings, spark, "pond")
    step("retention and fold", maintain.run)
    step("full check", check_quality.run, True)

    assert figures["ingest"]["accepted"] == ROWS - 20_000
    assert figures["ingest with repeats"]["duplicates"] > ROWS // 4
    assert figures["requeue"]["requeued"] == 20_000
    assert figures["retract"]["rows"] > ROWS // 200
    assert figures["retention and fold"]["raw_dropped"] > ROWS // 2
    assert {name: bytes_ for name, bytes_ in counted.items() if max(bytes_) > MOST_BYTES} == {}
