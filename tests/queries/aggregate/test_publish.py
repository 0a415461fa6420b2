from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.publishing.snapshots import queries_to_publish
from lakehouse.queries.aggregate.publish import AggregateSnapshot, snapshot_of
from lakehouse.queries.kind import Query
from lakehouse.queries.registered import QueryError
from lakehouse.serving.publish.macros import LAST_FILE
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.query_snapshot import write_alone
from lakehouse.serving.publish.snapshot import fingerprint
from lakehouse.serving.sandbox.sandbox import SqlFailed, open_published, run_sql
from lakehouse.serving.segments import row_store
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import files_between
from sql import statement
from tests.queries.answered import (
    AT,
    FIGURES,
    FLOORS,
    LATE,
    PLAIN,
    REPAIRS,
    SECOND,
    TEXT,
    Aggregated,
    Alarm,
    Answer,
    Logged,
    declare,
    query_of,
    us,
)
from tests.queries.joins import STREAMS as JOINED
from tests.queries.pairs.test_publish import few
from tests.queries.pairs.test_publish import snapshot as pairs_of

Rows = list[tuple[Any, ...]]


@pytest.fixture
def busy(tmp_path: Path) -> Aggregated:
    """A query that has run once and answered nothing."""
    streams = declare(tmp_path / "declared").streams
    return Aggregated(query_of(TEXT, streams), streams)


def facts_of(home: Home, told: Aggregated, published_us: int | None = None) -> AggregateSnapshot:
    return snapshot_of(told.write(home), told.query, told.streams, published_us)


def asked(folder: Path, told: Aggregated, sql: str, published_us: int | None = None) -> Rows:
    """Ask the tables that a query has in a published version; the rest of a version takes longer to make."""
    with duckdb.connect() as connection:
        for file in ("timestamps", "queries"):
            connection.execute(statement(f"serving/{file}"))
        write_alone(connection, [facts_of(Home(folder), told, published_us)])
        connection.execute(statement(f"serving/{LAST_FILE}"))
        return connection.execute(sql).fetchall()


def revised(busy: Aggregated) -> Aggregated:
    """Answers of a finished batch and repair, each beside some of what goes on."""
    answers = [
        Answer(10, 7),
        Answer(10, 8, revision=1, found="repair"),
        Answer(10, 9, revision=2, found="repair", batch=2),
        Answer(15, 3, holds=False),
        Answer(5, 9),
        Answer(5, 10, revision=1, batch=2),
        Answer(20, 6),
        Answer(20, 4, revision=1, holds=False, found="repair"),
        Answer(15, 6, group=("attic",)),
    ]
    return replace(busy, answers=answers, repairs=(1,))


def test_answers_are_the_newest_of_what_is_finished_and_holds(tmp_path: Path, busy: Aggregated) -> None:
    columns = "epoch_us(tick_at), tick_us, place, n, warmth, revision"
    found = asked(tmp_path, revised(busy), f"SELECT {columns} FROM answers_busy")

    assert found == [
        (us(5), us(5), "hall", 9, 1.5, 0),
        (us(10), us(10), "hall", 8, 1.5, 1),
        (us(15), us(15), "attic", 6, 1.5, 0),
    ]


def test_revisions_are_all_that_is_finished_and_tell_what_is_newest(tmp_path: Path, busy: Aggregated) -> None:
    columns = "tick_us, place, n, holds, revision, is_newest, found, batch"
    found = asked(tmp_path, revised(busy), f"SELECT {columns} FROM revisions_busy")

    assert found == [
        (us(5), "hall", 9, True, 0, True, "online", 1),
        (us(10), "hall", 7, True, 0, False, "online", 1),
        (us(10), "hall", 8, True, 1, True, "repair", 1),
        (us(15), "attic", 6, True, 0, True, "online", 1),
        (us(15), "hall", 3, False, 0, True, "online", 1),
        (us(20), "hall", 6, True, 0, False, "online", 1),
        (us(20), "hall", 4, False, 1, True, "repair", 1),
    ]


