from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable

from jobs import build_rollups, maintain
from lakehouse.corrections.rebuild import RawIncomplete
from lakehouse.rollup.rollup import HistoryErased, RollupOutdated
from lakehouse.settings import Settings, load_settings
from tests.corrections.test_retention import MINUTE, T0, deviations, forgetful, nodes, reading, take_in
from tests.support.folded import folded as folded_nodes
from tests.support.folded import rows_of
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
US = 10**6


def redeclared(stream: Lake, *changes: tuple[str, str]) -> Lake:
    """The same lakehouse under a changed configuration."""
    config = Path(str(stream.settings.config))
    text = config.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    return Lake(stream.spark, load_settings(config))


def rebuilt(stream: Lake, *times: int) -> dict[str, object]:
    from_us, to_us = (T0 * US + second * US for second in times) if times else (None, None)
    return build_rollups.rebuild(stream.settings, stream.spark, "readings", from_us, to_us)


def test_a_range_is_built_again_as_it_was_and_damage_is_mended(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    take_in(stream, "late.ndjson", [reading(second, "b") for second in range(0, 1790, 31)])
    before = nodes(stream)
    table = DeltaTable.forPath(spark, str(stream.settings.layout.rollup("readings")))
    inside = f"level > 0 AND start_us >= {(T0 + 30 * MINUTE - 300) * US}"

    rebuilt(stream, 100, 1000)
    assert nodes(stream) == before
    table.update(f"{inside} AND level < 3", {"rows": "rows + 1", "count__sum": "count__sum - 5"})
    table.delete(f"{inside} AND grouping = 1")
    assert nodes(stream) != before
    rebuilt(stream, 1500, 1600)
    assert nodes(stream) != before
    rebuilt(stream, 1500, 1800)
    assert nodes(stream) == before
    table.delete("level > 0")
    rebuilt(stream)
    assert (nodes(stream), deviations(stream)) == (before, [])


def test_where_raw_is_gone_a_range_is_refused_and_the_rest_carried_over(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    maintain.run(stream.settings, spark, "readings")
    take_in(stream, "late.ndjson", [reading(3)])
    before = nodes(stream)

    with pytest.raises(RawIncomplete, match=r"raw rows before 2020-09-13T12:46:00 are gone \(keep_raw\)"):
        rebuilt(stream, 0, 1800)
    rebuilt(stream)
    again = rebuilt(stream)

    assert (nodes(stream), deviations(stream), again["lacks"]) == (before, [], [])


def test_a_new_declaration_keeps_history_older_than_raw_and_says_what_it_lacks(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    maintain.run(stream.settings, spark, "readings")
    rows = {row[2]: row[3] for row in folded(stream) if row[:2] == (3, 1)}
    changed = redeclared(
        stream,
        ('measures = ["temp", "count"]', 'measures = ["temp", "count", "ts"]'),
        ('"1m forever"', '"1m for 20m", "5m forever"'),
        ('groupings = [["device"], []]', "groupings = [[]]"),
    )

    with pytest.raises(RollupOutdated, match="tidemark rebuild readings"):
        build_rollups.run(changed.settings, spark, "readings")
    with pytest.raises(RollupOutdated):
        maintain.run(changed.settings, spark, "readings")
    figures = rebuilt(changed)

    assert figures["lacks"] == ["measure ts: its values are known since 2020-09-13 12:50:00 only"]
    found = folded(changed)
    assert {row[2]: row[3] for row in found if row[0] == 3} == {
        start: count for start, count in rows.items() if start >= (T0 + 8 * MINUTE) * US
    }
    assert sum(row[3] for row in found if row[0] == 4) == 258
    assert sum(row[4] for row in found if row[0] == 4) < 258
    assert deviations(changed) == []
    take_in(changed, "next.ndjson", [reading(1801)])
    assert deviations(changed) == []


def test_what_old_nodes_cannot_give_is_refused_with_the_reason(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    maintain.run(stream.settings, spark, "readings")
    before = nodes(stream)

    finer = redeclared(stream, (', "1m forever"', ""), ('"10s for 10m"', '"10s forever"'))
    with pytest.raises(
        RawIncomplete, match=r"nodes of 10s cannot hold the history older than raw.*nodes of 1m"
    ):
        rebuilt(finer)
    by_temp = redeclared(
        finer,
        ('"10s forever"', '"10s for 10m", "1m forever"'),
        ('keys = ["device"]', 'keys = ["device", "ts"]'),
        ("groupings = [[", 'groupings = [["ts"], ['),
    )
    with pytest.raises(
        RawIncomplete, match=r"grouping \['ts'\] cannot be had for times whose raw rows are gone"
    ):
        rebuilt(by_temp)

    back = redeclared(by_temp, ('keys = ["device", "ts"]', 'keys = ["device"]'), ('[["ts"], [', "[["))
    assert nodes(back) == before


def test_how_long_levels_keep_their_nodes_changes_without_a_rebuild(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    stream = forgetful(spark, lakehouse_of)
    before = folded(stream)
    since = {level: min(row[2] for row in before if row[0] == level) for level in (1, 2)}

    otherwise = redeclared(stream, ('"1s for 1m", "10s for 10m"', '"1s for 5m", "10s for 6m"'))
    take_in(otherwise, "next.ndjson", [reading(second) for second in range(1806, 1830, 7)])
    maintain.run(otherwise.settings, spark, "readings")

    found = folded(otherwise)
    newest, starts = (T0 + 1827) * US, {level: [r[2] for r in found if r[0] == level] for level in (1, 2)}
    # The first level keeps all that it had; its horizon alone would claim four minutes more.
    assert min(starts[1]) == since[1]
    assert min(starts[2]) >= newest - 6 * MINUTE * US - MINUTE * US > since[2]
    assert deviations(otherwise) == []
    erasing = redeclared(otherwise, ('"1m forever"', '"1m for 20m"'))
    with pytest.raises(HistoryErased, match="the last level would forget the time before 2020-09-13 12:3"):
        build_rollups.run(erasing.settings, spark, "readings")


def folded(stream: Lake) -> list[tuple[Any, ...]]:
    """Return level, grouping, start, rows and values of the last measure of every node."""
    last = stream.settings.stream("readings").measures[-1]
    nodes = folded_nodes(stream.settings, "readings")
    return rows_of(nodes, "level", "grouping", "start_us", "rows", f"{last}__n")
