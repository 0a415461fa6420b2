from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.queries.aggregate.query import AggregateQuery, Input, Measure, Method
from lakehouse.queries.kind import Output
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.registered import QueryError, parse_query
from tests.queries.asked import MODEL_STREAMS, Model, models
from tests.queries.declared_streams import HOUR, MINUTE, SECOND, aggregate_of, stream_of

COLUMNS = {
    "src": "string",
    "dest": "string",
    "location": "string",
    "temperature": "double",
    "strength": "double",
    "port": "int",
    "ok": "boolean",
    "method": "string",
    "price": {"type": "decimal", "decimals": 2},
}
STREAMS = {
    "a": stream_of(name="a", columns=COLUMNS | {"only_a": "int", "cost": {"type": "decimal", "decimals": 3}}),
    "b": stream_of(name="b", columns=COLUMNS | {"only_b": "int"}),
    "c": stream_of(name="c", columns=COLUMNS | {"place": "string"}),
}
PATHS = "SELECT COUNT(*) FROM A[60 MINUTE], B[60 MINUTE] WHERE A.src = B.src AND A.dest = B.dest"
FIRES = """SELECT location, COUNT(*) FROM A[10 MINUTE], B[10 MINUTE]
    WHERE A.location = B.location AND A.temperature >= 40 AND B.strength > 0.6
    GROUP BY location HAVING COUNT(*) > 5"""
EVERY = " EVERY 1 MINUTE"
TWO = "FROM a [1 HOUR], b [1 HOUR] WHERE a.src = b.src"
THREE = "FROM a [1 HOUR], b [1 HOUR], c [1 HOUR] WHERE a.src = b.src AND b.src = c.src"


def _parsed(text: str) -> AggregateQuery:
    return aggregate_of("asked", text, STREAMS)


def _of_two(select: str, more: str = "", clauses: str = EVERY) -> AggregateQuery:
    return _parsed(f"SELECT {select} {TWO} {more}{clauses}")


def _where(conditions: str, tables: str = "a [1 HOUR], b [1 HOUR], c [1 HOUR]") -> AggregateQuery:
    return _parsed(f"SELECT COUNT(*) FROM {tables} WHERE {conditions}{EVERY}")


def _keys(query: AggregateQuery) -> list[tuple[str, dict[int, str]]]:
    return [(side.stream, dict(side.keys)) for side in query.sides]


def test_counting_paths_is_read_word_for_word() -> None:
    keys = ((0, "dest"), (1, "src"))

    assert _parsed(PATHS + EVERY) == AggregateQuery(
        name="asked",
        text=PATHS + EVERY,
        description="",
        sides=(Input("a", "a", HOUR, keys, ()), Input("b", "b", HOUR, keys, ())),
        groups=(),
        measures=(Measure("count", "count"),),
        having=None,
        every_us=MINUTE,
        slack_us=0,
        idle_us=None,
        ahead_us=None,
        method="factorised",
        is_forced=False,
        why="all streams are joined on the same attributes, so no row has to meet another",
        is_alarm=False,
    )


def test_fires_by_location_are_read_word_for_word() -> None:
    query = _parsed(FIRES + EVERY)

    keys = ((0, "location"),)
    assert query.sides == (
        Input("a", "a", 10 * MINUTE, keys, (), where="`temperature` >= 40"),
        Input("b", "b", 10 * MINUTE, keys, (), where="`strength` > 0.6"),
    )
    assert query.groups == (Output("location", 0, "location"),)
    assert (query.measures, query.having) == ((Measure("count", "count"),), "`count` > 5")


