from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.conditions import Band, Comparison, Distance, Equality
from lakehouse.algorithms.late_join.contract import Clock
from lakehouse.algorithms.late_join.policy_paper import PaperSlack
from lakehouse.algorithms.late_join.probing import Plan
from lakehouse.config.problems import ConfigError, Problem
from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.kind import Output
from lakehouse.queries.pairs.held_join import policy_of
from lakehouse.queries.pairs.query import PairSide, PairsQuery, PaperSettings
from lakehouse.queries.registered import QueryError, read_queries
from lakehouse.settings import load_settings
from tests.queries.declared_streams import HOUR, MINUTE, SECOND, join_of, stream_of

ROOT = Path(__file__).parents[3]
COLUMNS = {
    "id": "int",
    "kind": "string",
    "ok": "boolean",
    "temp": "double",
    "x": "double",
    "y": "double",
    "price": {"type": "decimal", "decimals": 2},
}
STREAMS = {
    "requests": stream_of(name="requests", columns=COLUMNS | {"cost": {"type": "decimal", "decimals": 3}}),
    "replies": stream_of(name="replies", columns=COLUMNS | {"strength": "double"}),
}
HEAD = "SELECT r.device, s.temp AS answer FROM requests [RANGE 2 SECONDS] r JOIN replies s "
TAIL = " RECALL 0.95 OVER 1 MINUTE"
WHOLE = """-- Answers to requests,
-- hotter than those.

SELECT r.device, r.event_us AS sent, s.temp AS answer
FROM requests [RANGE 2 SECONDS] r JOIN replies [RANGE 2 SECONDS] s  -- the window
ON r.id = s.id AND s.temp > r.temp + 0.5
WHERE r.kind = 'A' AND s.strength > 0.6
RECALL 0.95 OVER 1 MINUTE EVERY 0.5 SECONDS IDLE 10 MINUTES AHEAD 1 HOUR POLICY PAPER;
"""


def _parsed(text: str) -> PairsQuery:
    return join_of("late", text, STREAMS)


def _on(condition: str) -> PairsQuery:
    return _parsed(f"{HEAD}ON {condition}{TAIL}")


def test_a_whole_query_is_read() -> None:
    assert _parsed(WHOLE) == PairsQuery(
        name="late",
        text=WHOLE,
        description="Answers to requests, hotter than those.",
        sides=(
            PairSide("requests", "r", ("id",), ("temp",), where="`kind` = 'A'"),
            PairSide("replies", "s", ("id",), ("temp",), where="`strength` > 0.6"),
        ),
        window_us=2 * SECOND,
        condition=Equality((Comparison(0, "<", 0, -0.5),)),
        outputs=(Output("device", 0, "device"), Output("sent", 0, "event_us"), Output("answer", 1, "temp")),
        recall=0.95,
        period_us=MINUTE,
        step_us=SECOND // 2,
        clock=Clock(10 * MINUTE, HOUR, HOUR),
        policy="paper",
    )


def test_what_is_not_said_has_a_default() -> None:
    query = _on("r.id = s.id")

    assert (query.step_us, query.clock, query.policy) == (SECOND, Clock(), "needed_slack")
    assert (query.description, [side.where for side in query.sides]) == ("", [None, None])


@pytest.mark.parametrize(
    ("on", "keys", "policy"),
    [
        ("r.id = s.id", ("device",), "needed_slack"),
        ("r.id = s.id AND ABS(r.temp - s.temp) <= 1", ("device",), "needed_slack"),
        ("ABS(r.temp - s.temp) <= 1", ("device",), "per_source"),
        ("DISTANCE(r.x, r.y, s.x, s.y) <= 1", ("device",), "per_source"),
        ("DISTANCE(r.x, r.y, s.x, s.y) <= 1", (), "needed_slack"),
    ],
)
def test_by_default_a_join_that_is_not_divided_watches_the_sources_that_its_streams_declare(
    on: str, keys: tuple[str, ...], policy: str
) -> None:
    streams = STREAMS | {"replies": STREAMS["replies"].model_copy(update={"keys": keys, "groupings": ()})}
    usual, asked = (
        join_of("late", f"{HEAD}ON {on}{TAIL}{clause}", streams) for clause in ("", f" POLICY {policy}")
    )

    assert (usual.policy, usual.sources is None) == (policy, policy == "needed_slack")
    assert (usual.how(), usual.definition()) == (asked.how(), asked.definition())