def test_what_only_having_reads_is_no_output(tmp_path: Path, busy: Aggregated) -> None:
    columns = "SELECT list(column_name ORDER BY column_index) FROM duckdb_columns() WHERE table_name = '{}'"

    ((answers,),) = asked(tmp_path, busy, columns.format("answers_busy"))
    ((revisions,),) = asked(tmp_path, busy, columns.format("revisions_busy"))
    outputs = asked(tmp_path, busy, "SELECT output, says, is_count FROM outputs")

    assert [measure.name for measure in busy.query.measures] == ["n", "warmth", "having_1"]
    assert answers == ["tick_at", "place", "n", "warmth", "revision", "final", "tick_us"]
    assert [name for name in revisions if name.startswith("having")] == []
    assert outputs == [
        ("n", "count(*) over all join results at the tick.", True),
        ("warmth", "avg(b.temp) over all join results at the tick.", False),
    ]


@pytest.mark.parametrize(
    ("late", "repairs", "last"),
    [
        ((), (), 80),  # all streams have passed 100, and asks come up to 20 s late
        ([Logged(42, 60)], (), 40),
        ([Logged(40, 60)], (), 35),
        ([Logged(42, 60)], (1,), 80),  # looked at
        ([Logged(42, 60, what="refused")], (), 80),  # joins nothing
        ([Logged(42, 60, batch=2)], (), 80),  # its batch goes on
        ([Logged(90, 95)], (), 80),
    ],
)
def test_ticks_are_final_up_to_what_can_still_come_or_waits_for_the_repair(
    tmp_path: Path, busy: Aggregated, late: list[Logged], repairs: tuple[int, ...], last: int
) -> None:
    answers = [Answer(tick) for tick in range(30, 101, 5)]
    told = replace(busy, answers=answers, missed_rows=late, repairs=repairs)

    found = asked(tmp_path, told, "SELECT final, max(tick_us) FROM answers_busy GROUP BY ALL ORDER BY ALL")

    assert found == [(False, us(100)), (True, us(last))]


def alarmed(busy: Aggregated) -> Aggregated:
    """Alarms in every state, and one of what goes on."""
    alarms = [
        Alarm("a", 10),
        Alarm("a", 10, 50, state="cleared", change=1, found="repair"),
        Alarm("b", 60, 95, state="cleared"),
        Alarm("c", 70, 75, group=(None,), state="cleared"),
        Alarm("c", 70, 75, group=(None,), state="withdrawn", change=1, merged_into="d", found="repair"),
        Alarm("d", 65, group=(None,)),
        Alarm("d", 65, 90, group=(None,), state="cleared", change=1, batch=2),
        Alarm("e", 90, batch=2),
    ]
    return replace(busy, alarms=alarms, repairs=(1,))


def test_alarms_are_told_as_they_stand_and_with_every_change(tmp_path: Path, busy: Aggregated) -> None:
    columns = "alarm, place, state, epoch_us(raised_at), epoch_us(cleared_at), changes, merged_into, final"

    found = asked(tmp_path, alarmed(busy), f"SELECT {columns} FROM alarms_busy ORDER BY raised_us")
    every = "SELECT alarm, change, is_newest, found FROM alarm_changes_busy ORDER BY raised_us, alarm, change"
    changes = asked(tmp_path, alarmed(busy), every)

    assert found == [
        ("a", "hall", "cleared", us(10), us(50), 1, None, True),
        ("b", "hall", "cleared", us(60), us(95), 0, None, False),
        ("d", None, "raised", us(65), None, 0, None, False),
        ("c", None, "withdrawn", us(70), us(75), 1, "d", True),
    ]
    assert changes == [
        ("a", 0, False, "online"),
        ("a", 1, True, "repair"),
        ("b", 0, True, "online"),
        ("d", 0, True, "online"),
        ("c", 0, False, "online"),
        ("c", 1, True, "repair"),
    ]


def test_the_catalogue_tells_what_a_query_is_and_how_far_it_has_come(
    tmp_path: Path, busy: Aggregated
) -> None:
    late = [Logged(10, 20), Logged(90, 95, batch=2), Logged(95, 99, 2, "refused")]
    told = replace(alarmed(revised(busy)), missed_rows=late, batches=2)
    columns = "kind, description, statement, batches, repairs, repaired_through, rows, repaired, missed, open, refused"
    more = "unusable, gone, time_us, newest_us, final_before_us, published_from_us, published, rows_found, window_us"
    own = "recall, answered, revised, late, alarms, every_us, slack_us, groups, method, make_timestamp(repaired_us)"

    (found,) = asked(tmp_path, told, f"SELECT {columns}, {more}, {own} FROM queries")

    assert found[:3] == ("aggregate", "places where many ask and are answered", busy.query.statement)
    assert found[3:11] == (2, 1, 1, 40, 2, 2, 1, 1)
    assert found[11:18] == (4, 1, us(100), us(110), us(80) + 1, None, 3)  # type: ignore[operator]
    assert found[18:21] == (None, None, None)
    assert found[21:29] == (5, 1, 8, 1, 5 * SECOND, 30 * SECOND, ["place"], "factorised")
    assert found[29] == AT.replace(hour=1, tzinfo=None)


