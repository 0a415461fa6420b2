from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.publishing.snapshots import queries_to_publish
from lakehouse.queries.runtime.published_rows import RowsSnapshot
from lakehouse.serving.publish.publish import publish, published_queries
from lakehouse.serving.publish.query_snapshot import write_alone
from lakehouse.serving.publish.snapshot import fingerprint
from lakehouse.serving.sandbox.sandbox import SqlFailed, open_published, run_sql
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_commits import append
from sql import statement
from tests.oracles.late_join.audit import audit
from tests.queries.joins import ANSWERS, REPAIRED_AT, SECOND, STREAMS, Joined, Logged, Pair, random_join
from tests.serving.conftest import STREAMS as ROLLED

DAY = 86_400 * SECOND
STATEMENT = "SELECT a.device, r.temp AS answer FROM asks a, replies r"


def snapshot(home: Home, joined: Joined, published_us: int | None = None) -> RowsSnapshot:
    return RowsSnapshot.of(joined.write(home), joined.query, STREAMS, published_us)


def asked(folder: Path, joined: Joined, sql: str, published_us: int | None = None) -> list[tuple[Any, ...]]:
    """Ask the tables that a query has in a published version; the rest of a version takes longer to make."""
    with duckdb.connect() as connection:
        connection.execute(statement("serving/queries"))
        write_alone(connection, [snapshot(Home(folder), joined, published_us)])
        connection.execute(statement("serving/completeness"))
        return connection.execute(sql).fetchall()


def few() -> Joined:
    """Two online pairs and a repaired one of what is finished, one of each of what is not."""
    pairs = [Pair(10 * SECOND), Pair(12 * SECOND), Pair(11 * SECOND, "repair"), Pair(90 * SECOND, batch=2)]
    return Joined([*pairs, Pair(91 * SECOND, "repair", 2)], repairs=(1,))


def test_pairs_have_their_own_columns_and_those_of_what_is_not_finished_are_not_told(tmp_path: Path) -> None:
    found = asked(
        tmp_path,
        few(),
        "SELECT epoch_us(event_at), device, answer, found, wait_us, batch FROM pairs_answers",
    )

    assert found == [
        (10 * SECOND, "a", 2.5 * SECOND, "online", 0, 1),
        (11 * SECOND, "a", 2.75 * SECOND, "repair", 5, 1),
        (12 * SECOND, "a", 3.0 * SECOND, "online", 0, 1),
    ]


def test_the_catalogue_tells_what_a_query_is_and_how_far_it_has_come(tmp_path: Path) -> None:
    late = [Logged(10 * SECOND, 12 * SECOND, batch=1), Logged(20 * SECOND, 25 * SECOND, batch=2)]
    joined = replace(few(), late=[*late, Logged(30 * SECOND, 0, 2, "refused")], batches=2)
    columns = (
        "description, statement, window_us, recall, batches, repairs, repaired_through, rows, rows_found"
    )
    columns += (
        ", repaired, missed, open, refused, gone, newest_us, final_before_us, published_from_us, published"
    )

    (found,) = asked(tmp_path, joined, f"SELECT {columns}, make_timestamp(repaired_us) FROM queries")

    assert found[:4] == (ANSWERS.description, STATEMENT, 3 * SECOND, 0.9)
    assert found[4:9] == (2, 1, 1, 20, 3)
    assert found[9:14] == (1, 2, 1, 1, 2)
    assert found[14:18] == (100 * SECOND, 80 * SECOND, None, 4)
    assert found[18] == REPAIRED_AT.replace(tzinfo=None)


def test_pairs_older_than_published_are_left_out_by_whole_steps(tmp_path: Path) -> None:
    joined = replace(few(), newest_us=13 * SECOND + 400_000)

    found = asked(
        tmp_path,
        joined,
        "SELECT published_from_us, rows_found, published FROM queries",
        published_us=2 * SECOND,
    )
    (steps,) = asked(
        tmp_path, joined, "SELECT list(start_us ORDER BY 1) FROM completeness", published_us=2 * SECOND
    )

    assert found == [(11 * SECOND, 2, 2)]
    assert steps == ([11 * SECOND, 12 * SECOND],)


