"""Results that rest on retracted rows: withdrawn, whatever the kind of query, wherever that is killed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import build_rollups, publish, retract, run_queries
from lakehouse.corrections.retract import Wrong
from lakehouse.engine import engine_of
from lakehouse.queries.kind import KINDS
from lakehouse.queries.runtime.batch_manifest import is_behind, waiting_retractions
from lakehouse.queries.runtime.checks import frames_of, rows_to_take
from lakehouse.queries.runtime.recall.tables import open_tables
from lakehouse.queries.runtime.state import state_of
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.storage.tables.table_log import read_rows
from tests.oracles.queries.colliding_keys import PAIRS_OF_TEXTS
from tests.queries.laws import LED, Life
from tests.queries.multiway.streams import NAMES, some_rows
from tests.support import killing
from tests.support.crash_points import WITHDRAWAL_POINTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
Row = dict[str, Any]
# Points that only some kinds pass.
OF_KINDS = {
    "withdrawal.results-removed": {"pairs", "multiway", "selection"},
    "withdrawal.state-replaced": {"pairs", "multiway", "aggregate"},
    "repair.answers-appended": {"aggregate"},
}


@pytest.fixture(params=list(LED))
def life(request: pytest.FixtureRequest, spark: SparkSession, on_spark: SparkSession, tmp_path: Path) -> Life:
    return Life.begin(spark, on_spark, tmp_path, request.param)


def taken_out(life: Life, where: Mapping[str, str], names: Sequence[str]) -> None:
    """Retract the rows of some streams that have these values."""
    for name in names:
        retract.run(life.settings, life.spark, name, Wrong(where=where), by="ann", why="broken probe")
        life.rows[name] = [
            row for row in life.rows[name] if any(str(row[key]) != value for key, value in where.items())
        ]


def rests_on_retracted(life: Life) -> bool:
    query = life.settings.registered[life.name]
    return bool(waiting_retractions(life.settings.layout, life.name, query.streams))


def deviations(life: Life) -> list[Row]:
    """Return what the rules find of the query's tables, but for the recall of periods."""
    layout, query = life.settings.layout, life.settings.registered[life.name]
    tables = open_tables(engine_of(life.spark), layout, query, 0, None)
    assert tables is not None
    frames = [frame for frame in frames_of(tables, rows_to_take(tables, 0)) if frame.table != "periods"]
    return [
        row
        for frame in frames
        for row in frame.rows
        if any(value for name, value in row.items() if name not in frame.place)
    ]


def withdrawals(life: Life) -> list[Row]:
    return [row for row in read_rows(life.settings.layout.repairs(life.name)) if row["correction"]]


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 20))])
def test_whatever_comes_and_is_retracted_results_are_those_of_the_rows_that_remain(
    life: Life, seed: int
) -> None:
    dice = np.random.default_rng(seed)
    parts = dice.permutation(6).tolist()

    def land() -> None:
        found = some_rows(seed + 100, parts.pop(), 60)
        # No clock is ahead.
        life.land(
            {name: [{**row, "ts": min(row["ts"], row["received"])} for row in found[name]] for name in NAMES}
        )

    def take_out() -> None:
        by_room = {"room": f"r{dice.integers(8)}"}, {"value": f"{float(dice.integers(11))}"}
        taken_out(life, by_room[dice.integers(2)], dice.permutation(NAMES)[: dice.integers(1, 4)].tolist())

    land()
    while parts:
        [land, land, life.run, life.repair, take_out][dice.integers(5)]()
    take_out()
    life.run()
    life.repair()

    assert life.found(life.name) == life.truth()
    assert deviations(life) == []
    assert not rests_on_retracted(life)


def test_killed_at_every_step_the_same_is_withdrawn_once_and_the_state_forgets_it(life: Life) -> None:
    for part in (0, 2, 1):
        life.land(life.part(part))
        life.run()
    life.repair()
    before = life.found(life.name)
    taken_out(life, {"room": "r3"}, NAMES[:1])
    query, layout = life.settings.registered[life.name], life.settings.layout
    # Raw rows stay until answers were recomputed from them.
    assert is_behind(layout, life.name, query.streams, life.kind != "selection")

    for point in WITHDRAWAL_POINTS:
        if life.kind in OF_KINDS.get(point, KINDS):
            killing.kill(
                life.spark, point, "jobs.repair_late", "--config", str(life.settings.config), life.name
            )

    assert life.repair()["repairs"] == 0
    truth = life.truth()
    assert life.found(life.name) == truth != before
    (record,) = withdrawals(life)
    assert (record["stream"], record["by"], record["why"]) == ("doors", "ann", "broken probe")
    if life.kind == "aggregate":
        assert record["withdrawn"] == record["found"] > 0
    else:
        assert record["withdrawn"] == before.total() - truth.total()
        assert sum(count for _, count in record["withdrawn_from"]) == record["withdrawn"]
    life.land(life.part(3))
    life.run()
    life.repair()
    assert life.found(life.name) == life.truth()
    assert deviations(life) == []