def test_the_papers_policy_takes_its_settings_in_any_order() -> None:
    text = f"{HEAD}ON r.id = s.id{TAIL} POLICY PAPER"
    usual = _parsed(text)
    given = _parsed(f"{text} LARGEST RECENT GRANULARITY 0.1 SECONDS BASIC 20 MILLISECONDS EVERY 2 SECONDS")
    policy = policy_of(given)

    assert (usual.paper, usual.how()) == (PaperSettings(10_000, 10_000, "history"), "POLICY paper")
    assert given.paper == PaperSettings(20_000, 100_000, "recent") and given.step_us == 2 * SECOND
    assert given.how() == "POLICY paper BASIC 20ms GRANULARITY 100ms LARGEST RECENT"
    assert isinstance(policy, PaperSlack)
    assert (policy.basic_us, policy.grid[1], policy.reading) == (20_000, 100_000, "recent")


def test_spare_rows_are_part_of_how_a_query_runs_where_they_are_not_the_default() -> None:
    usual, more = (_parsed(f"{HEAD}ON r.id = s.id{TAIL}{clause}") for clause in ("", " SPARE 20000 ROWS"))

    assert (usual.spare_rows, more.spare_rows) == (1024, 20_000)
    assert usual.definition() == more.definition()
    assert (usual.how(), more.how()) == (
        "POLICY needed_slack",
        "POLICY needed_slack SPARE 20000",
    )


@pytest.mark.parametrize(
    ("by", "sources"),
    [
        ("", (("device", "room"), ("device", "room"))),
        (" BY kind", (("kind",), ("kind",))),
        (" BY Kind, r.ID EVERY 1 SECOND", (("kind", "id"), ("kind",))),
        (' BY s."strength"', (("device", "room"), ("strength",))),
    ],
)
def test_sources_are_named_columns_or_else_the_keys_of_a_stream(by: str, sources: object) -> None:
    query, other = (
        _parsed(f"{HEAD}ON r.id = s.id{TAIL}{clause}") for clause in (f" POLICY PER_SOURCE{by}", "")
    )

    assert (query.policy, query.sources, other.sources) == ("per_source", sources, None)
    assert query.columns_of(0) == {"id", "device", *query.sources[0]}  # type: ignore[index]
    assert query.definition() == other.definition() and query.how() != other.how()


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("1 MICROSECOND", 1),
        ("3 milliseconds", 3_000),
        ("0.2 SECONDS", 200_000),
        (".5 second", 500_000),
        ("2 MINUTES", 2 * MINUTE),
        ("1 HOUR", HOUR),
        ("2 DAYS", 48 * HOUR),
    ],
)
def test_windows_have_every_unit(written: str, microseconds: int) -> None:
    query = _parsed(f"SELECT r.x FROM requests[{written}] r JOIN replies s ON r.id = s.id{TAIL}")

    assert query.window_us == microseconds


@pytest.mark.parametrize(
    "start",
    [
        "FROM requests [RANGE 2 SECONDS] r, replies [RANGE 2 SECONDS] s WHERE",
        "FROM requests r [RANGE 2 SECONDS], replies s WHERE",
        "FROM requests r INNER JOIN replies [RANGE 2000 MILLISECONDS] AS s ON",
        "FROM requests r CROSS JOIN replies AS s [2 SECONDS] WHERE",
        "FROM requests r JOIN replies AS s [2 SECONDS] WHERE",
    ],
)
def test_joins_are_written_in_several_ways(start: str) -> None:
    other = _parsed(f"SELECT r.device, s.temp AS answer {start} r.id = s.id{TAIL}")

    assert other.definition() == _on("r.id = s.id").definition()


def test_a_stream_joins_itself_and_a_star_names_every_column() -> None:
    query = _parsed(f"SELECT b.*, a.x FROM requests [RANGE 1 SECOND] a, requests b WHERE a.id = b.id{TAIL}")

    assert [side.stream for side in query.sides] == ["requests", "requests"]
    expected = [f"b_{name}" for name in (*STREAMS["requests"].all_columns, "event_us", "arrival_us")]
    assert [output.name for output in query.outputs] == [*expected, "x"]