def test_answers_older_than_published_are_left_out_and_so_are_alarms_that_ended_before(
    tmp_path: Path, busy: Aggregated
) -> None:
    told = replace(
        alarmed(revised(busy)), newest=62, missed_rows=[Logged(1, 11), Logged(2, 10), Logged(30, 99)]
    )
    published = 52 * SECOND  # from second 10

    ticks = asked(tmp_path / "a", told, "SELECT DISTINCT tick_us FROM revisions_busy ORDER BY 1", published)
    facts = asked(tmp_path / "b", told, "SELECT published_from_us, published FROM queries", published)
    every = "SELECT alarm FROM alarm_changes_busy ORDER BY raised_us, change"
    alarms = asked(tmp_path / "c", replace(told, newest=127), every, 52 * SECOND)
    # A row that counts from the first published tick on has missed none of them.
    waiting = asked(
        tmp_path / "d", replace(told, repairs=()), "SELECT open, final_before_us FROM queries", published
    )

    assert ticks == [(us(10),), (us(15),), (us(20),)]
    assert facts == [(us(10), 2)]
    assert alarms == [("b",), ("d",), ("c",), ("c",)]
    assert waiting == [(2, us(1))]


def test_without_groups_there_is_one_answer_at_each_tick(tmp_path: Path, busy: Aggregated) -> None:
    told = replace(
        busy,
        query=query_of(PLAIN, busy.streams),
        answers=[Answer(5, group=()), Answer(10, group=(), value=None)],
    )

    found = asked(tmp_path, told, "SELECT tick_us, n, coldest, final FROM answers_busy")
    catalogue = asked(tmp_path, told, "SELECT groups, alarms FROM queries")
    tables = asked(tmp_path, told, "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'alarm%'")

    assert found == [(us(5), 6, 1.5, True), (us(10), 6, None, True)]
    assert (catalogue, tables) == ([([], None)], [(0,)])


def test_groups_of_two_columns_keep_their_types_and_nulls_are_groups(
    tmp_path: Path, busy: Aggregated
) -> None:
    groups: list[tuple[str | None, int | None]] = [("hall", 1), ("hall", None), (None, 1), (None, None)]
    answers = [Answer(5, n, group=group, revision=r) for n, group in enumerate(groups) for r in (0, 1)]
    told = replace(busy, query=query_of(FLOORS, busy.streams), answers=answers)

    found = asked(tmp_path, told, "SELECT place, storey, n, revision, typeof(storey) FROM answers_busy")

    assert sorted(found, key=str) == sorted(
        [(place, storey, n, 1, "BIGINT") for n, (place, storey) in enumerate(groups)], key=str
    )


def test_a_query_without_a_finished_batch_has_empty_tables(tmp_path: Path, busy: Aggregated) -> None:
    told = replace(
        busy, answers=[Answer(5)], alarms=[Alarm("a", 5)], missed_rows=[Logged(1, 2)], batches=0, time=None
    )
    counts = ", ".join(
        f"(SELECT count(*) FROM {name}_busy)" for name in ("answers", "revisions", "alarms", "alarm_changes")
    )

    found = asked(
        tmp_path / "a",
        told,
        f"SELECT batches, published, open, alarms, time_us, final_before_us, {counts} FROM queries",
    )
    series = asked(tmp_path / "b", told, "FROM answer_series('busy', 'n', '2026-01-01', '2026-01-02', 9)")

    assert found == [(0, 0, 0, 0, None, None, 0, 0, 0, 0)]
    assert series == []


@pytest.mark.parametrize(
    "change",
    [
        {"batches": 2},
        {"repairs": (1, 1)},
        {"newest": 111},
        {"time": 105},
        {"text": TEXT.replace("> 5", "> 6")},
        {"text": TEXT.replace("places", "rooms")},
        {"text": TEXT.replace(" ALARM", "")},
        {"text": TEXT.replace(" ALARM", " METHOD MULTIWAY ALARM")},
        {"text": TEXT.replace("AS n", "AS hits")},
    ],
    ids=str,
)
def test_what_readers_would_see_makes_a_new_version(
    tmp_path: Path, busy: Aggregated, change: dict[str, Any]
) -> None:
    text = change.get("text", TEXT)
    other = replace(revised(busy), query=query_of(text, busy.streams))
    other = replace(other, **{name: value for name, value in change.items() if name != "text"})

    before, after = facts_of(Home(tmp_path / "a"), revised(busy)), facts_of(Home(tmp_path / "b"), other)

    assert fingerprint([], [before]) != fingerprint([], [after])


