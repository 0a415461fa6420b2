"""Aggregates of whole numbers, decimals and doubles, from the text of a query to its answers, against exact ones."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from tests.queries.aggregate.exact_queries import SHAPES, wrong
from tests.queries.aggregate.kept import Kept
from tests.queries.declared_streams import SECOND, aggregate_of
from tests.queries.exact_rows import LARGEST, SCALES, STREAMS, Row


@pytest.mark.parametrize("kind", SHAPES)
def test_answers_are_what_exact_numbers_come_to(kind: str) -> None:
    assert [different for seed in range(40) if (different := wrong(seed, kind)[1])] == []


ONE = {**dict.fromkeys(SCALES), "g": "u", "k": 1, "event_us": SECOND}


def answer_of(select: str, having: str, *values: Row) -> tuple[list[Any], bool]:
    """Return the answer at two seconds of rows of the first stream, all beside one of the second."""
    text = f"SELECT a.g, {select} FROM a [3 SECONDS], b [5 SECONDS] WHERE a.k = b.k GROUP BY a.g"
    kept = Kept(aggregate_of("q", f"{text} HAVING {having} EVERY 2 SECONDS", STREAMS), 1)
    rows = [{**ONE, **each, "line": line} for line, each in enumerate(values)]
    kept.batch((rows, [{**ONE, "line": len(rows)}]), 2 * SECOND)
    return kept.shown()[2 * SECOND, "u"]


def test_a_sum_of_three_tenths_is_not_above_three_tenths() -> None:
    tenths: list[Row] = [{"d": Decimal("0.1")}] * 3

    assert answer_of("SUM(a.d) AS s", "SUM(a.d) > 0.3", *tenths) == ([Decimal("0.3")], False)
    assert answer_of("AVG(a.d) AS s", "AVG(a.d) = 0.1", *tenths) == ([0.1], True)


def test_a_sum_of_ints_goes_beyond_their_own_range() -> None:
    most = 2**63 - 1

    assert answer_of("SUM(a.m) AS s", "SUM(a.m) > 18446744073709551613", {"m": most}, {"m": most}) == (
        [Decimal(2 * most)],
        True,
    )


def test_extremes_are_exact_whatever_digits_they_have() -> None:
    most, least, long = 2**63 - 1, -(2**63), 10**38 - 1
    rows: list[Row] = [
        {"m": most, "w": Decimal(f"{long}E-18")},
        {"m": least, "w": Decimal(f"{1 - long}E-18")},
    ]

    shown = answer_of("MAX(a.m) AS p, MIN(a.m) AS q, MIN(a.w) AS r, MAX(a.w) AS s", "COUNT(*) > 0", *rows)

    assert shown == ([most, least, rows[1]["w"], rows[0]["w"]], True)


@pytest.mark.parametrize(
    ("values", "total", "average"),
    [
        ([LARGEST, LARGEST, -LARGEST], LARGEST, LARGEST / 3),
        ([LARGEST, LARGEST], math.inf, LARGEST),
        ([1.0, math.inf], math.inf, math.inf),
        ([math.inf, -math.inf, 2.0], math.nan, math.nan),
        ([LARGEST, LARGEST, -math.inf], -math.inf, -math.inf),
        ([math.nan, 2.0], 2.0, 2.0),
    ],
)
def test_one_double_beyond_all_others_decides_no_other_answer(
    values: list[float], total: float, average: float
) -> None:
    """What is infinite is in the answers at whose ticks it is in its window; what is no number is no value."""
    rows: list[Row] = [{"f": each} for each in values]

    [*found], _ = answer_of(
        "SUM(a.f) AS s, AVG(a.f) AS t, MIN(a.f) AS u, MAX(a.f) AS v", "COUNT(*) > 0", *rows
    )

    known = [each for each in values if not math.isnan(each)]
    assert repr(found) == repr([total, average, min(known), max(known)])


def test_a_sum_of_more_than_38_digits_is_named() -> None:
    values: list[Row] = [{"w": Decimal(f"{10**38 - 1}E-18")}] * 2

    with pytest.raises(
        ValueError,
        match=r"query 'q': expected sum\(a\.w\) of at most 38 digits, found about 2e\+20 at the tick 1970",
    ):
        answer_of("SUM(a.w) AS s", "COUNT(*) > 0", *values)