def test_a_bare_star_is_both_sides_and_a_stream_is_its_own_alias() -> None:
    query = _parsed(f"SELECT * FROM requests [RANGE 1 SECOND] JOIN replies ON requests.id = replies.id{TAIL}")

    assert {"requests_x", "replies_x", "replies_strength"} <= {output.name for output in query.outputs}


def test_a_column_of_one_side_needs_no_alias() -> None:
    assert _on("r.id = s.id AND strength > 1").sides[1].where == "`strength` > 1"


def test_several_equalities_are_one_key() -> None:
    left, right = _on("s.kind = r.kind AND r.id = s.id AND r.price = s.price AND r.ok = s.ok").sides

    assert left.keys == right.keys == ("id", "kind", "ok", "price")


@pytest.mark.parametrize(
    ("written", "comparison"),
    [
        ("r.x < s.y", Comparison(0, "<", 0, 0.0)),
        ("s.y < r.x", Comparison(0, ">", 0, 0.0)),
        ("r.x + 1 >= s.y - 0.25", Comparison(0, ">=", 0, -1.25)),
        ("s.y - r.x != 3 * 2", Comparison(0, "!=", 0, -6.0)),
        ("2 * r.x <= (s.y + 4) * 2", Comparison(0, "<=", 0, 4.0)),
        ("-r.x / 2 <= -s.y / 2", Comparison(0, ">=", 0, 0.0)),
        ("r.x = s.y + 0.1", Comparison(0, "==", 0, 0.1)),
    ],
)
def test_comparisons_are_brought_into_one_form(written: str, comparison: Comparison) -> None:
    query = _on(f"r.id = s.id AND {written}")

    assert (query.condition, query.sides[0].numbers) == (Equality((comparison,)), ("x",))
    assert query.sides[1].numbers == ("y",)


def test_between_is_two_comparisons() -> None:
    assert (
        _on("r.id = s.id AND s.x BETWEEN r.x AND r.x + 5").condition
        == _on("r.id = s.id AND s.x >= r.x AND s.x <= r.x + 5").condition
    )


@pytest.mark.parametrize(
    "written", ["ABS(r.x - s.y) <= 5", "5 >= abs(s.y - r.x)", "ABS(2*r.x - 2*s.y) <= 10"]
)
def test_a_band(written: str) -> None:
    query = _on(written)

    assert query.condition == Band(5.0)
    assert [side.numbers for side in query.sides] == [("x",), ("y",)]
    assert [side.keys for side in query.sides] == [(), ()]


def test_a_second_band_and_a_band_beside_a_key_are_comparisons() -> None:
    within = (Comparison(0, "<=", 0, 5.0), Comparison(0, ">=", 0, -5.0))
    beside = (Comparison(1, "<=", 1, 9.0), Comparison(1, ">=", 1, -9.0))

    assert _on("r.id = s.id AND ABS(r.x - s.x) <= 5").condition == Equality(within)
    assert _on("ABS(r.temp - s.temp) <= 9 AND ABS(r.x - s.x) <= 5").condition == Band(5.0, where=beside)


def test_a_band_around_an_offset_is_comparisons() -> None:
    assert _on("r.id = s.id AND ABS(r.x - s.x + 1) <= 5").condition == Equality(
        (Comparison(0, "<=", 0, 4.0), Comparison(0, ">=", 0, -6.0))
    )


@pytest.mark.parametrize(
    "written", ["DISTANCE(r.x, r.y, s.y, s.x) <= 5", "5.0 >= distance(s.y, s.x, r.x, r.y)"]
)
def test_a_distance(written: str) -> None:
    query = _on(f"{written} AND r.temp < s.temp")

    assert query.condition == Distance(5.0, where=(Comparison(2, "<", 2),))
    assert [side.numbers for side in query.sides] == [("x", "y", "temp"), ("y", "x", "temp")]