def test_every_clause_is_read_in_any_order() -> None:
    text = f"-- Fires.\n{FIRES} ALARM METHOD MULTIWAY IDLE 10 MINUTES SLACK 30 SECONDS EVERY 0.5 SECONDS;"
    query = _parsed(text)

    assert (query.description, query.every_us, query.slack_us) == ("Fires.", SECOND // 2, 30 * SECOND)
    assert (query.idle_us, query.is_alarm) == (10 * MINUTE, True)
    assert (query.method, query.is_forced, query.why) == ("multiway", True, "METHOD asks for it")


def test_a_slack_of_0_can_be_said() -> None:
    assert _parsed(f"{PATHS} SLACK 0 SECONDS{EVERY}").definition() == _parsed(PATHS + EVERY).definition()


def test_ahead_is_of_the_own_arrival_of_every_row() -> None:
    arrival = {"column": "received", "unit": "s"}
    telling = {name: stream_of(name=name, columns=COLUMNS, arrival_time=arrival) for name in STREAMS}

    query = aggregate_of("asked", f"{PATHS} AHEAD 1 HOUR{EVERY}", telling)

    assert query.ahead_us == HOUR


@pytest.mark.parametrize("method", get_args(Method))
def test_every_method_can_be_forced(method: Method) -> None:
    assert _parsed(f"{PATHS}{EVERY} METHOD {method}").method == method


@pytest.mark.parametrize(
    "tables",
    [
        "a [RANGE 60 MINUTES], b [1 HOUR] WHERE a.src = b.src",
        "b [1 HOUR], a [1 HOUR] WHERE b.src = a.src",
        "a [1 HOURS] x JOIN b AS y [60 MINUTE] ON (y.src) = x.src",
        "a [1 HOUR] INNER JOIN b [3600 SECONDS] ON a.src = b.src",
        "a [1 HOUR] CROSS JOIN b [1 HOUR] WHERE (a.src = b.src)",
    ],
)
def test_what_means_the_same_has_one_definition(tables: str) -> None:
    assert _parsed(f"SELECT COUNT(*) FROM {tables}{EVERY}").definition() == _of_two("COUNT(*)").definition()


def test_windows_may_differ() -> None:
    query = _parsed(f"SELECT COUNT(*) FROM a [1 HOUR], b [5 SECONDS] WHERE a.src = b.src{EVERY}")

    assert [side.window_us for side in query.sides] == [HOUR, 5 * SECOND]


def test_equality_passes_on() -> None:
    """Three columns are one attribute, whichever two equalities say so."""
    first, *others = (
        _where("a.src = b.dest AND b.dest = c.place"),
        _where("a.src = c.place AND b.dest = a.src"),
        _where("c.place = b.dest AND c.place = a.src AND a.src = b.dest"),
    )

    assert _keys(first) == [("a", {0: "src"}), ("b", {0: "dest"}), ("c", {0: "place"})]
    assert [other.definition() for other in others] == [first.definition()] * 2


def test_attributes_of_a_chain_are_numbered_in_one_order() -> None:
    query = _where("b.dest = c.place AND a.src = b.src")

    assert _keys(query) == [("a", {0: "src"}), ("b", {0: "src", 1: "dest"}), ("c", {1: "place"})]
    assert query.method == "view_tree"
    assert query.why == "the attributes form a tree, so a row meets what is known of each key beside it"


def test_equal_columns_of_one_stream_are_its_filter() -> None:
    query = _of_two("COUNT(*)", "AND a.dest = a.src")

    assert query.sides[0].where == "`dest` = `src`"
    assert _keys(query) == [("a", {0: "dest"}), ("b", {0: "src"})]
    assert _of_two("COUNT(*)", "AND a.dest = b.src").definition() == query.definition()


def test_a_column_that_equals_itself_is_not_null_and_numbers_of_any_type_compare_within_a_row() -> None:
    query = _of_two("COUNT(*)", "AND a.src = a.src AND b.port = b.temperature")

    assert [side.where for side in query.sides] == ["`src` = `src`", "`port` = `temperature`"]


@pytest.mark.parametrize("column", ["src", "port", "ok", "price", "temperature", "event_us"])
def test_columns_of_every_type_join(column: str) -> None:
    assert _keys(_where(f"a.{column} = b.{column}", "a [1 DAY], b [1 DAY]")) == [
        ("a", {0: column}),
        ("b", {0: column}),
    ]


def test_a_stream_joins_itself_several_times() -> None:
    query = _where("x.src = y.src AND y.dest = z.dest", "a [1 HOUR] x, a [1 HOUR] y, a [1 DAY] z")

    assert [side.stream for side in query.sides] == ["a", "a", "a"]
    assert [side.window_us for side in query.sides] == [HOUR, HOUR, 24 * HOUR]


def test_a_name_that_several_streams_have_is_any_of_equal_columns() -> None:
    query = _where(
        "location = c.place AND a.location = b.location AND c.location = b.location AND location <> 'x'"
    )

    assert _keys(query) == [("a", {0: "location"}), ("b", {0: "location"}), ("c", {0: "location"})]
    assert [side.where for side in query.sides] == ["`location` <> 'x'", None, "`location` = `place`"]


def test_each_aggregate_reads_a_value_of_its_side() -> None:
    query = _of_two(
        "COUNT(*) AS n, COUNT(a.temperature), SUM(only_b), AVG(a.temperature) heat, MIN(b.price), MAX(a.port)"
    )

    assert query.measures == (
        Measure("n", "count"),
        Measure("count_temperature", "count", 0, 1),
        Measure("sum_only_b", "sum", 1, 0),
        Measure("heat", "avg", 0, 1),
        Measure("min_price", "min", 1, 1),
        Measure("max_port", "max", 0, 0),
    )
    assert query.sides[0].values == ("CAST(`port` AS BIGINT)", "CAST(`temperature` AS DOUBLE)")
    assert query.sides[1].values == ("CAST(`only_b` AS BIGINT)", "CAST(`price` AS DECIMAL(38, 2))")


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        (
            "SUM(a.port * 2 + a.only_a)",
            "CAST(CAST(`port` AS DOUBLE) * 2 + CAST(`only_a` AS DOUBLE) AS DOUBLE)",
        ),
        ("SUM((A.PORT))", "CAST(`port` AS BIGINT)"),
        ("MAX(ABS(only_a - 5) / 3)", "CAST(ABS(CAST(`only_a` AS DOUBLE) - 5) / 3 AS DOUBLE)"),
        ("MIN(-a.port)", "CAST(-CAST(`port` AS DOUBLE) AS DOUBLE)"),
        ("SUM(LENGTH(a.src))", "CAST(LENGTH(`src`) AS DOUBLE)"),
        ("COUNT(a.src)", "CASE WHEN NOT `src` IS NULL THEN CAST(1 AS DOUBLE) END"),
    ],
)
def test_values_are_doubles_unless_they_are_a_column_alone(written: str, sql: str) -> None:
    assert _of_two(f"{written} AS v").sides[0].values == (sql,)


