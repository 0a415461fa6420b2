from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from jobs import build_rollups, maintain, publish
from lakehouse.declare.settings import Settings
from lakehouse.home.checked import Checked
from lakehouse.home.corrections import raw_from, read_corrections
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import AskError
from lakehouse.serving.status import status
from lakehouse.streams import old_rows
from lakehouse.streams.checks import measure, open_tables
from lakehouse.streams.rollup_checks import measure_rollup
from tests.folded import folded, rows_of
from tests.readings import declared
from tests.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T0 = 1_600_000_020
MINUTE = 60


def reading(second: int, device: str = "a") -> dict[str, Any]:
    """Return a reading whose sums are exact, whatever the order of additions."""
    return {"ts": T0 + second, "received": T0, "device": device, "temp": second / 8, "count": second % 7}


def forgetful(spark: SparkSession, lakehouse_of: Callable[[str], Settings]) -> Lake:
    """A stream that keeps ten minutes of raw rows, with half an hour of them taken in."""
    text = declared().replace('duplicates_within = "1d"', 'duplicates_within = "1m"\nkeep_raw = "10m"')
    stream = Lake(spark, lakehouse_of(text))
    take_in(stream, "0.ndjson", [reading(second) for second in range(0, 1800, 7)])
    return stream


def take_in(stream: Lake, name: str, readings: list[dict[str, Any]]) -> None:
    stream.land(name, "".join(json.dumps(row) + "\n" for row in readings))
    stream.ingest()
    build_rollups.run(stream.settings, stream.spark, "readings")


def nodes(stream: Lake) -> list[Any]:
    return sorted(map(repr, rows_of(folded(stream.settings, "readings"))))


def deviations(stream: Lake) -> list[str]:
    """Metrics that are not 0, over all tables and all batches."""
    tables = open_tables(stream.settings.layout, stream.settings.stream("readings"), Checked())
    assert tables is not None
    frames = [*measure(tables), *measure_rollup(stream.settings.layout, tables)[0]]
    return [
        f"{frame.table}.{name}"
        for frame in frames
        for row in frame.rows
        for name, value in row.items()
        if name not in (*frame.place, "rejected_share") and value
    ]


def test_old_raw_rows_go_in_whole_top_nodes_and_everything_still_balances(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    before = nodes(stream)
    begun = stream.settings.layout.manifests("readings") / "00000002.json"
    begun.write_text('{"batch": 2, "kind": "files", "files": [], "reasons": []}')
    assert maintain.run(stream.settings, spark, "readings")["raw_dropped"] == 0
    begun.unlink()
    # Of small files Spark is asked for nothing.
    dropped = maintain.run(stream.settings, cast("SparkSession", None), "readings")["raw_dropped"]
    cut = T0 + 1799 - 10 * MINUTE - (T0 + 1799) % MINUTE

    assert {row[0] for row in stream.rows("raw", "event_us")} == {
        10**6 * (T0 + second) for second in range(0, 1800, 7) if T0 + second >= cut
    }
    assert raw_from(read_corrections(stream.settings.layout, "readings")) == cut * 10**6
    assert (nodes(stream), deviations(stream)) == (before, [])
    assert len(stream.rows("raw", "event_us")) + dropped == 258
    assert maintain.run(stream.settings, spark, "readings")["raw_dropped"] == 0


def test_a_row_later_than_raw_is_kept_counts_in_the_nodes_and_leaves_raw_again(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    with pytest.MonkeyPatch.context() as patch:
        # As if the file had many rows: those that go are Spark's.
        patch.setattr(old_rows, "ROWS_AT_ONCE", 0)
        maintain.run(stream.settings, spark, "readings")
    take_in(stream, "late.ndjson", [reading(3)])

    with_late = nodes(stream)
    figures = maintain.run(stream.settings, spark, "readings")

    assert (figures["raw_dropped"], figures["raw_dropped_unchecked"]) == (1, 1)
    assert (nodes(stream), deviations(stream)) == (with_late, [])
    publish.run(stream.settings, spark, unchecked=True)
    found = status(stream.settings.home)["streams"][0]
    assert (found["rows"], found["unchecked"]) == (259, 1)
    assert found["levels"][2]["nodes"] == 2 * 30
    assert [level["entered"] for level in found["levels"]] == [10, 85, 164]


def test_exact_answers_need_raw_rows_unless_nodes_say_it_exactly(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    publish.run(stream.settings, spark, unchecked=True)
    home, us = stream.settings.home, 10**6
    exactly = ask(home, "readings", "temp", "sum", (T0 + 33) * us, (T0 + 1777) * us, exact=True)
    # The published version is from before: what raw rows are gone is known all the same.
    maintain.run(stream.settings, spark, "readings")

    with pytest.raises(AskError, match=r"readings keeps those from 2020-09-13T12:\d\d:00\+00:00 on"):
        ask(home, "readings", "temp", "sum", (T0 + 33) * us, (T0 + 1777) * us, exact=True)
    (whole,) = ask(home, "readings", "temp", "sum", T0 * us, (T0 + 1800) * us, exact=True)
    (recent,) = ask(home, "readings", "temp", "sum", (T0 + 1501) * us, (T0 + 1777) * us, exact=True)
    assert exactly[0].exact and whole.exact and whole.nodes_read > 0
    assert (recent.exact, recent.nodes_read) == (True, 0)
    assert recent.value == pytest.approx(sum(s / 8 for s in range(0, 1800, 7) if 1501 <= s < 1777))