def test_a_file_that_is_read_again_counts_as_it_is_now_and_no_batch_mixes_it_with_the_old_one(
    life: Life,
) -> None:
    life.land(life.part(0))
    life.run()
    (file,) = Path(life.settings.streams["doors"].source.path).parent.iterdir()
    old = life.rows["doors"]
    retract.run(life.settings, life.spark, "doors", Wrong(file=str(file)), by="ann", why="sent wrong")
    life.rows["doors"] = []
    life.land({"doors": [{**row, "value": 7.0} for row in old], "badges": [], "alerts": []})

    assert life.run()["batches"] == 1
    life.repair()

    assert len(withdrawals(life)) == 1
    assert life.found(life.name) == life.truth() != {}


def shifted(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Return rows a millisecond later, with other values."""
    later = {
        name: [{**row, **{time: row[time] + 1 for time in ("ts", "received")}} for row in own]
        for name, own in rows.items()
    }
    return {
        name: [row | {"value": None if row["value"] is None else 11 - row["value"]} for row in own]
        for name, own in later.items()
    }


def test_results_on_rows_whose_places_have_the_hash_of_retracted_ones_stay(life: Life) -> None:
    first, second = PAIRS_OF_TEXTS[0]
    part = life.part(0)
    life.land(part, first)
    life.land(shifted(part), second)
    life.run()
    life.repair()
    file = Path(life.settings.streams["doors"].source.path).parent / first
    retract.run(life.settings, life.spark, "doors", Wrong(file=str(file)), by="ann", why="sent wrong")
    life.rows["doors"] = shifted(part)["doors"]
    life.repair()
    assert life.found(life.name) == life.truth() != {}
    # What the state holds, too.
    life.land(life.part(1))
    life.run()
    life.repair()
    assert life.found(life.name) == life.truth()
    assert deviations(life) == []


@pytest.mark.parametrize("life", ["pairs", "aggregate"], indirect=True)
def test_published_tables_and_the_state_shown_follow(life: Life) -> None:
    for part in (0, 1):
        life.land(life.part(part))
        run_queries.run(life.settings, life.spark, life.name)
    published(life)
    taken_out(life, {"room": "r3"}, NAMES[:2])
    query = life.settings.registered[life.name]
    doubts = state_of(life.settings.layout, query).summary()["doubts"]
    says = "that correction 1 retracted may be in results until the next run or repair of the query"
    assert {doubt.partition(" rows of ")[2] for doubt in doubts} == {f"{name} {says}" for name in NAMES[:2]}
    life.repair()

    rows, (found, repaired, withdrawn) = published(life)

    assert rows == life.truth().total()
    facts = state_of(life.settings.layout, query).summary()
    assert facts["doubts"] == []
    assert facts["withdrawn"] == withdrawn == sum(row["withdrawn"] for row in withdrawals(life)) > 0
    if life.kind == "pairs":
        assert found + repaired - withdrawn == rows == facts["pairs_online"] + facts["pairs_repaired"]


def published(life: Life) -> tuple[int, tuple[int, int, int]]:
    """Publish everything; return the number of published results, and what the table of queries counts."""
    for name in NAMES:
        build_rollups.run(life.settings, life.spark, name)
    publish.run(life.settings, life.spark, unchecked=True)
    results = "pairs_pairs" if life.kind == "pairs" else "answers_aggregate"
    counted = "coalesce(rows_found, 0), repaired, withdrawn"
    with open_published(life.settings.home) as reader:
        ask = reader.connection.execute
        (rows,) = ask(f"SELECT count(*) FROM {results}").fetchone() or (0,)
        found = ask(f"SELECT {counted} FROM queries WHERE query = '{life.name}'").fetchone()
    assert found is not None
    return rows, found