def test_groups_are_in_the_order_of_select_then_by_name() -> None:
    query = _of_two("b.dest AS goal, COUNT(*), a.port", "GROUP BY a.port, b.ok, b.dest, a.location")

    assert query.groups == (
        Output("goal", 1, "dest"),
        Output("port", 0, "port"),
        Output("location", 0, "location"),
        Output("ok", 1, "ok"),
    )


def test_of_equal_columns_any_names_the_group() -> None:
    groups = [
        _of_two(f"{shown} AS place, COUNT(*)", f"GROUP BY {grouped}").groups
        for shown in ("a.src", "b.src", "src")
        for grouped in ("a.src", "b.src", "src", "a.src, b.src")
    ]

    assert groups == [(Output("place", 0, "src"),)] * 12


@pytest.mark.parametrize(
    ("having", "sql"),
    [
        ("COUNT(*) > 5", "`n` > 5"),
        ("n > 5 AND 2 < N", "2 < `n` AND `n` > 5"),
        ("n BETWEEN 2 AND 5 AND src <> 'x'", "`goal` <> 'x' AND `n` <= 5 AND `n` >= 2"),
        ("goal LIKE 'a%' OR b.src IN ('x', 'y')", "(`goal` LIKE 'a%' OR `goal` IN ('x', 'y'))"),
        ("SUM(a.port) > 3 * n", "`having_1` > 3 * CAST(`n` AS DOUBLE)"),
        ("NOT AVG(a.port) IS NULL", "NOT `heat` IS NULL"),
        ("MAX(a.port) - MIN(a.port) > 1", "CAST(`having_1` AS DOUBLE) - CAST(`having_2` AS DOUBLE) > 1"),
    ],
)
def test_having_reads_groups_aliases_and_aggregates(having: str, sql: str) -> None:
    query = _of_two("src AS goal, COUNT(*) AS n, AVG(a.port) AS heat", f"GROUP BY a.src HAVING {having}")

    assert query.having == sql


def test_aggregates_that_only_having_reads_are_not_shown() -> None:
    query = _of_two("src", "GROUP BY src HAVING SUM(b.port) > 3 AND COUNT(*) > 2 AND MAX(a.port) < 9")
    turned = _of_two("src", "GROUP BY src HAVING MAX(a.port) < 9 AND COUNT(*) > 2 AND SUM(b.port) > 3")

    assert query.measures == (
        Measure("having_1", "count", is_shown=False),
        Measure("having_2", "max", 0, 0, is_shown=False),
        Measure("having_3", "sum", 1, 0, is_shown=False),
    )
    assert query.having == "`having_1` > 2 AND `having_2` < 9 AND `having_3` > 3"
    assert turned == replace(query, text=turned.text)


