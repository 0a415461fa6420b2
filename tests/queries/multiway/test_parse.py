"""Joins of three to eight streams as text: what is read, and what is refused where."""

from __future__ import annotations

import pytest

from lakehouse.queries.kind import Output, definition_of
from lakehouse.queries.multiway.query import MultiwayQuery, Windowed
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.registered import QueryError, parse_query
from tests.queries.declared_streams import HOUR, MINUTE, SECOND, multiway_of, stream_of

COLUMNS = {"id": "int", "kind": "string", "x": "double"}
ARRIVAL = {"column": "received", "unit": "us"}
STREAMS = {name: stream_of(name=name, arrival_time=ARRIVAL, columns=COLUMNS) for name in ("s", "t", "u")}
STREAMS["silent"] = stream_of(name="silent", columns=COLUMNS)
THREE = "FROM s [10 SECONDS] a JOIN t [1 MINUTE] b ON a.id = b.id JOIN u [1 HOUR] c ON b.id = c.id"
HEAD = f"SELECT a.x, c.x AS last {THREE}"


def test_a_whole_query_is_read() -> None:
    text = (
        "-- Three of one id,\n-- the first of them hot.\nSELECT a.id, b.event_us AS came, c.x\n"
        f"{THREE} AND a.kind = b.kind AND c.kind = a.kind WHERE a.x > 3 AND c.x < 1\n"
        "SLACK 5 MINUTES IDLE 10 MINUTES AHEAD 1 HOUR"
    )

    assert multiway_of("three", text, STREAMS) == MultiwayQuery(
        name="three",
        text=text,
        description="Three of one id, the first of them hot.",
        sides=(
            Windowed("s", "a", 10 * SECOND, ("id", "kind"), where="`x` > 3"),
            Windowed("t", "b", MINUTE, ("id", "kind")),
            Windowed("u", "c", HOUR, ("id", "kind"), where="`x` < 1"),
        ),
        outputs=(Output("id", 0, "id"), Output("came", 1, "event_us"), Output("x", 2, "x")),
        slack_us=5 * MINUTE,
        idle_us=10 * MINUTE,
        ahead_us=HOUR,
    )


def test_nothing_but_streams_and_equalities_has_to_be_said() -> None:
    query = multiway_of("three", HEAD, STREAMS)

    assert (query.slack_us, query.idle_us, query.ahead_us) == (0, None, None)
    assert [output.name for output in query.outputs] == ["x", "last"]


def test_a_recall_is_read_with_its_period_and_rows_to_spare() -> None:
    query = multiway_of("three", f"{HEAD} RECALL 0.9 OVER 1 MINUTE EVERY 5 SECONDS SPARE 7 ROWS", STREAMS)

    assert (query.recall, query.period_us, query.step_us, query.spare_rows) == (0.9, MINUTE, 5 * SECOND, 7)
    reworded = multiway_of(
        "three", f"{HEAD} SPARE 7 ROWS EVERY 5 SECONDS RECALL 0.8 OVER 60 SECONDS", STREAMS
    )
    assert definition_of(reworded) == definition_of(query)
    other = multiway_of("three", f"{HEAD} SPARE 7 ROWS EVERY 5 SECONDS RECALL 0.9 OVER 2 MINUTES", STREAMS)
    assert definition_of(other) != definition_of(query)


def test_equality_passes_on_however_it_is_written() -> None:
    written = HEAD.replace(" ON a.id = b.id", "").replace("b.id = c.id", "c.id = a.id AND b.id = a.id")

    assert multiway_of("three", written, STREAMS).definition() == multiway_of("x", HEAD, STREAMS).definition()


def test_streams_join_themselves_up_to_eight_times_and_a_star_names_every_column() -> None:
    tables = ", ".join(f"s [{n} MINUTES] a{n}" for n in range(1, 9))
    equal = " AND ".join(f"a1.id = a{n}.id" for n in range(2, 9))

    query = multiway_of("eight", f"SELECT a8.* FROM {tables} WHERE {equal}", STREAMS)

    assert [side.window_us for side in query.sides] == [n * MINUTE for n in range(1, 9)]
    assert {output.name for output in query.outputs} >= {"a8_id", "a8_kind", "a8_event_us"}