def test_where_answers_lie_and_what_is_not_finished_makes_none(tmp_path: Path, busy: Aggregated) -> None:
    told = alarmed(revised(busy))
    more = replace(
        told, answers=[*told.answers, Answer(95, batch=2)], alarms=[*told.alarms, Alarm("f", 95, batch=2)]
    )
    home = Home(tmp_path / "a")
    first = publish(home, [], queries=[facts_of(home, told)])

    again = publish(home, [], queries=[facts_of(Home(tmp_path / "b"), more)])

    assert (first.is_new, again.is_new, again.version) == (True, False, 1)


def test_a_query_of_another_meaning_than_its_tables_is_told_and_left_out(
    tmp_path: Path, busy: Aggregated
) -> None:
    home = busy.write(Home(tmp_path))
    few().write(home)
    other = query_of(TEXT.replace("> 5", "> 6"), busy.streams)
    streams = busy.streams | JOINED
    registered: dict[str, Query] = {
        "answers": few().query,
        "busy": busy.query,
        "new": replace(busy.query, name="new"),
    }

    told, changed = queries_to_publish(home, registered, streams, None)
    fewer, left_out = queries_to_publish(home, registered | {"busy": other}, streams, None)

    assert ([facts.name for facts in told], changed) == (["answers", "busy"], [])
    assert ([facts.name for facts in fewer], left_out) == (["answers"], ["busy"])


@pytest.mark.slow
def test_joins_and_aggregates_stand_beside_each_other(tmp_path: Path, busy: Aggregated) -> None:
    home = Home(tmp_path)
    publish(home, [], queries=[facts_of(home, alarmed(revised(busy))), pairs_of(home, few())])

    with open_published(home) as reader:
        kinds = run_sql(reader, "SELECT query, kind, published FROM queries ORDER BY query")
        joined = run_sql(reader, "FROM pairs_answers JOIN answers_busy ON true LIMIT 1")
        series = run_sql(
            reader, "SELECT sum(holding) FROM answer_series('busy', 'n', '2026-01-01', '2026-01-02', 2)"
        )
        with pytest.raises(SqlFailed, match="no query with RECALL busy; published: answers"):
            run_sql(reader, "FROM completeness_of('busy')")
        for call, told in (
            ("'answers', 'n', 9", "no aggregate answers; published: busy"),
            ("'busy', 'having_1', 9", "no output having_1 of busy; there are: n, warmth"),
            ("'busy', 'n', 0", "points must be from 1 to 10000, found 0"),
        ):
            query, output, points = call.split(", ")
            with pytest.raises(SqlFailed, match=told):
                run_sql(
                    reader, f"FROM answer_series({query}, {output}, '2026-01-01', '2026-01-02', {points})"
                )

    assert kinds.rows == [["answers", "pairs", 3], ["busy", "aggregate", 3]]
    assert len(joined.rows) == 1 and series.rows == [[3]]


@pytest.mark.slow
@pytest.mark.parametrize(("own", "published_us"), [(0, None), (3, 45 * SECOND), (100_000, None)])
def test_answers_and_alarms_that_came_since_make_the_version_of_all(
    tmp_path: Path, busy: Aggregated, monkeypatch: pytest.MonkeyPatch, own: int, published_us: int | None
) -> None:
    monkeypatch.setattr(row_store, "OWN_ROWS", own)
    # The tables are written anew for each step, as if they had only been appended to.
    monkeypatch.setattr(row_store, "table_id", str)
    monkeypatch.setattr(row_store, "appended_since", lambda table, _: files_between(table, None))
    told = replace(alarmed(busy), answers=revised(busy).answers)
    shared, steps = Home(tmp_path / "shared"), [(1, ()), (1, (1,)), (2, (1,)), (2, (1, 2))]
    for step, (batches, repairs) in enumerate(steps):
        now = replace(told, batches=batches, repairs=repairs, newest=60 + 15 * step)
        facts = facts_of(Home(tmp_path / "tables" / str(step)), now, published_us)
        kept = Home(tmp_path / "kept")
        (tmp_path / "kept").unlink(missing_ok=True)
        (tmp_path / "kept").symlink_to(tmp_path / "tables" / str(step))
        at = replace(facts, answer_table=kept.answers("busy"), alarm_table=kept.alarms("busy"))
        publish(shared, [], queries=[at])
        anew = Home(tmp_path / f"anew-{step}")
        publish(anew, [], queries=[facts])

        with open_published(shared) as one, open_published(anew) as other:
            for table in ("revisions_busy", "answers_busy", "alarm_changes_busy", "alarms_busy", "queries"):
                asked_of = f"FROM {table} ORDER BY ALL"
                assert (
                    one.connection.execute(asked_of).fetchall()
                    == other.connection.execute(asked_of).fetchall()
                ), table