def test_sides_that_nothing_but_having_tells_apart_have_one_order() -> None:
    one, two = (
        _parsed(
            f"SELECT COUNT(*) FROM {tables} WHERE x.src = y.dest AND x.dest = y.src"
            f" HAVING SUM(x.port) > {of_x} AND SUM(y.port) > {of_y}{EVERY}"
        )
        for tables, of_x, of_y in (
            ("a [1 HOUR] x, a [1 HOUR] y", 3, 5),
            ("a [1 HOUR] x, a [1 HOUR] y", 5, 3),
        )
    )

    assert one.definition() == two.definition()
    assert one.having == "`having_1` > 3 AND `having_2` > 5"


def test_having_needs_no_group() -> None:
    query = _of_two("SUM(a.port)", "HAVING sum_port > 3")

    assert (query.groups, query.having) == ((), "`sum_port` > 3")


def test_words_of_clauses_can_be_columns_aliases_and_texts() -> None:
    query = _parsed(
        "SELECT method, COUNT(*) AS `every` FROM a [1 DAY] AS slack, b [1 DAY] WHERE method = 'ALARM'"
        " AND slack.method = b.method GROUP BY method HAVING every > 3 AND method <> 'EVERY' EVERY 1 DAY"
    )

    assert (query.sides[0].alias, query.sides[0].where) == ("slack", "`method` = 'ALARM'")
    assert (query.having, query.every_us) == ("`every` > 3 AND `method` <> 'EVERY'", 24 * HOUR)