def test_every_condition_makes_a_plan_that_reads_no_more_than_the_numbers() -> None:
    for written in ("r.id = s.id", "ABS(r.x - s.y) <= 5 AND r.y < s.x", "DISTANCE(r.x, r.x, s.x, s.y) <= 1"):
        query = _on(written)
        assert Plan.of(query.condition).columns <= max(len(side.numbers) for side in query.sides)


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        ("R.KIND = 'it\\'s'", "`kind` = 'it\\'s'"),
        ("r.kind IN ('A', 'B') AND r.ok", "`kind` IN ('A', 'B') AND `ok`"),
        ("(r.x > 1 OR r.y IS NULL)", "(`x` > 1 OR `y` IS NULL)"),
        ("r.id % 2 = 0", "CAST(`id` AS DOUBLE) % 2 = 0"),
        ("(r.id) + r.x > 0", "(CAST(`id` AS DOUBLE)) + CAST(`x` AS DOUBLE) > 0"),
        ("LOWER(r.kind) LIKE 'a%' AND LENGTH(r.kind) < 3", "LENGTH(`kind`) < 3 AND LOWER(`kind`) LIKE 'a%'"),
        ("r.x /* why */ > 1 -- here\n", "`x` > 1"),
    ],
)
def test_conditions_on_one_side_are_its_filter(written: str, sql: str) -> None:
    query = _parsed(f"{HEAD}ON r.id = s.id WHERE {written}{TAIL}")

    assert [side.where for side in query.sides] == [sql, None]


def test_words_of_ours_can_be_names_and_texts() -> None:
    start = "SELECT every.x AS `recall` FROM requests [1 DAY] AS every JOIN replies s"
    text = f"{start} ON every.id = s.id AND every.kind = 'RECALL [' {TAIL}"

    query = _parsed(text)

    assert (query.outputs[0].name, query.sides[0].where) == ("recall", "`kind` = 'RECALL ['")


