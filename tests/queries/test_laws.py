"""Laws that every kind of query keeps: an example of each leads a life, about which each test asks one thing.

In that life one stream is silent at first, every third row is late, and the batch and the repair are killed at each of
their points and made again; its batches are made in the process that commits them, but for the last ones, which are cut
into other buckets, each into another number of them. A query of the same text takes all in with one batch, in tasks of
Spark.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from jobs import run_queries
from lakehouse.queries.kind import KINDS
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime import repair
from lakehouse.queries.runtime.batch_manifest import finished, require_manifest
from lakehouse.storage.query_meaning import QueryChanged
from lakehouse.storage.tables.table_log import read_rows
from tests.queries.laws import EVERY_US, EXAMPLES, LED, TWIN, Life

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
REPAIRED = [name for name in LED if name != "selection"]


@pytest.fixture(scope="module", params=list(LED))
def life(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    on_spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Life:
    life = Life.begin(spark, on_spark, tmp_path_factory.mktemp(request.param), request.param)
    with pytest.MonkeyPatch.context() as patch:
        # Repairs have rows for many buckets.
        patch.setattr(repair, "ROWS_A_PLACE", 10)
        life.lead()
    return life


def test_every_kind_has_an_example() -> None:
    assert [*EXAMPLES] == [example.kind for example in EXAMPLES.values()] == [*KINDS]


def test_killed_everywhere_and_with_a_silent_stream_all_results_are_there_once(life: Life) -> None:
    truth = life.truth()
    assert len(truth) > 30
    assert life.found(life.name) == truth


def test_any_split_into_batches_and_buckets_comes_to_the_same(life: Life) -> None:
    batches = [finished(life.settings.layout, name) for name in (life.name, TWIN)]
    # A selection that shares a scan is taken along, whenever the other one is run.
    assert batches == [4, 1] or (life.kind == "selection" and min(batches) >= 3)
    assert life.found(TWIN) == life.truth()
    folder = life.settings.layout.batch_manifests(life.name)
    cut = [require_manifest(folder, "batch", number).buckets for number in range(1, batches[0] + 1)]
    assert cut == {"pairs": [8, 8, 3, 12], "aggregate": [8, 8, 3, 12], "multiway": [1] * 4}.get(
        life.kind, cut
    )


def test_a_batch_is_one_job_of_spark_or_two_where_rows_meet_by_more_than_one_key(life: Life) -> None:
    most = {"pairs": (1, 1), "selection": (1, 0), "aggregate": (2, 2), "multiway": (2, 1)}[life.kind]
    batches = finished(life.settings.layout, TWIN)
    assert life.jobs["batch"] <= most[0] * (batches if life.kind == "selection" else 1)
    assert life.jobs["repair"] <= most[1]


def test_running_and_repairing_again_changes_nothing(life: Life) -> None:
    before = life.table(life.name)
    again, nothing = life.run(), life.repair()
    assert again["batches"] == again["rows"] == 0
    assert nothing == {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0, "withdrawn": 0}
    assert life.table(life.name) == before


def test_another_meaning_is_refused_and_other_words_are_not(life: Life) -> None:
    settings, example = life.settings, life.example
    results = []
    for old, new in (example.reworded, example.other):
        text = example.text.replace(old, new)
        query = parse_query(life.name, text, settings.streams, life.predicates)
        registered = settings.model_copy(update={"registered": {life.name: query}})
        if (old, new) == example.other:
            with pytest.raises(QueryChanged, match="name of its own"):
                run_queries.run(registered, life.spark, life.name)
        else:
            results.append(run_queries.run(registered, life.spark, life.name)["batches"])
    assert results == [0]


@pytest.mark.parametrize("life", REPAIRED, indirect=True)
def test_each_repair_is_made_once_and_finds_what_batches_missed(life: Life) -> None:
    repairs = sorted(read_rows(life.settings.layout.repairs(life.name)), key=lambda row: row["repair"])
    # That of a join of pairs ends where the number of buckets changes.
    assert [row["through"] for row in repairs] == ([2, 3, 4] if life.kind == "pairs" else [2, 4])
    assert [row["repair"] for row in repairs] == list(range(1, len(repairs) + 1))
    assert repairs[-1]["found"] > 0
    assert sum(row["gone"] for row in repairs) == 0
    assert {row["found"] for row in life.table(life.name)} == {"online", "repair"}


@pytest.mark.parametrize("life", ["multiway"], indirect=True)
def test_what_moved_is_counted_once_and_nothing_is_late_for_a_silent_stream_or_in_one_batch(
    life: Life,
) -> None:
    moved = [row for row in read_rows(life.settings.layout.queries(life.name)) if row["side"] >= 0]
    assert sum(row["missed"] for row in moved if row["batch"] <= 2) == 0
    assert {row["found"] for row in life.table(TWIN)} == {"online"}
    # The results were there already when the batch was made again.
    assert all(len(row["moved"]) == 3 for row in moved if row["visits"])
    online = sum(row["found"] == "online" for row in life.table(life.name))
    assert sum(row["moved"][-1] for row in moved if row["visits"]) == online > 0


@pytest.mark.parametrize("life", ["aggregate", "waiting"], indirect=True)
def test_no_tick_is_answered_while_a_stream_is_silent_and_an_alarm_stands_where_each_spell_begins(
    life: Life,
) -> None:
    first = [
        row["answered"]
        for row in read_rows(life.settings.layout.queries(life.name))
        if (row["batch"], row["bucket"]) == (1, -1)
    ]
    newest = {}
    for row in sorted(read_rows(life.settings.layout.alarms(life.name)), key=lambda row: row["change"]):
        newest[row["alarm"]] = row
    standing = [(row["room"], row["raised_us"]) for row in newest.values() if row["state"] != "withdrawn"]
    held = {(room, tick) for tick, room, *_ in life.truth()}
    assert first == [0]
    assert sorted(standing) == sorted(each for each in held if (each[0], each[1] - EVERY_US) not in held)


@pytest.mark.parametrize("life", ["selection"], indirect=True)
def test_rows_selected_are_counted_once_with_numbers_of_their_own(life: Life) -> None:
    """Both selections run in one pass, so a kill can leave one of them finished and the other not."""
    for name in (life.name, TWIN):
        found = life.table(name)
        whole = [row for row in read_rows(life.settings.layout.queries(name)) if row["operator"] == -1]
        assert len({row["row_id"] for row in found}) == len(found)
        assert sum(row["selected"] for row in whole) == len(found)
        assert sum(row["rows"] for row in whole) == len(life.rows["doors"])
        batches = range(1, finished(life.settings.layout, name) + 1)
        assert Counter(row["batch"] for row in whole) == dict.fromkeys(batches, 1)