HEAD = f"SELECT COUNT(*) {TWO} "
# Each is a query whose fault stands at the mark, and what is told of it.
FAULTS = [
    (f"{PATHS}^", "found no EVERY; expected EVERY <interval>, how far ticks are apart"),
    (f"{PATHS} EVERY ^0 SECONDS", "EVERY of 0"),
    (f"{PATHS}{EVERY} ^EVERY 1 SECOND", "EVERY twice"),
    (f"{PATHS}{EVERY} RECALL ^1.5 OVER 1 DAY", "1.5"),
    (f"{PATHS}{EVERY} ^POLICY PAPER", "POLICY in an aggregate; expected no POLICY"),
    (f"{PATHS}{EVERY} SLACK ^many", "'many'; expected a whole number"),
    (f"{PATHS}{EVERY} IDLE ^0 DAYS", "IDLE of 0"),
    (
        f"{PATHS}{EVERY} ^AHEAD 1 DAY",
        "AHEAD, and no arrival_time of a and b; expected streams whose every row",
    ),
    (f"{PATHS}{EVERY} METHOD ^FACTORIZED", r"'FACTORIZED'; .*\(did you mean FACTORISED\?\)"),
    (f"{PATHS}{EVERY} METHOD^", "the end; expected one of FACTORISED, VIEW_TREE, MULTIWAY"),
    (f"{PATHS}{EVERY} ^ALARM", "ALARM without HAVING; expected HAVING"),
    (f"{FIRES}{EVERY} ALARM ^ON", "'ON'; expected one of .* ALARM, DEADLINE or the end"),
    (
        f"SELECT COUNT(*) {THREE}{EVERY} ^METHOD TUPLE_COUNT",
        "TUPLE_COUNT, but .* has 3; expected one of FACT",
    ),
    (f"SELECT COUNT(*) {THREE}{EVERY} ^METHOD INCREMENTAL", "INCREMENTAL, but it joins two streams"),
    (f"SELECT MAX(a.port) {TWO}{EVERY} ^METHOD INCREMENTAL", "INCREMENTAL, but .* and not for MAX"),
    (
        f"SELECT COUNT(*) {TWO}{EVERY} RECALL 0.9 OVER 10 MINUTES ^METHOD INCREMENTAL",
        "INCREMENTAL, but it takes rows away again, and RECALL keeps when the last row of each answer came; expected",
    ),
    (
        f"SELECT MAX(a.port) {TWO}{EVERY} RECALL 0.9 OVER 10 MINUTES ^METHOD INCREMENTAL",
        "INCREMENTAL, but .* and not for MAX",
    ),
    (
        f"SELECT COUNT(*) {THREE} AND a.dest = b.dest{EVERY} ^METHOD FACTORISED",
        "FACTORISED, but not all streams .*; expected one of VIEW_TREE, MULTIWAY",
    ),
    (f"SELECT COUNT(*) FROM ^a [1 DAY] WHERE a.src = 'x'{EVERY}", "one stream; expected two to six"),
    (
        "SELECT COUNT(*) FROM a [1 DAY], a [1 DAY] b, a [1 DAY] c, a [1 DAY] d, a [1 DAY] e, a [1 DAY] f, "
        f"^a [1 DAY] g WHERE a.src = b.src{EVERY}",
        "7 streams; expected two to six",
    ),
    (f"SELECT COUNT(*) FROM a [1 DAY], ^b WHERE a.src = b.src{EVERY}", "no window; expected .* each stream"),
    (f"SELECT COUNT(*) FROM a [1 DAY], b [1 DAY] b [^2 DAYS] WHERE a.src = b.src{EVERY}", "a second window"),
    (f"SELECT COUNT(*) FROM a [1 DAY], b [^0 DAYS] WHERE a.src = b.src{EVERY}", "a window of 0"),
    (f"SELECT COUNT(*) FROM a [1 DAY], b [1 ^WEEK] WHERE a.src = b.src{EVERY}", "'WEEK'; expected a unit"),
    (f"SELECT COUNT(*) FROM a [1 DAY], ^bb [1 DAY] WHERE a.src = 'x'{EVERY}", r"did you mean b\?"),
    (f"SELECT COUNT(*) FROM a [1 DAY], ^a [1 DAY] WHERE a.src = 'x'{EVERY}", "'a' for both sides"),
    (f"SELECT COUNT(*) FROM a [1 DAY], b [1 DAY], ^b [1 DAY] WHERE a.src = 'x'{EVERY}", "'b' for two sides"),
    (f"SELECT COUNT(*) FROM a [1 DAY], ^b [1 DAY]{EVERY}", "no condition that joins .*every row meets"),
    (
        f"SELECT COUNT(*) FROM a [1 DAY], b [1 DAY], ^c [1 DAY] WHERE a.src = b.src{EVERY}",
        "that joins c to an",
    ),
    (
        "SELECT COUNT(*) FROM a [1 DAY], ^b [1 DAY], c [1 DAY], a [1 DAY] d "
        f"WHERE a.src = d.src AND b.src = c.src{EVERY}",
        "no condition that joins the streams; expected .* b to another",
    ),
    (
        f"{HEAD}AND ^a.port < b.port{EVERY}",
        "a.port < b.port; expected only equalities between streams in an ag",
    ),
    (f"{HEAD}AND ^a.port = b.port + 1{EVERY}", "only equalities between streams in an aggregate"),
    (f"{HEAD}AND ^ABS(a.port - b.port) <= 5{EVERY}", "only equalities between"),
    (f"{HEAD}AND ^DISTANCE(a.port, a.port, b.port, b.port) <= 5{EVERY}", "only equalities between"),
    (f"{HEAD}AND (^a.port = 1 OR b.port = 2){EVERY}", "OR between the streams; expected only equalities"),
    (f"{HEAD}AND ^a.dest = b.port{EVERY}", "a.dest of type string and b.port of type int; .* one type"),
    (f"{HEAD}AND ^b.port = a.temperature{EVERY}", "a.temperature of type double and b.port of type int"),
    (f"{HEAD}AND ^a.cost = b.price{EVERY}", "two columns of one type and as many decimals"),
    (f"{HEAD}AND a.src = ^a.port{EVERY}", "a.port, which is a number; expected text"),
    (f"{HEAD}AND a.^sorce = b.src{EVERY}", r"the unknown column 'sorce' of a; .*mean src\?"),
    (f"{HEAD}AND ^q.src = b.src{EVERY}", "the unknown alias 'q'; expected one of a, b"),
    (f"{HEAD}AND ^port > 3{EVERY}", "'port', which both sides have; expected a.port or b.port"),
    (f"{HEAD}AND ^dest = b.dest{EVERY}", "'dest', which both sides have; expected a.dest or b.dest"),
    (
        f"SELECT COUNT(*) {THREE} AND a.dest = b.dest AND ^dest > 'x'{EVERY}",
        "'dest', which 3 sides have; .* or c",
    ),
    (f"{HEAD}AND ^nothing > 3{EVERY}", "the unknown column 'nothing'"),
    (f"{HEAD}AND ^1 = 1{EVERY}", "a condition that reads no column"),
    (f"{HEAD}AND a.port / ^a.only_a > 1{EVERY}", "a divisor that may be 0"),
    (
        f"{HEAD}AND ^COUNT(*) > 5{EVERY}",
        "the aggregate COUNT.*; expected .* aggregates stand in SELECT and HAVING",
    ),
    (f"{HEAD}AND ^MAX(a.port) > 5{EVERY}", "the aggregate MAX"),
    (
        f"SELECT a.dest, ^b.dest AS dest, COUNT(*) {TWO} GROUP BY a.dest, b.dest{EVERY}",
        "a second output 'dest'",
    ),
    (f"SELECT SUM(a.port), ^SUM(b.port) {TWO}{EVERY}", "a second output 'sum_port'; .* given with AS"),
    (f"SELECT COUNT(*) AS dest {TWO} GROUP BY ^a.dest{EVERY}", "a second output 'dest'"),
    (f"SELECT ^COUNT(*) AS revision {TWO}{EVERY}", "an output 'revision'"),
    (f"SELECT ^COUNT(*) AS having_1 {TWO}{EVERY}", "an output 'having_1'; .* not Tidemark's own"),
    (f"SELECT ^COUNT(*) AS `N m` {TWO}{EVERY}", "an output 'n m'; expected a name of lower-case"),
    (f"SELECT ^a.event_us, COUNT(*) {TWO} GROUP BY a.event_us{EVERY}", "an output 'event_us'"),
    (f"SELECT ^a.dest, COUNT(*) {TWO}{EVERY}", "a.dest, which is not in GROUP BY; .* such as MAX"),
    (f"SELECT ^a.dest, COUNT(*) {TWO} GROUP BY b.dest{EVERY}", "a.dest, which is not in GROUP BY"),
    (f"SELECT a.port, COUNT(*) {TWO} GROUP BY a.^prt{EVERY}", r"unknown column 'prt' of a; .*mean port\?"),
    (f"SELECT COUNT(*) {TWO} GROUP BY ^1{EVERY}", "found 1; expected a plain column"),
    (f"SELECT COUNT(*) {TWO} GROUP BY ^a.port + 1{EVERY}", r"a.port \+ 1; expected a plain column"),
    (f"SELECT COUNT(*) {TWO} GROUP BY ^ALL{EVERY}", "found ALL; expected GROUP BY and the columns"),
    (f"SELECT COUNT(*) {TWO} GROUP BY ^ROLLUP(a.port){EVERY}", "found ROLLUP"),
    (f"SELECT COUNT(*) {TWO} GROUP BY ^CUBE(a.port){EVERY}", "found CUBE"),
    (f"SELECT COUNT(*) {TWO} GROUP BY ^GROUPING SETS ((a.port)){EVERY}", "found GROUPING SETS"),
    (f"SELECT FROM ^a [1 DAY], b [1 DAY] WHERE a.src = b.src HAVING COUNT(*) > 1{EVERY}", "no outputs"),
    (f"SELECT ^*, COUNT(*) {TWO}{EVERY}", "expected a column of GROUP BY, or one of COUNT, SUM"),
    (f"SELECT ^a.*, COUNT(*) {TWO}{EVERY}", "expected a column of GROUP BY"),
    (f"SELECT ^a.port + 1 AS x, COUNT(*) {TWO}{EVERY}", "expected a column of GROUP BY"),
    (f"SELECT ^SUM(a.port) / COUNT(*) AS x {TWO}{EVERY}", "HAVING may reckon with them"),
    (f"SELECT ^SUM(a.port) OVER () AS x {TWO}{EVERY}", "or one of COUNT, SUM, AVG, MIN, MAX"),
    (f"SELECT ^COUNT(*) FILTER (WHERE a.port > 3) AS x {TWO}{EVERY}", "or one of COUNT, SUM, AVG, MIN, MAX"),
    (f"SELECT ^CUONT(*), SUM(a.port) {TWO}{EVERY}", r"CUONT\(\*\); expected one of .*mean COUNT\?"),
    (f"SELECT ^STDDEV(a.port) {TWO}{EVERY}", "expected one of COUNT, SUM, AVG, MIN, MAX"),
    (
        f"SELECT COUNT(^DISTINCT a.port) {TWO}{EVERY}",
        "DISTINCT; expected no DISTINCT: every result is found, and",
    ),
    (f"SELECT ^COUNT(a.port, a.src) {TWO}{EVERY}", "one argument of COUNT"),
    (f"SELECT ^MAX(a.port, 3) {TWO}{EVERY}", "one argument of MAX"),
    (f"SELECT COUNT(* ^EXCEPT (port)) {TWO}{EVERY}", "EXCEPT"),
    (f"SELECT COUNT(^1) {TWO}{EVERY}", "1, which reads no column; expected columns of one stream"),
    (f"SELECT SUM(^a.port + b.port) AS x {TWO}{EVERY}", "reads columns of several streams"),
    (f"SELECT ^SUM(a.port + 1) {TWO}{EVERY}", "without a name; expected a name, given with AS"),
    (f"SELECT SUM(^a.src) {TWO}{EVERY}", "a.src, which is text; expected a number"),
    (f"SELECT MAX(^a.ok) {TWO}{EVERY}", "a.ok, which is true or false; expected a number"),
    (f"SELECT COUNT(^a.port > 3) AS x {TWO}{EVERY}", "which is true or false; expected a number"),
    (f"SELECT SUM(a.port / ^a.only_a) AS x {TWO}{EVERY}", "a divisor that may be 0"),
    (f"SELECT SUM(^SQRT(a.port)) AS x {TWO}{EVERY}", r"SQRT\(a.port\)"),
    (f"SELECT SUM(^MAX(a.port)) AS x {TWO}{EVERY}", r"the aggregate MAX\(a.port\); .* not within another"),
    (f"SELECT SUM(^port) {TWO}{EVERY}", "'port', which both sides have"),
    (f"SELECT SUM(a.^prt) AS x {TWO}{EVERY}", "unknown column 'prt'"),
    (
        f"SELECT COUNT(*) {TWO} HAVING ^COUNT(*){EVERY}",
        "a number; expected a condition that is true or false",
    ),
    (f"SELECT COUNT(*) {TWO} HAVING COUNT(*) > ^'5'{EVERY}", "'5', which is text; expected a number"),
    (f"SELECT COUNT(*) {TWO} HAVING ^1 = 1{EVERY}", "reads neither aggregate nor group; expected"),
    (f"SELECT COUNT(*) {TWO} HAVING ^a.port > 5{EVERY}", "a.port, which is not in GROUP BY"),
    (f"SELECT COUNT(*) {TWO} HAVING ^cuont > 5{EVERY}", r"unknown name 'cuont'; .*did you mean count\?"),
    (f"SELECT COUNT(*) {TWO} HAVING ^CUONT(*) > 5{EVERY}", r"CUONT\(\*\); .*did you mean COUNT\?"),
    (f"SELECT COUNT(*) {TWO} HAVING SUM(a.port) / ^COUNT(*) > 5{EVERY}", "a divisor that may be 0"),
    (f"SELECT COUNT(*) {TWO} HAVING COUNT(*) > (^SELECT 1){EVERY}", "a subquery"),
    (f"SELECT COUNT(*) {TWO} ^ORDER BY 1{EVERY}", "ORDER BY"),
    (f"SELECT COUNT(*) {TWO} ^LIMIT 3{EVERY}", "LIMIT"),
    (f"SELECT ^DISTINCT COUNT(*) {TWO}{EVERY}", "DISTINCT"),
    (f"SELECT COUNT(*) FROM a [1 DAY] ^LEFT JOIN b [1 DAY] ON a.src = b.src{EVERY}", "an outer join"),
    (f"SELECT COUNT(*) FROM a [1 DAY] JOIN b [1 DAY] ^USING (src){EVERY}", "USING"),
    (f"SELECT COUNT(*) FROM (^SELECT * FROM a) a, b [1 DAY] WHERE a.src = b.src{EVERY}", "a subquery"),
]