# Each is a query whose fault stands at the mark, and what is told of it.
FAULTS = [
    (f"SELECT ^r.x + 1 AS z FROM requests [1 DAY] r, replies s WHERE r.id = s.id{TAIL}", "a plain column"),
    (f"SELECT r.x FROM ^requests [1 DAY] r WHERE r.id = 3{TAIL}", "one stream; expected two"),
    (f"SELECT r.x FROM requests [1 DAY] r\n^LEFT JOIN replies s ON r.id = s.id{TAIL}", "an outer join"),
    (f"SELECT r.x FROM requests [1 DAY] r ^FULL JOIN replies s ON r.id = s.id{TAIL}", "an outer join"),
    (f"SELECT r.x FROM requests [1 DAY] r ^NATURAL JOIN replies s{TAIL}", "NATURAL"),
    (f"SELECT r.x FROM requests [1 DAY] r JOIN replies s ^USING (id){TAIL}", "USING"),
    (f"{HEAD}ON r.id = s.id AND (^r.x = 1 OR s.x = 2){TAIL}", "OR between the two sides"),
    (f"{HEAD}ON r.id = s.id WHERE r.id IN (^SELECT 1){TAIL}", "a subquery"),
    (f"SELECT r.x FROM (^SELECT * FROM requests) r, replies s WHERE r.id = s.id{TAIL}", "a subquery"),
    (f"SELECT r.x FROM ^request [1 DAY] r, replies s WHERE r.id = s.id{TAIL}", r"did you mean requests\?"),
    (f"SELECT r.x FROM requests [1 DAY] r, ^db.replies s WHERE r.id = s.id{TAIL}", "the name of a stream"),
    (f"{HEAD}ON r.id = s.id AND r.^tmp > s.temp{TAIL}", r"unknown column 'tmp' of requests; .*mean temp\?"),
    (f"{HEAD}ON r.id = s.id AND ^q.temp > s.temp{TAIL}", "unknown alias 'q'; expected one of r, s"),
    (f"{HEAD}ON r.id = s.id AND ^temp > 3{TAIL}", "'temp', which both sides have; expected r.temp or s.temp"),
    (f"{HEAD}ON r.id = s.id AND ^nothing > 3{TAIL}", "unknown column 'nothing'"),
    (f"{HEAD}ON r.id = s.id AND (^idle > 3){TAIL}", "unknown column 'idle'"),
    (f"{HEAD}ON ABS(^r.kind - s.x) <= 5{TAIL}", "r.kind of type string"),
    (f"{HEAD}ON DISTANCE(r.x, ^r.kind, s.x, s.y) <= 5{TAIL}", "r.kind of type string"),
    (
        f"{HEAD}ON r.id = s.id AND r.x < ^s.ok{TAIL}",
        "s.ok of type boolean; expected an int, double or decimal",
    ),
    (f"{HEAD}ON ^r.id = s.kind{TAIL}", "r.id of type int and s.kind of type string"),
    (f"{HEAD}ON ^r.cost = s.price{TAIL}", "as many decimals"),
    (
        f"SELECT r.x FROM requests [1 DAY] r, replies [^2 DAYS] s WHERE r.id = s.id{TAIL}",
        "a window of 2d; .* 1d",
    ),
    (f"SELECT r.x FROM requests [RANGE ^0 DAYS] r, replies s WHERE r.id = s.id{TAIL}", "a window of 0"),
    (
        f"SELECT r.x FROM requests [RANGE 1 ^WEEK] r, replies s WHERE r.id = s.id{TAIL}",
        "MINUTES, HOURS, DAYS",
    ),
    (
        f"SELECT r.x FROM requests [RANGE 1 DAY ^OFF] r, replies s WHERE r.id = s.id{TAIL}",
        "'OFF'; expected ]",
    ),
    (
        f"SELECT r.x FROM requests [RANGE ^0.1 MICROSECONDS] r, replies s WHERE r.id = s.id{TAIL}",
        "whole number",
    ),
    (f"SELECT r.x FROM ^requests r, replies s WHERE r.id = s.id{TAIL}", "no window"),
    (f"{HEAD}ON r.id [^1 DAY] = s.id{TAIL}", "a window that stands at no stream"),
    (f"{HEAD}ON r.id = s.id RECALL ^1 OVER 1 MINUTE", "a recall of 1"),
    (f"{HEAD}ON r.id = s.id RECALL ^0.0 OVER 1 MINUTE", "a recall of 0"),
    (f"{HEAD}ON r.id = s.id RECALL ^-0.5 OVER 1 MINUTE", "a recall of -0.5"),
    (f"{HEAD}ON r.id = s.id RECALL ^high OVER 1 MINUTE", "'high'; expected a share"),
    (f"{HEAD}ON r.id = s.id RECALL 0.9 ^EVERY 1 SECOND", "'EVERY'; expected OVER"),
    (f"{HEAD}ON r.id = s.id RECALL 0.9^", "the end; expected OVER"),
    (f"{HEAD}ON r.id = s.id^", "no RECALL"),
    (
        f"{HEAD}ON r.id = s.id RECALL 0.9 OVER ^5 SECONDS EVERY 2 SECONDS",
        "a period of 5s; .* multiple of EVERY, 2s",
    ),
    (f"{HEAD}ON r.id = s.id{TAIL} EVERY ^0 SECONDS", "EVERY of 0"),
    (f"{HEAD}ON r.id = s.id{TAIL} EVERY 1 SECOND ^EVERY 1 SECOND", "EVERY twice"),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY ^LEAN", "'LEAN'; expected one of NEEDED_SLACK, PER_SOURCE, PAPER"),
    (
        f"{HEAD}ON r.id = s.id{TAIL} POLICY PER_SOURCE BY ^7",
        "'7'; expected a column, such as device or a.device",
    ),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY PER_SOURCE BY ^knd", "the unknown column 'knd'"),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY PER_SOURCE BY ^r.strength", "the unknown column 'strength'"),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY PER_SOURCE BY ^t.kind", "the unknown alias 't'"),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY PAPER ^BY kind", "'BY'; expected one of"),
    (f"{HEAD}ON r.id = s.id{TAIL} SPARE ^many ROWS", "'many'; expected a number of rows"),
    (f"{HEAD}ON r.id = s.id{TAIL} SPARE ^1.5 ROWS", "1.5 rows"),
    (f"{HEAD}ON r.id = s.id{TAIL} SPARE 9 ^SECONDS", "'SECONDS'; expected ROWS"),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY PAPER ^SPARE 9 ROWS", "SPARE beside POLICY PAPER"),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY PAPER BASIC ^0 SECONDS", "BASIC of 0"),
    (
        f"{HEAD}ON r.id = s.id{TAIL} POLICY PAPER BASIC ^2 MICROSECONDS",
        "a basic window of 2us; expected BASIC 20us or more in a window of 2s",
    ),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY PAPER LARGEST ^EVER", "'EVER'; expected one of HISTORY, RECENT"),
    (f"{HEAD}ON r.id = s.id{TAIL} POLICY NEEDED_SLACK ^BASIC 1 SECOND", "'BASIC'; expected one of"),
    (f"{HEAD}ON r.id = s.id{TAIL} ^WHERE r.x > 3", "'WHERE'; expected one of RECALL"),
    (f"SELECT r.x, ^s.x FROM requests [1 DAY] r, replies s WHERE r.id = s.id{TAIL}", "a second output 'x'"),
    (
        f"SELECT ^r.event_us FROM requests [1 DAY] r, replies s WHERE r.id = s.id{TAIL}",
        "an output 'event_us'",
    ),
    (f"SELECT r.x FROM requests [1 DAY] r, ^replies r WHERE r.id = r.id{TAIL}", "'r' for both sides"),
    (f"SELECT r.x FROM requests [1 DAY] r, ^replies s{TAIL}", "no condition that joins"),
    (f"SELECT r.x FROM requests [1 DAY] r, ^replies s WHERE r.x < s.x{TAIL}", "no condition that joins"),
    (f"{HEAD}ON r.id = s.id AND ^DISTANCE(r.x, r.y, s.x, s.y) <= 5{TAIL}", "DISTANCE beside an equality"),
    (f"{HEAD}ON ^DISTANCE(r.x, s.x, r.y, s.y) <= 5{TAIL}", "two columns of one side"),
    (f"{HEAD}ON ^ABS(r.x - s.x) < 5{TAIL}", "expected ABS.* <= a number"),
    (f"{HEAD}ON ABS(r.x - s.x) <= -^5{TAIL}", "expected 0 or a number within"),
    (f"{HEAD}ON r.id = s.id AND ^r.x + r.y < s.x{TAIL}", "one number column of each side"),
    (f"{HEAD}ON r.id = s.id AND r.x < ^SQRT(s.x){TAIL}", "one number column of each side"),
    (f"{HEAD}ON r.id = s.id AND ^1 = 1{TAIL}", "reads no column"),
    (f"{HEAD}ON r.id = s.id WHERE r.x > ^RAND(r.id){TAIL}", "expected columns, texts"),
    (f"{HEAD}ON r.id = s.id WHERE r.x / ^r.y > 1{TAIL}", "a divisor that may be 0"),
    (f"{HEAD}ON r.id = s.id WHERE r.x = ^'A'{TAIL}", "'A', which is text; expected a number"),
    (f"{HEAD}ON r.id = s.id WHERE ^r.kind{TAIL}", "true or false"),
    (
        f"{HEAD}ON r.id = s.id WHERE r.kind LIKE ^s.kind{TAIL}".replace("s.kind", "r.kind"),
        "a pattern in quotes",
    ),
    (f"{HEAD}ON r.id = ^= s.id{TAIL}", "'='"),
    (f"{HEAD}ON r.id = s.id AND r.kind = ^'A{TAIL}", "without end"),
    (f"{HEAD}ON r.id = s.id{TAIL}; ^SELECT 1", "a second statement"),
    (f"^DELETE FROM requests{TAIL}", "no SELECT"),
    ("^", "no query"),
]