def test_every_column_and_table_is_explained(tmp_path: Path, busy: Aggregated) -> None:
    sources = ("duckdb_columns()", "duckdb_tables()", "duckdb_views()")
    names = "table_name, column_name", "table_name", "view_name"
    bare = [
        asked(tmp_path, busy, f"SELECT {name} FROM {source} WHERE comment IS NULL AND NOT internal")
        for source, name in zip(sources, names, strict=True)
    ]

    assert [row for row in bare[0] if row[0] != "answer_values"] == []
    assert bare[1:] == [[], []]


@pytest.mark.parametrize("file", ["tables/answers", "tables/alarms", "serving/answers", "serving/alarms"])
def test_no_group_can_be_named_as_a_column_of_ours(busy: Aggregated, file: str) -> None:
    names = set(re.findall(r"^    (\w+) [A-Z]+ COMMENT", statement(file), re.M))
    names |= set(re.findall(r"COLUMN \{\w+\}\.(\w+)", statement(file)))

    assert len(names) > 3
    for name in names:
        with pytest.raises(QueryError, match=f"an output '{name}'"):
            query_of(TEXT.replace("a.place, COUNT", f"a.place AS {name}, COUNT"), busy.streams)


def test_hostile_groups_and_numbers_are_published_as_they_are(tmp_path: Path, busy: Aggregated) -> None:
    evil = "x'; DROP TABLE queries; --<b>\x1b[2J😀\""
    answers = [
        Answer(5, group=(evil,), value=1e300),
        Answer(5, group=("",), value=-1e300),
        Answer(10, group=(evil,)),
    ]
    told = replace(busy, answers=answers)

    found = asked(tmp_path / "a", told, "SELECT place, warmth FROM answers_busy ORDER BY tick_us, warmth")
    series = asked(
        tmp_path / "b",
        told,
        "SELECT DISTINCT key['place'] FROM answer_series('busy', 'warmth', '2026-01-01', '2026-01-02', 9)",
    )

    assert found == [("", -1e300), (evil, 1e300), (evil, 1.5)]
    assert {row[0] for row in series} == {"", evil}


@pytest.mark.parametrize(
    ("table", "schema"), [("aggregate_batches", FIGURES), ("missed_rows", LATE), ("repairs", REPAIRS)]
)
def test_tables_made_by_hand_have_the_columns_of_the_real_ones(table: str, schema: Any) -> None:
    assert set(re.findall(r"^    (\w+) [A-Z<>]+ COMMENT", statement(f"tables/{table}"), re.M)) == set(
        schema.names
    )


def test_names_that_the_catalogue_has_too_are_fine_for_groups_and_outputs(
    tmp_path: Path, busy: Aggregated
) -> None:
    text = """
    SELECT a.place AS key, b.floor AS output, COUNT(*) AS query, MAX(b.temp) AS value, MIN(b.temp) AS groups
    FROM asks [10 SECONDS] a, replies [10 SECONDS] b WHERE a.place = b.place
    GROUP BY a.place, b.floor EVERY 5 SECONDS"""
    told = replace(
        busy, query=query_of(text, busy.streams), answers=[Answer(5, 7, group=("hall", 3), value=2.5)]
    )
    series = "answer_series('busy', '{}', '2026-01-01T00:00:05', '2026-01-01T00:00:10', 1)"

    found = {
        output: asked(tmp_path / output, told, f"SELECT value, key FROM {series.format(output)}")
        for output in ("query", "value", "groups")
    }

    key = {"key": "hall", "output": "3"}
    assert found == {"query": [(7.0, key)], "value": [(2.5, key)], "groups": [(2.5, key)]}