def test_a_logged_row_is_open_in_every_step_where_its_missing_pairs_can_be(tmp_path: Path) -> None:
    late = [
        Logged(4 * SECOND + 1, 9 * SECOND),  # partners up to 3 s later
        Logged(5 * SECOND, 5 * SECOND + 1),  # none later than itself but by 1 us
        Logged(40 * SECOND, 38 * SECOND),  # all of them older
    ]
    joined = Joined([Pair(4 * SECOND)], late)

    found = asked(tmp_path, joined, "SELECT start_us // 1000000, online, open FROM completeness")

    assert found == [(4, 1, 1), (5, 0, 2), (6, 0, 1), (7, 0, 1), (40, 0, 1)]


def test_a_period_is_final_when_nothing_is_open_in_it_and_no_row_can_come(tmp_path: Path) -> None:
    pairs = [Pair(second * SECOND) for second in range(60, 81)]
    joined = Joined(pairs, [Logged(60 * SECOND, 0)])

    found = asked(
        tmp_path, joined, "SELECT start_us // 1000000, is_final, met FROM completeness_of('answers')"
    )

    assert found[0] == (60, False, None)  # open
    assert found[10] == (70, True, None)  # ends at 100 s - 20 s, the latest of the later stream
    assert found[11] == (71, False, None)
    assert all(is_final for _, is_final, _ in found[1:11])


def test_scored_periods_tell_whether_the_recall_was_met(tmp_path: Path) -> None:
    pairs = [Pair(0)] * 89 + [Pair(1, "repair")] * 11 + [Pair(30 * SECOND)] * 99
    joined = Joined(pairs, repairs=(1,))

    found = asked(
        tmp_path,
        joined,
        "SELECT pairs, recall, asked, is_scored, met FROM completeness_of('answers') "
        "WHERE start_us IN (0, 21000000)",
    )

    assert found == [(100, 0.89, 0.9, True, False), (99, 1.0, 0.9, False, None)]


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_completeness_is_what_the_audit_says(seed: int) -> None:
    joined = random_join(seed)
    columns = "start_us, pairs, online, recall, is_scored, open, is_final"
    with tempfile.TemporaryDirectory() as folder:
        found = asked(Path(folder), joined, f"SELECT {columns} FROM completeness_of('answers')")

    assert [row[:5] for row in found] == audited(joined)
    for start, *_, open_rows, is_final in found:
        end = start + joined.query.period_us
        waiting = sum(first < end and last >= start for first, last in reaches(joined))
        assert open_rows == waiting
        is_past = joined.time_us is not None and end <= joined.time_us - 20 * SECOND
        assert is_final == (is_past and not waiting)


def reaches(joined: Joined) -> list[tuple[int, int]]:
    """Return the steps that open rows touch, as first and last moment."""
    step = joined.query.step_us
    return [(first // step * step, last // step * step + step - 1) for first, last in joined.open]


def audited(joined: Joined) -> list[tuple[Any, ...]]:
    """Return the periods that have anything, as the audit tells them."""
    query, told, open_rows = joined.query, joined.told, reaches(joined)
    if not told and not open_rows:
        return []
    moments = [pair.event_us for pair in told] + [moment for reach in open_rows for moment in reach]
    online, repaired = (
        np.array([pair.event_us for pair in told if pair.found == found], np.int64)
        for found in ("online", "repair")
    )
    span = min(moments), max(moments) + 1
    periods = audit(online, repaired, query.period_us, query.step_us, span)
    columns = (periods.start_us, periods.pairs, periods.online, periods.recall, periods.is_scored)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        row
        for row in rows
        if row[1] or any(a < row[0] + query.period_us and b >= row[0] for a, b in open_rows)
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"batches": 2},
        {"repairs": (1, 1)},
        {"query": replace(ANSWERS, recall=0.8)},
        {"query": replace(ANSWERS, description="other")},
        {"newest_us": 101 * SECOND},
    ],
)
def test_what_readers_would_see_makes_a_new_version(tmp_path: Path, change: dict[str, Any]) -> None:
    before, after = (
        snapshot(Home(tmp_path / name), replace(few(), **by)) for name, by in (("a", {}), ("b", change))
    )

    assert fingerprint([], [before]) != fingerprint([], [after])
    assert fingerprint([], [before]) != fingerprint([])