@pytest.mark.parametrize(("marked", "told"), FAULTS)
def test_what_cannot_be_run_is_told_with_its_place(marked: str, told: str) -> None:
    before, _, after = ("-- é\n" + marked).partition("^") if marked != "^" else ("", "", "")

    with pytest.raises(QueryError, match=told) as refused:
        _parsed(before + after)

    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    assert (refused.value.line, refused.value.column) == (line, column), str(refused.value)
    assert len(refused.value.faults) == 1, str(refused.value)


def test_all_faults_of_a_query_are_told_at_once() -> None:
    with pytest.raises(QueryError) as refused:
        _parsed(
            "SELECT r.nope\nFROM requests [1 DAY] r, replies s\nWHERE r.id = s.kind AND r.x > 'a'\nRECALL 2 OVER 1 DAY"
        )

    assert [(fault.line, fault.column) for fault in refused.value.faults] == [
        (1, 10),
        (3, 7),
        (3, 31),
        (4, 8),
    ]


WORDS = "SELECT FROM RANGE SECONDS JOIN ON AND WHERE RECALL OVER MINUTE EVERY IDLE MINUTES AHEAD HOUR POLICY PAPER AS"
GAPS = st.sampled_from([" ", "\n", "\t ", "  \n  ", " /* RECALL 'x [ */ ", " -- it's [RANGE\n"])


