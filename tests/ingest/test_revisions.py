"""The newer value wins where `revisions` is declared: raw, what it replaced, counts and nodes, wherever it dies."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import build_rollups, ingest, maintain, requeue, retract
from lakehouse.corrections.retract import Wrong
from lakehouse.settings import Settings
from lakehouse.storage.corrections import REVISE, read_corrections
from tests.support import killing
from tests.support.crash_points import REVISION_POINTS
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
T0 = 1_767_225_600
DECLARED = """
home = "var"
[streams.flow]
event_time = {{ column = "ts", unit = "s" }}
identity = ["site", "ts"]
revisions = {revisions}
keys = ["site"]
measures = ["value"]
groupings = [["site"], []]
levels = ["1m for 2h", "1h forever"]
keep_raw = "{keep_raw}"
source = {{ path = "landing/*", format = "ndjson", settle = 0 }}
columns.value = {{ type = "decimal", decimals = 1 }}
columns.code = "string"
columns.updated = "int"
columns.ts = "int"
"""
Row = dict[str, Any]


@dataclass
class River:
    """A home whose stream may be revised, and all rows that came, in order."""

    spark: SparkSession
    settings: Settings
    rows: list[Row] = field(default_factory=list)
    files: int = 0

    def land(self, rows: Sequence[Row]) -> None:
        """Land a file."""
        self.files += 1
        self.rows += rows
        folder = Path(self.settings.streams["flow"].source.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{self.files:03d}.ndjson").write_text(text)

    def take(self, *rows: Row) -> dict[str, Any]:
        """Land a file and take it in."""
        self.land(rows)
        return self.ingest()

    def ingest(self) -> dict[str, Any]:
        return ingest.run(self.settings, self.spark, "flow")

    def build(self) -> None:
        build_rollups.run(self.settings, self.spark, "flow")

    def current(self) -> Counter[tuple[Any, ...]]:
        """Return the rows that raw has."""
        return Counter(self.read("raw", "site", "ts", "value::DOUBLE", "code", "updated"))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        return table_rows(getattr(self.settings.layout, table)("flow"), *columns)

    def newest(self) -> Counter[tuple[Any, ...]]:
        """Return the newest of each identity, one row after the other."""
        by = self.settings.streams["flow"].revisions
        assert by is not None
        found: dict[tuple[Any, ...], Row] = {}
        for row in self.rows:
            known = found.get((row["site"], row["ts"]))
            if known is None or by.newest_by is None or _order(row) >= _order(known):
                found[row["site"], row["ts"]] = row
        return Counter(tuple(row.values()) for row in found.values())

    def nodes(self) -> Counter[tuple[Any, ...]]:
        """Return count, sum and extremes of the top nodes of each site."""
        folded: dict[tuple[Any, ...], list[Any]] = {}
        columns = ("site", "start_us", "value__n", "value__sum::DOUBLE", "value__min", "value__max")
        for *place, n, total, low, high in table_rows(
            self.settings.layout.rollup("flow"), "level", "grouping", *columns
        ):
            if (place[0], place[1]) == (2, 0):
                known = folded.setdefault(tuple(place[2:]), [0, 0.0, low, high])
                folded[tuple(place[2:])] = [
                    *(known[0] + n, round(known[1] + total, 1), min(known[2], low), max(known[3], high))
                ]
        return Counter((*place, *map(float, values)) for place, values in folded.items())

    def nodes_of(self, rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
        """Return the same of rows, computed one by one."""
        hours: dict[tuple[Any, ...], list[float]] = {}
        for site, ts, value, *_ in rows:
            hours.setdefault((site, ts // 3600 * 3600 * 10**6), []).append(value)
        return Counter(
            (*place, float(len(own)), round(sum(own), 1), min(own), max(own)) for place, own in hours.items()
        )


def _order(row: Row) -> tuple[Any, ...]:
    """Return what makes a row newer by a column: the column, then its values in the order of columns."""
    return row["updated"], row["value"], row["code"]


@pytest.fixture
def river(spark: SparkSession, lakehouse_of: Callable[[str], Settings]) -> Callable[..., River]:
    def make(revisions: str = '"newest"', keep_raw: str = "forever") -> River:
        return River(spark, lakehouse_of(DECLARED.format(revisions=revisions, keep_raw=keep_raw)))

    return make


def reading(value: float, code: str = "P", at: int = 0, site: str = "s1", updated: int = 0) -> Row:
    return {"site": site, "ts": T0 + at, "value": value, "code": code, "updated": updated}


def test_a_newer_value_takes_the_place_of_the_older_one_which_is_kept_apart(
    river: Callable[..., River],
) -> None:
    flow = river()
    flow.take(reading(1.0), reading(5.0, at=60))
    flow.build()

    figures = flow.take(reading(1.0), reading(7.5, "A", at=60))

    assert [figures[name] for name in ("received", "accepted", "duplicates", "quarantined", "revised")] == [
        2,
        1,
        1,
        0,
        1,
    ]
    assert (
        flow.current()
        == flow.newest()
        == Counter(tuple(row.values()) for row in (flow.rows[0], flow.rows[3]))
    )
    flow.build()
    assert flow.nodes() == flow.nodes_of(flow.newest())
    (kept,) = flow.read(
        "revised",
        "value::DOUBLE",
        "code",
        "batch",
        "revised_in",
        "source_file",
        "source_line",
        "by_file",
        "by_line",
    )
    assert kept == (5.0, "P", 1, 2, "001.ndjson", 2, "002.ndjson", 2)
    (correction,) = read_corrections(flow.settings.layout, "flow")
    assert (correction.kind, correction.done, correction.batches) == (REVISE, True, {1: 1})


def test_the_value_read_last_wins_along_a_chain_that_returns_to_its_first_value(
    river: Callable[..., River],
) -> None:
    flow = river()
    for value in (1.0, 2.0, 2.0, 1.0):
        flow.take(reading(value))

    assert flow.current() == flow.newest() == Counter({("s1", T0, 1.0, "P", 0): 1})
    assert sorted(flow.read("revised", "revised_in", "value::DOUBLE")) == [(2, 1.0), (4, 2.0)]
    counted = sorted(flow.read("ledger", "batch", "accepted", "duplicates", "revised"))
    assert counted == [(1, 1, 0, 0), (2, 1, 0, 1), (3, 0, 1, 0), (4, 1, 0, 1)]


def test_inside_a_batch_the_later_line_wins_and_its_rows_are_all_accepted(
    river: Callable[..., River],
) -> None:
    flow = river()

    figures = flow.take(*(reading(value) for value in (1.0, 2.0, 2.0, 3.0)))

    assert (figures["accepted"], figures["duplicates"], figures["revised"]) == (3, 1, 2)
    assert flow.current() == flow.newest()
    flow.build()
    assert flow.nodes() == flow.nodes_of(flow.newest())


def test_by_a_column_an_older_value_that_comes_later_is_kept_apart(river: Callable[..., River]) -> None:
    flow = river('{ newest_by = "updated" }')
    flow.take(reading(2.0, updated=5))
    flow.build()

    figures = flow.take(reading(1.0, updated=4), reading(9.0, at=1))

    assert (figures["accepted"], figures["revised"]) == (2, 1)
    assert flow.current() == flow.newest()
    assert flow.read("revised", "value::DOUBLE", "by_file") == [(1.0, "001.ndjson")]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_in_any_order_the_greatest_by_the_column_is_left(river: Callable[..., River], seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows = [
        reading(
            float(dice.integers(3)), "AP"[dice.integers(2)], 0, f"s{dice.integers(2)}", int(dice.integers(3))
        )
        for _ in range(24)
    ]
    flow = river('{ newest_by = "updated" }')
    for part in np.array_split(dice.permutation(len(rows)), 4):
        flow.take(*(rows[place] for place in part))

    best = {row["site"]: row for row in sorted(rows, key=_order)}
    assert flow.current() == Counter(tuple(row.values()) for row in best.values())


_dies: dict[str, Any] = {"in": -1, "at": ""}


def _die(event: str, place: Any) -> None:
    """Fail like a full disk at a crash point: the one that is named, or after so many."""
    if event == "tidemark.crash_point" and (_dies["in"] >= 0 or place[0] == _dies["at"]):
        _dies["in"] -= 1
        if _dies["in"] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


sys.addaudithook(_die)


def until_it_dies(work: Callable[[], Any], passing: int = -1, at: str = "") -> bool:
    """Do some work up to a crash point; return whether it died there."""
    _dies.update({"in": passing, "at": at})
    try:
        work()
    except OSError as error:
        assert error.errno == errno.ENOSPC
        return True
    else:
        assert not at
        return False
    finally:
        _dies.update({"in": -1, "at": ""})


@pytest.mark.parametrize(
    "seed", [3, 4, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 25))]
)
@pytest.mark.parametrize("revisions", ['"newest"', '{ newest_by = "updated" }'])
def test_whatever_comes_dies_and_runs_again_raw_and_nodes_are_those_of_the_newest_rows(
    river: Callable[..., River], revisions: str, seed: int
) -> None:
    flow, dice = river(revisions), np.random.default_rng(seed)

    def land() -> None:
        ages = dice.integers(0, 4, 12).tolist()
        flow.land(
            [
                reading(
                    float(dice.integers(4)),
                    "AP"[dice.integers(2)],
                    1800 * age,
                    f"s{dice.integers(2)}",
                    int(dice.integers(3)),
                )
                for age in ages
            ]
        )

    def run_until_it_dies() -> None:
        def work() -> None:
            flow.ingest()
            flow.build()

        until_it_dies(work, int(dice.integers(14)))

    for _ in range(8):
        land()
        [run_until_it_dies, run_until_it_dies, flow.ingest][dice.integers(3)]()
    flow.ingest()
    flow.build()

    assert flow.current() == flow.newest()
    assert flow.nodes() == flow.nodes_of(flow.newest())
    counted = flow.read("ledger", "received", "accepted", "duplicates", "quarantined", "revised")
    received, accepted, duplicates, quarantined, revised = map(sum, zip(*counted, strict=True))
    assert received == len(flow.rows) == accepted + duplicates + quarantined
    assert accepted - revised == flow.current().total()
    assert revised == len(flow.read("revised", "batch"))
    before = flow.read("corrections", "number")
    flow.ingest()
    assert flow.read("corrections", "number") == before


def test_killed_at_every_step_the_same_rows_are_revised_once(river: Callable[..., River]) -> None:
    flow = river()
    flow.take(*(reading(1.0, at=at) for at in range(0, 7200, 600)))
    flow.build()
    for number, point in enumerate(REVISION_POINTS):
        value = 2.0 * number
        flow.land([reading(value, at=600), reading(value, at=4200), reading(value + 1, at=4200)])
        if point == "correction.raw-deleted":
            killing.kill(flow.spark, point, "jobs.ingest", "--config", str(flow.settings.config), "flow")
        else:
            until_it_dies(flow.ingest, at=point)
        if number % 2:
            flow.build()
        flow.ingest()

        assert flow.current() == flow.newest()
    flow.build()
    assert flow.nodes() == flow.nodes_of(flow.newest())
    assert sum(count for (count,) in flow.read("ledger", "revised")) == 3 * len(REVISION_POINTS)


def test_a_value_whose_older_row_raw_keeps_no_longer_is_a_conflict(river: Callable[..., River]) -> None:
    flow = river(keep_raw="2h")
    flow.take(reading(1.0), reading(1.0, at=4 * 3600), reading(1.0, at=5 * 3600))
    flow.take(reading(2.0, at=5 * 3600), reading(3.0, at=5 * 3600 + 1))
    flow.build()
    maintain.run(flow.settings, flow.spark, "flow")
    assert len(flow.current()) == 3

    figures = flow.take(reading(9.0), reading(1.0), reading(9.0, at=4 * 3600))

    assert [figures[name] for name in ("quarantined", "duplicates", "accepted", "revised")] == [1, 1, 1, 1]
    ((reason, detail),) = flow.read("quarantine", "reason", "detail")
    assert reason == "conflict"
    assert "raw no longer keeps" in detail
    flow.take(reading(1.0, at=9 * 3600))
    flow.take(reading(2.0, at=9 * 3600 + 1))
    flow.build()
    maintain.run(flow.settings, flow.spark, "flow")
    # What was revised goes with the rows of its time.
    assert flow.read("revised", "ts") == []


def test_conflicts_of_the_time_before_the_declaration_are_revisions_when_they_are_requeued(
    river: Callable[..., River],
) -> None:
    flow = river()
    before = flow.settings.model_copy(
        update={"streams": {"flow": flow.settings.streams["flow"].model_copy(update={"revisions": None})}}
    )
    flow.land([reading(1.0)])
    ingest.run(before, flow.spark, "flow")
    flow.land([reading(2.0)])
    assert ingest.run(before, flow.spark, "flow")["quarantined"] == 1

    figures = requeue.run(flow.settings, flow.spark, "flow")

    assert (figures["requeued"], figures["accepted"], figures["revised"]) == (1, 1, 1)
    assert flow.current() == flow.newest()


def test_a_retraction_takes_the_newest_row_and_does_not_bring_the_older_one_back(
    river: Callable[..., River],
) -> None:
    flow = river()
    flow.take(reading(1.0), reading(4.0, at=7200))
    flow.take(reading(2.0, "A"))
    flow.build()

    found = retract.run(
        flow.settings,
        flow.spark,
        "flow",
        Wrong(from_us=T0 * 10**6, to_us=(T0 + 1) * 10**6, where={"site": "s1"}),
        "ann",
        "broken",
    )

    assert found["rows"] == 1
    assert flow.current() == Counter({("s1", T0 + 7200, 4.0, "P", 0): 1})
    assert flow.read("revised", "value::DOUBLE") == [(1.0,)]
    flow.build()
    assert flow.nodes() == flow.nodes_of(flow.current())
    build_rollups.rebuild(flow.settings, flow.spark, "flow")
    assert flow.nodes() == flow.nodes_of(flow.current())
    flow.take(reading(1.0))
    assert flow.current() == Counter({("s1", T0, 1.0, "P", 0): 1, ("s1", T0 + 7200, 4.0, "P", 0): 1})
