"""A query's metrics in a version, added to by the next one, come to the metrics of all."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.kind import KINDS
from lakehouse.queries.runtime.batch_metrics import BatchMetrics
from lakehouse.queries.runtime.snapshot import folded, nothing, read_published_metrics
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import append_arrow, create_table, open_table

KIND = replace(
    KINDS["pairs"], sums={"rows_found": "pairs", "late": "absent"}, newest=("newest_us", "left_us")
)
BATCHES = pa.schema(
    [
        *((name, pa.int64()) for name in ("batch", "rows", "missed", "refused", "unusable", "pairs")),
        *((name, pa.int64()) for name in ("time_us", "left_us")),
        ("newest_us", pa.list_(pa.int64())),
    ]
)
REPAIRS = pa.schema(
    [
        *((name, pa.int64()) for name in ("repair", "through", "looked_at", "found", "gone", "time_us")),
        *(("withdrawn", pa.int64()), ("committed_at", pa.timestamp("us", "UTC"))),
    ]
)
TIMES = st.none() | st.integers(-(10**15), 10**15)
COUNTS = st.integers(0, 10**6)
BATCH = st.lists(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("rows", "missed", "refused", "unusable"), COUNTS),
            **{"pairs": st.none() | COUNTS, "time_us": TIMES, "left_us": TIMES},
            "newest_us": st.lists(TIMES, max_size=3),
        }
    ),
    min_size=1,
    max_size=3,
)
REPAIR = st.fixed_dictionaries(
    {**dict.fromkeys(("looked_at", "found", "gone"), COUNTS), "withdrawn": st.none() | COUNTS}
)
STEPS = st.lists(
    st.one_of(BATCH.map(lambda rows: ("batch", rows)), REPAIR.map(lambda row: ("repair", [row]))), max_size=12
)
Step = tuple[str, list[dict[str, Any]]]


class Metrics:
    """The two tables of a query, to which steps append, and how many there have been."""

    def __init__(self, root: Path) -> None:
        self.home, self.batches, self.repairs = Home(root), 0, 0
        for path, schema in ((self.home.queries("q"), BATCHES), (self.home.repairs("q"), REPAIRS)):
            write(path, schema, [])

    def step(self, what: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Finish a batch or a repair; return its rows."""
        if what == "batch":
            self.batches += 1
            rows = [{"batch": self.batches, **row} for row in rows]
            write(self.home.queries("q"), BATCHES, rows)
            return rows
        self.repairs += 1
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=self.repairs)
        told = {"repair": self.repairs, "through": self.batches, "time_us": None, "committed_at": at}
        rows = [{**told, **row} for row in rows]
        write(self.home.repairs("q"), REPAIRS, rows)
        return rows

    def read(self, before: dict[str, Any] | None) -> dict[str, Any]:
        """Return what a version says of them."""
        return read_published_metrics(self.home, "q", KIND, before)


def write(path: Location, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    if not path.exists():
        from deltalake import Schema

        path.mkdir(parents=True)
        create_table(path, Schema.from_arrow(schema).to_json())
    if rows:
        append_arrow(open_table(path), path, pa.Table.from_pylist(rows, schema))


def _no_rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return [], []


@settings(deadline=None)
@given(steps=STEPS, cuts=st.sets(st.integers(0, 12)))
def test_what_is_folded_in_parts_is_what_all_of_it_comes_to(steps: list[Step], cuts: set[int]) -> None:
    batches: list[dict[str, Any]] = []
    repairs: list[dict[str, Any]] = []
    known, new = nothing(KIND), _no_rows()
    for place, (what, rows) in enumerate(steps):
        number = 1 + len({row["batch"] for row in batches})
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=place)
        told = {"repair": len(repairs) + 1, "through": number - 1, "committed_at": at}
        rows = [
            {"batch": number, "absent": None, **row} if what == "batch" else {**told, **row} for row in rows
        ]
        for taken in ((batches, repairs), new):
            taken[what == "repair"].extend(rows)
        if place in cuts:
            known, new = folded(known, BatchMetrics(*new), KIND), _no_rows()
    found, whole = (
        folded(known, BatchMetrics(*new), KIND),
        folded(nothing(KIND), BatchMetrics(batches, repairs), KIND),
    )

    assert found == whole
    assert whole["rows_found"] == sum(row["pairs"] or 0 for row in batches)
    assert (whole["late"], whole["gone"]) == (0, sum(row["gone"] for row in repairs))
    assert whole["withdrawn"] == sum(row["withdrawn"] or 0 for row in repairs)


@settings(max_examples=5, deadline=None)
@given(steps=STEPS.filter(bool), cuts=st.sets(st.integers(0, 12), min_size=1))
def test_versions_that_add_what_came_say_what_one_that_reads_all_says(
    steps: list[Step], cuts: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        metrics, before = Metrics(Path(name)), None
        for place, step in enumerate(steps):
            metrics.step(*step)
            if place in cuts:
                before = metrics.read(before)

        assert metrics.read(before) == metrics.read(None)


def one_batch(rows: int) -> Step:
    counts = dict.fromkeys(("missed", "refused", "unusable", "pairs"), 1)
    return "batch", [
        {"rows": rows, **counts, "time_us": 7 * rows, "left_us": None, "newest_us": [9 * rows, None]}
    ]


def test_what_a_version_has_is_not_opened_again(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    metrics.step(*one_batch(3))
    before = metrics.read(None)
    for file in metrics.home.queries("q").rglob("*.parquet"):
        file.unlink()
    metrics.step(*one_batch(5))

    found = metrics.read(before)

    assert (found["batches"], found["rows"], found["rows_found"], found["newest_us"]) == (2, 8, 2, 45)


def test_another_table_and_rows_that_are_gone_begin_anew(tmp_path: Path) -> None:
    first, again = Metrics(tmp_path / "first"), Metrics(tmp_path / "again")
    for metrics in (first, again):
        metrics.step(*one_batch(3))
    before = first.read(None)
    lacking = {name: value for name, value in before.items() if name != "rows_found"}

    assert again.read(before | {"rows": 1000})["rows"] == 3
    assert first.read(lacking | {"rows": 1000})["rows"] == 3
    assert first.read(before | {"batches": 2, "rows": 1000})["rows"] == 3
    assert first.read(before | {"rows": 1000})["rows"] == 1000
    shutil.rmtree(first.home.queries("q"))
    assert first.read(before)["batches"] == 0