@pytest.mark.slow
@settings(deadline=None)
@given(gaps=st.lists(GAPS, min_size=200, max_size=200), lower=st.sets(st.sampled_from(WORDS.split())))
def test_layout_comments_and_case_change_no_definition_nor_does_one_line(
    gaps: list[str], lower: set[str]
) -> None:
    body = WHOLE.split("\n\n")[1].replace("-- the window", "")
    words = [word.lower() if word in lower else word for word in body.split()]

    text = "".join(word + gap for word, gap in zip(words, gaps, strict=False))

    assert _parsed(text).definition() == _parsed(WHOLE).definition()
    statement = _parsed(text).statement
    assert statement.split() == " ".join(words).removesuffix(";").split()
    assert _parsed(statement).definition() == _parsed(WHOLE).definition()


@settings(deadline=None)
@given(st.permutations(["r.id = s.id", "s.kind = r.kind", "s.x > r.x", "r.y >= s.y + 1", "r.x > 1", "s.ok"]))
def test_the_order_of_conditions_changes_no_definition(conditions: list[str]) -> None:
    cut = len(conditions) // 2
    on, where = " AND ".join(conditions[:cut]), " AND ".join(conditions[cut:])

    query = _parsed(f"{HEAD}ON {on} WHERE {where}{TAIL}")

    assert query.definition() == _on(f"{on} AND {where}").definition()
    assert query.sides == _on(" AND ".join(sorted(conditions))).sides


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 SECONDS", "3 SECONDS"),
        ("r.id = s.id", "r.kind = s.kind"),
        ("0.5\n", "0.25\n"),
        ("'A'", "'B'"),
        ("AS answer", "AS reply"),
        ("s.temp AS", "s.x AS"),
        ("OVER 1 MINUTE", "OVER 2 MINUTES"),
        ("EVERY 0.5 SECONDS", ""),
        ("IDLE 10 MINUTES", ""),
        ("AHEAD 1 HOUR", "AHEAD 2 HOURS"),
    ],
)
def test_what_results_depend_on_changes_the_definition(old: str, new: str) -> None:
    assert old in WHOLE
    assert _parsed(WHOLE.replace(old, new)).definition() != _parsed(WHOLE).definition()


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.95", "0.5"), ("PAPER", "NEEDED_SLACK"), ("hotter", "x"), ("> r.temp + 0.5", "- 0.5 > r.temp")],
)
def test_what_results_do_not_depend_on_does_not(old: str, new: str) -> None:
    assert old in WHOLE
    assert _parsed(WHOLE.replace(old, new)).definition() == _parsed(WHOLE).definition()


def test_a_definition_is_one_line_and_so_is_the_statement() -> None:
    query = _on("r.id = s.id\n  AND r.kind = 'a\n --  b' -- a comment\n")

    assert "\n" not in query.definition()
    assert f"ON r.id = s.id AND r.kind = 'a\\n --  b' {TAIL.strip()}" in query.statement


def test_the_definition_that_homes_have_stored_stays_as_it_is() -> None:
    assert _parsed(WHOLE).definition() == (
        "requests WHERE `kind` = 'A' JOIN replies WHERE `strength` > 0.6 WITHIN 2s KEYS [id = id] BY VALUE"
        " NUMBERS [temp | temp]"
        " ON Equality(where=(Comparison(left=0, operator='<', right=0, plus=-0.5, scale=None),))"
        " OUTPUTS [device = 0.device, sent = 0.event_us, answer = 1.temp] PERIOD 1m EVERY 500ms CLOCK [10m, 1h, 1h]"
    )


def test_a_folder_is_read_by_name_and_told_whole(tmp_path: Path) -> None:
    folder = tmp_path / "queries"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.sql").write_text(WHOLE, encoding="utf-8")
    (folder / "c.sql").write_text("SELECT 1\nFROM x", encoding="utf-8")
    (folder / "D-1.sql").write_text(WHOLE, encoding="utf-8")
    (folder / "e.sql").write_bytes(b"\xff")
    problems: list[Problem] = []

    queries = read_queries(folder, STREAMS, problems)

    assert [*queries] == ["a", "b"]
    assert [problem.key for problem in problems] == [
        "queries/D-1.sql",
        "queries/c.sql:2:6",
        "queries/c.sql:2:7",
        "queries/e.sql",
    ]