@pytest.mark.parametrize(("marked", "told"), FAULTS)
def test_what_cannot_be_run_is_told_with_its_place(marked: str, told: str) -> None:
    before, _, after = ("-- é\n" + marked).partition("^")

    with pytest.raises(QueryError, match=told) as refused:
        parse_query("asked", before + after, STREAMS)

    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    assert (refused.value.line, refused.value.column) == (line, column), str(refused.value)
    assert len(refused.value.faults) == 1, str(refused.value)


PAIRS = "SELECT a.src FROM a [1 HOUR] JOIN b ON a.src = b.src RECALL 0.9 OVER 1 DAY"


@pytest.mark.parametrize(
    ("clause", "told"),
    [
        ("SLACK 1 DAY", "SLACK in a join of pairs; expected no SLACK: it is chosen"),
        ("METHOD FACTORISED", "METHOD in a join of pairs; expected no METHOD"),
        ("ALARM", "ALARM in a join of pairs; expected no ALARM"),
    ],
)
def test_clauses_of_aggregates_are_none_of_pairs(clause: str, told: str) -> None:
    with pytest.raises(QueryError, match=told) as refused:
        parse_query("asked", f"{PAIRS} {clause}", STREAMS)

    assert (refused.value.line, refused.value.column) == (1, len(PAIRS) + 2)