def test_where_pairs_lie_and_what_is_not_finished_makes_none(tmp_path: Path) -> None:
    more = replace(few(), pairs=[*few().pairs, Pair(95 * SECOND, batch=2), Pair(95 * SECOND, "repair", 2)])
    home = Home(tmp_path / "a")
    first = publish(home, [], queries=[snapshot(home, few())])

    again = publish(home, [], queries=[snapshot(Home(tmp_path / "b"), more)])

    assert (first.is_new, again.is_new, again.version) == (True, False, 1)


def test_a_query_without_tables_is_not_published_and_one_of_another_meaning_is_told(tmp_path: Path) -> None:
    home = few().write(Home(tmp_path))
    wider = replace(ANSWERS, window_us=4 * SECOND)
    registered = {"answers": ANSWERS, "other": replace(ANSWERS, name="other")}

    told, changed = queries_to_publish(home, registered, STREAMS, DAY)
    nothing, left_out = queries_to_publish(home, {"answers": wider}, STREAMS, DAY)

    assert ([one.name for one in told], changed) == (["answers"], [])
    assert (nothing, left_out) == ([], ["answers"])


def test_a_version_adds_what_was_finished_to_the_metrics_of_the_one_before(tmp_path: Path) -> None:
    home, more = (
        few().write(Home(tmp_path)),
        replace(few(), batches=2, repairs=(1, 2), newest_us=200 * SECOND),
    )
    registered = ({"answers": ANSWERS}, STREAMS, DAY)
    publish(home, [], queries=queries_to_publish(home, *registered)[0])
    append(home.queries("answers"), [more._figures(2)])
    append(home.repairs("answers"), [more._repair(2)])

    (told,), _ = queries_to_publish(home, *registered, published_queries(home))
    (whole,), _ = queries_to_publish(home, *registered)
    counted = published_queries(home)["answers"] | {"rows": 1000}
    (added,), _ = queries_to_publish(home, *registered, {"answers": counted})

    assert told == whole
    assert (told.batches, told.repairs, told.rows, told.repaired, told.newest_us) == (
        2,
        2,
        20,
        2,
        200 * SECOND,
    )
    assert added == replace(whole, rows=1010)


def test_a_query_without_a_finished_batch_has_an_empty_table(tmp_path: Path) -> None:
    joined = Joined([Pair(5)], [Logged(5, 5)], batches=0)

    found = asked(
        tmp_path,
        joined,
        "SELECT batches, published, open, newest_us, (FROM (SELECT count(*) FROM "
        "completeness_of('answers'))), (SELECT count(*) FROM pairs_answers) FROM queries",
    )

    assert found == [(0, 0, 0, None, 0, 0)]


@pytest.mark.slow
def test_analysts_may_read_all_of_it_beside_streams(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    joined = replace(few(), late=[Logged(10 * SECOND, 0)])
    publish(home, [ROLLED["flat"].write(tmp_path / "flat")], queries=[snapshot(home, joined)])

    with open_published(home) as reader:
        final = run_sql(reader, "SELECT count(*) FROM completeness_of('answers') WHERE met IS NULL")
        shown = run_sql(reader, "SHOW TABLES")
        bare = reader.connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND NOT internal "
            "AND table_name NOT IN (SELECT view_name FROM duckdb_views())"
        ).fetchall()
        tables = reader.connection.execute("SELECT table_name FROM duckdb_tables() WHERE comment IS NULL")
        assert (bare, tables.fetchall()) == ([], [])
        with pytest.raises(SqlFailed, match="no query with RECALL other; published: answers"):
            run_sql(reader, "FROM completeness_of('other')")

    assert final.rows == [[1]]
    assert {"queries", "completeness", "pairs_answers"} <= {row[0] for row in shown.rows}