def test_a_name_that_several_streams_have_is_any_of_equal_columns() -> None:
    assert multiway_of("three", f"SELECT id {THREE}", STREAMS).outputs == (Output("id", 0, "id"),)


def test_two_streams_are_pairs_and_a_count_is_an_aggregate() -> None:
    two = "SELECT a.x FROM s [1 SECOND] a JOIN t b ON a.id = b.id RECALL 0.9 OVER 1 MINUTE"
    counted = f"SELECT COUNT(*) {THREE} EVERY 1 MINUTE"

    assert isinstance(parse_query("two", two, STREAMS), PairsQuery)
    assert not isinstance(parse_query("counted", counted, STREAMS), PairsQuery | MultiwayQuery)


def test_what_slack_and_windows_say_is_part_of_what_it_means_and_words_are_not() -> None:
    query = multiway_of("three", HEAD, STREAMS)

    reworded = multiway_of("three", HEAD.replace("JOIN", "join").replace("60", "60"), STREAMS)
    assert definition_of(reworded) == definition_of(query)
    assert definition_of(multiway_of("three", f"{HEAD} ROUTING SMJH", STREAMS)) == definition_of(query)
    for change in (
        f"{HEAD} SLACK 1 SECOND",
        HEAD.replace("1 HOUR", "2 HOURS"),
        HEAD.replace("a.x", "a.kind"),
    ):
        assert definition_of(multiway_of("three", change, STREAMS)) != definition_of(query)


# Each is a query whose fault stands at the mark, and what is told of it.
FAULTS = [
    (f"{HEAD} RECALL 0.9 OVER 1 MINUTE ^SLACK 1 SECOND", "SLACK beside RECALL; expected one of both"),
    (f"{HEAD} ^SPARE 9 ROWS", "SPARE without RECALL"),
    (
        f"{HEAD} RECALL 0.9 OVER ^5 SECONDS EVERY 2 SECONDS",
        "a period of 5s; expected a multiple of EVERY, 2s",
    ),
    (f"{HEAD} ^POLICY PAPER", "POLICY in a join of three streams or more"),
    (f"{HEAD} ^EVERY 1 MINUTE", "EVERY without RECALL; expected RECALL and its period too"),
    (f"{HEAD} ^METHOD FACTORISED", "METHOD in a join of three streams or more"),
    (f"{HEAD} ROUTING ^LOTTERY", "'LOTTERY'; expected one of SMJE, SMJH"),
    (f"{HEAD} ^ALARM", "ALARM in a join of three streams or more"),
    (HEAD.replace("t [1 MINUTE]", "^t"), "no window; expected a window behind each stream"),
    (HEAD.replace("b.id = c.id", "c.x > 1").replace("u [", "^u ["), "no condition that joins the streams"),
    (
        HEAD.replace("b.id = c.id", "b.kind = c.kind").replace("u [", "^u ["),
        "a.id, which no column of c equals; expected a column of c that equals it too",
    ),
    (f"{HEAD} AND ^a.x < b.x", "only equalities between streams"),
    (f"{HEAD} AND ^a.id = b.x", "a.id of type int and b.x of type double; expected two columns of one type"),
    (f"SELECT ^a.x + 1 AS y {THREE}", "a plain column"),
    (f"SELECT a.x, ^c.x {THREE}", "a second output 'x'"),
    (f"SELECT ^a.x AS row_ids {THREE}", "an output 'row_ids'"),
    (f"SELECT ^x {THREE}", "'x', which 3 sides have"),
    (HEAD.replace("u [1", "^v [1"), "the unknown stream 'v'"),
    (
        HEAD.replace("u [", "silent [") + " ^AHEAD 1 HOUR",
        "AHEAD, and no arrival_time of silent; expected streams whose every row tells when it arrived",
    ),
    (
        "SELECT a1.x FROM " + ", ".join(f"{'^' * (n == 9)}s [1 DAY] a{n}" for n in range(1, 10)),
        "9 streams; expected three to eight streams",
    ),
]


@pytest.mark.parametrize(("marked", "told"), FAULTS)
def test_what_cannot_be_run_is_told_with_its_place(marked: str, told: str) -> None:
    before, _, after = ("-- é\n" + marked).partition("^")

    with pytest.raises(QueryError, match=told) as refused:
        parse_query("three", before + after, STREAMS)

    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    assert (line, column) in {(fault.line, fault.column) for fault in refused.value.faults}