def test_an_aggregate_in_select_or_a_group_makes_the_difference() -> None:
    assert isinstance(parse_query("asked", PAIRS, STREAMS), PairsQuery)
    assert _of_two("src", "GROUP BY src").measures == ()


def test_all_faults_of_a_query_are_told_at_once() -> None:
    with pytest.raises(QueryError) as refused:
        _parsed(
            "SELECT a.nope, SUM(a.src)\nFROM a, b [1 DAY]\nWHERE a.src < b.src\nHAVING COUNT(*)\nSLACK x ALARM"
        )

    places = [(fault.line, fault.column) for fault in refused.value.faults]
    assert places == [(1, 10), (1, 20), (2, 6), (3, 7), (4, 8), (5, 7), (5, 14)]


@settings(deadline=None, max_examples=60)
@given(model=models(), data=st.data())
def test_any_way_to_write_a_query_is_read_as_what_it_means(model: Model, data: st.DataObject) -> None:
    aliases = [f"side_{number}" for number in range(len(model.streams))]

    query = aggregate_of("asked", model.written(data, aliases), MODEL_STREAMS)

    read = {side.alias: (side.stream, side.window_us, side.where) for side in query.sides}
    assert read == {alias: model.side(number) for number, alias in enumerate(aliases)}
    places = [aliases.index(side.alias) for side in query.sides]
    assert _attributes(query, places) == model.attributes()
    for group, asked in zip(query.groups, model.groups, strict=True):
        assert (places[group.side], group.column) in model.equal_to(asked)
    assert _calls(query, places) == [*model.calls, ("count", None, None)]