def test_no_folder_is_no_query(tmp_path: Path) -> None:
    assert read_queries(tmp_path / "none", STREAMS, []) == {}


STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1d forever"]
keys = ["id"]
source = {{ path = "x", format = "{format}" }}
"""
SELF = "SELECT a.id FROM {name} [1 SECOND] a, {name} b WHERE a.id = b.id" + TAIL
COUNTED = "SELECT COUNT(*) FROM s [1 SECOND] a, s [1 DAY] b WHERE a.id = b.id EVERY 1 HOUR"


def _config(folder: Path, text: str, **queries: str) -> Path:
    (folder / "asked").mkdir()
    for name, query in queries.items():
        (folder / "asked" / f"{name}.sql").write_text(query, encoding="utf-8")
    config = folder / "tidemark.toml"
    config.write_text(f'[queries]\nfolder = "asked"\n{text}', encoding="utf-8")
    return config


def test_settings_hold_the_registered_queries(tmp_path: Path) -> None:
    settings = load_settings(
        _config(tmp_path, STREAM.format(name="s", format="csv"), one=SELF.format(name="s"))
    )

    assert (settings.queries.folder, settings.queries.buckets) == (tmp_path / "asked", None)
    assert settings.query("one").sides[0].stream == "s"
    with pytest.raises(KeyError, match="no query 'two'; registered: one"):
        settings.query("two")


def test_settings_tell_joins_from_aggregates(tmp_path: Path) -> None:
    stream = STREAM.format(name="s", format="csv")
    settings = load_settings(_config(tmp_path, stream, counted=COUNTED, one=SELF.format(name="s")))

    assert (list(settings.registered), list(settings.of_kind(PairsQuery))) == (["counted", "one"], ["one"])
    assert list(settings.of_kind(AggregateQuery)) == ["counted"]
    assert settings.of_kind(PairsQuery)["one"] == settings.query("one")
    with pytest.raises(KeyError, match="'counted'"):
        settings.of_kind(PairsQuery)["counted"]


def test_problems_of_queries_and_streams_are_told_together(tmp_path: Path) -> None:
    """A query of a stream that is declared wrongly is not told to be without one."""
    text = "buckets = 0\n" + STREAM.format(name="s", format="yaml") + STREAM.format(name="t", format="csv")
    config = _config(tmp_path, text, one=SELF.format(name="s"), two=SELF.format(name="u"))

    with pytest.raises(ConfigError) as refused:
        load_settings(config)

    keys = [problem.key for problem in refused.value.problems]
    assert keys == ["queries.buckets", "streams.s.source.format", "asked/two.sql:1:18", "asked/two.sql:1:34"]


def test_sqlglot_is_imported_only_where_there_is_a_query(tmp_path: Path) -> None:
    config = _config(tmp_path, STREAM.format(name="s", format="csv"))
    script = (
        "import sys\nfrom pathlib import Path\nfrom lakehouse.settings import load_settings\n"
        f"load_settings(Path({str(config)!r}))\nprint(*({{'sqlglot', 'numba', 'numpy'}} & set(sys.modules)))"
    )

    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert found.stdout.split() == []


def test_the_examples_fit_the_real_streams() -> None:
    tables = tomllib.loads((ROOT / "tests/end_to_end/real.toml").read_text(encoding="utf-8"))["streams"]
    streams = {name: Stream.model_validate(table | {"name": name}) for name, table in tables.items()}
    problems: list[Problem] = []

    queries = read_queries(ROOT / "sql" / "queries", streams, problems)

    aggregates = ["backbone", "backbone_packets", "building_fire", "office_fire"]
    joins = ["growing_connections", "probed_hosts", "probed_then_used", "repeated_frames"]
    selections = ["probes", "uploads"]
    assert (problems, sorted(queries)) == ([], sorted([*aggregates, *joins, *selections]))
    assert all(query.description for query in queries.values())


def test_ahead_is_of_the_own_arrival_where_every_row_has_one() -> None:
    arrival = {"column": "received", "unit": "s"}
    telling = {name: stream_of(name=name, columns=COLUMNS, arrival_time=arrival) for name in STREAMS}
    text = f"{HEAD}ON r.id = s.id{TAIL} AHEAD 1 HOUR"

    assert join_of("late", text, telling).clock == Clock(None, HOUR, None)
    assert _parsed(text).clock == Clock(None, HOUR, HOUR)
