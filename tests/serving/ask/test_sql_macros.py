from __future__ import annotations

from typing import Any

import duckdb
import pytest

from lakehouse.serving.publish.macros import MACRO_FILES, TABLE_FILES, VIEW_FILES
from sql import statement
from tests.serving.conftest import Lakehouse


def rows(lakehouse: Lakehouse, text: str) -> list[tuple[Any, ...]]:
    return lakehouse.reader.connection.execute(text).fetchall()


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("'1970-01-01T00:00:01'", 1_000_000),
        ("'1970-01-01 00:01Z'", 60_000_000),
        ("'1970-01-01T02:00+02:00'", 0),
        ("'1970-01-01T02:00:00.5+0200'", 500_000),
        ("'1970-01-02'", 86_400_000_000),
        ("DATE '1970-01-02'", 86_400_000_000),
        ("TIMESTAMP '1969-12-31 23:59:59.999999'", -1),
        ("TIMESTAMPTZ '1970-01-01 01:00:00+01'", 0),
    ],
)
def test_a_moment_means_the_same_instant_in_every_form(
    lakehouse: Lakehouse, moment: str, expected: int
) -> None:
    assert rows(lakehouse, f"SELECT timestamp_us(CAST({moment} AS VARCHAR))") == [(expected,)]


def test_times_before_1970_are_aligned_downwards(lakehouse: Lakehouse) -> None:
    assert rows(lakehouse, "SELECT floor_to(-7, 5), floor_to(7, 5), floor_to(-10, 5)") == [(-10, 5, -10)]


def test_keys_may_be_a_struct_or_a_map(lakehouse: Lakehouse) -> None:
    asked = "FROM range_count('deep', '*', make_timestamp(0), make_timestamp(3000), keys := "

    assert rows(lakehouse, asked + "{device: 'a', zone: 1})") == rows(
        lakehouse, asked + "MAP {'device': 'a', 'zone': '1'})"
    )


def test_all_aggregates_at_once_are_what_each_of_them_answers(lakehouse: Lakehouse) -> None:
    asked = "('deep', 'price', make_timestamp(77), make_timestamp(2500), keys := {device: 'b'})"
    names = ("sum", "count", "avg", "min", "max")

    together = rows(lakehouse, f"FROM range_aggregate{asked}")

    assert sorted(together) == sorted(
        (name, *rows(lakehouse, f"FROM range_{name}{asked}")[0]) for name in names
    )


def test_some_aggregates_can_be_chosen(lakehouse: Lakehouse) -> None:
    asked = "'deep', 'price', make_timestamp(77), make_timestamp(2500), aggregates := ['min', 'max']"

    assert sorted(row[0] for row in rows(lakehouse, f"FROM range_aggregate({asked})")) == ["max", "min"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "range_sum('depp', 'temp', '2026-01-01', '2026-01-02')",
            r"no measure depp.temp here; published: deep\.\*, ",
        ),
        ("range_sum('deep', 'temp', '2026-01-02', '2026-01-01')", "must begin before it ends"),
        ("range_sum('deep', 'temp', '2026-01-02', NULL)", "must begin before it ends"),
        ("range_sum('deep', '*', '2026-01-01', '2026-01-02')", "only range_count can answer it"),
        (
            "range_sum('keyed', 'temp', '2026-01-01', '2026-01-02', by := ['place'])",
            r"no key place in a grouping of keyed; declared: \[\['device', 'zone'\]\]",
        ),
    ],
)
def test_a_question_that_cannot_be_answered_says_what_can(
    lakehouse: Lakehouse, text: str, expected: str
) -> None:
    with pytest.raises(duckdb.Error, match=expected):
        rows(lakehouse, f"FROM {text}")


def test_the_nodes_of_an_answer_can_be_looked_at(lakehouse: Lakehouse) -> None:
    asked = "('deep', '*', make_timestamp(121), make_timestamp(2999))"

    nodes = rows(
        lakehouse, f"SELECT count(*), sum(at_least), sum(at_most) FROM range_nodes{asked} WHERE n > 0"
    )

    assert nodes == rows(lakehouse, f"SELECT nodes_read, rows_low, rows_high FROM range_count{asked}")


def test_the_view_of_all_nodes_shows_every_row_once_per_level(lakehouse: Lakehouse) -> None:
    seen = rows(
        lakehouse,
        "SELECT sum(n) FROM rollups WHERE stream = 'deep' AND measure = '*' AND level = 4 AND \"grouping\" = 1",
    )

    assert seen == [(len(lakehouse.streams["deep"].rows),)]


@pytest.mark.parametrize("name", [*TABLE_FILES, *VIEW_FILES, *MACRO_FILES])
def test_every_file_says_purpose_parameters_and_usage(name: str) -> None:
    head = statement(f"serving/{name}").split("\n\n")[0]

    assert [word for word in ("Purpose:", "Parameters:", "Usage:") if f"-- {word}" not in head] == []