@settings(deadline=None, max_examples=60)
@given(model=models(), data=st.data())
def test_order_and_aliases_change_no_definition(model: Model, data: st.DataObject) -> None:
    count = len(model.streams)
    definitions = {
        aggregate_of("asked", model.written(data, aliases[:count]), MODEL_STREAMS).definition()
        for aliases in (["p", "q", "r", "s"], ["z", "y", "x", "w"])
    }

    assert len(definitions) == 1


def _attributes(query: AggregateQuery, places: list[int]) -> set[frozenset[tuple[int, str]]]:
    named: dict[int, set[tuple[int, str]]] = {}
    for at, side in zip(places, query.sides, strict=True):
        for number, column in side.keys:
            named.setdefault(number, set()).add((at, column))
    assert sorted(named) == [*range(len(named))]
    return set(map(frozenset, named.values()))


def _calls(query: AggregateQuery, places: list[int]) -> list[tuple[str, int | None, str | None]]:
    return [
        (each.function, None, None)
        if each.value is None
        else (each.function, places[each.side], query.sides[each.side].values[each.value][6:-12])
        for each in query.measures
    ]


@pytest.mark.parametrize(
    "select",
    ["SUM(b.volume) AS total", "SUM(b.volume * 2 + b.temp) AS total", "COUNT(*) HAVING SUM(b.volume) > 5"],
)
def test_readings_of_a_counter_are_not_added_up(select: str) -> None:
    meter = stream_of(
        name="meter",
        columns={"volume": "int", "src": "string"},
        measures=["volume", "temp"],
        counters=["volume"],
    )
    outputs, _, having = select.partition(" HAVING ")
    text = f"SELECT {outputs} FROM a [1 HOUR], meter [1 HOUR] b WHERE a.src = b.src"
    text += f" HAVING {having}" if having else ""

    with pytest.raises(
        QueryError, match=r"volume of meter is a counter, whose readings do not add up.*AVG, MIN"
    ):
        parse_query("asked", text + EVERY, STREAMS | {"meter": meter})

    for function in ("AVG", "MIN", "MAX", "COUNT"):
        kept = (
            f"SELECT {function}(b.volume) AS n FROM a [1 HOUR], meter [1 HOUR] b WHERE a.src = b.src{EVERY}"
        )
        parse_query("asked", kept, STREAMS | {"meter": meter})
