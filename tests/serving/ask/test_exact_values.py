"""Exact answers of whole numbers and decimals to their last digit, compared with Python's Fraction and Decimal."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.ask.series import series
from lakehouse.serving.publish.macros import macros_of
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published, run_sql
from lakehouse.storage.layout import Home
from lakehouse.web.formats import Format, written
from lakehouse.web.questions import ask_rows
from tests.serving.streams import RandomStream, Row

# Around where doubles stop to hold whole numbers, where 64 bits end, and where doubles stop to read as decimals.
WHOLE = [2**53, 2**53 + 1, -(2**53) - 1, 10**18, 10**18 + 1, 2**63 - 1, -(2**63), 7, 0]
PRICES = [
    Decimal(text)
    for text in ("0.10", "0.20", "9999999999999.99", "10000000000000.01", "-0.01", "123456789012345678.91")
]
SPAN = 400
_DICE = random.Random(5)
ROWS = [
    Row(at, "a", 0, 0.5, *(_DICE.choice(of) if at % 3 else None for of in (WHOLE, PRICES)))  # type: ignore[arg-type]
    for at in range(SPAN)
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedReader]:
    folder = tmp_path_factory.mktemp("exact")
    stream = RandomStream("exact", (Level(4, 40), Level(20, None)), ROWS)
    publish(Home(folder / "home"), [stream.write(folder / "exact")])
    with open_published(Home(folder / "home")) as found:
        yield found


def truth(measure: str, aggregate: str, start: int, end: int) -> Fraction | None:
    values = [
        Fraction(value) for row in ROWS[max(start, 0) : end] if (value := getattr(row, measure)) is not None
    ]
    if not values:
        return None
    total = sum(values, Fraction())
    found = {"sum": total, "avg": total / len(values), "min": min(values), "max": max(values)}
    return found[aggregate]


def is_held(found: Answer, right: Fraction) -> bool:
    """True if the truth is inside; a side that reads as the truth is it. A side may be missing."""
    low, high = (None if side is None else Fraction(side) for side in (found.low, found.high))
    reads_as = [Fraction(Decimal(repr(side))) for side in (found.low, found.high) if side is not None]
    return right in reads_as or ((low is None or low <= right) and (high is None or right <= high))


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["hits", "price"]),
    st.sampled_from(["sum", "avg", "min", "max"]),
    st.integers(0, SPAN - 1),
    st.integers(1, SPAN),
)
@example("hits", "sum", 0, SPAN)
@example("price", "avg", 0, SPAN)
def test_nodes_and_raw_rows_answer_to_the_last_digit(
    reader: PublishedReader, measure: str, aggregate: str, start: int, length: int
) -> None:
    asked = ("exact", measure, aggregate, start, start + length)
    (nodes,), (raw,) = ask(reader, *asked), ask(reader, *asked, exact=True)

    right = truth(measure, aggregate, start, start + length)

    assert raw.exact
    if right is None:
        assert (raw.value, raw.exact_value, nodes.exact_value) == (None, None, None)
        return
    assert raw.value == float(right) and is_held(raw, right)
    assert (
        raw.exact_value is None if aggregate == "avg" else Fraction(Decimal(raw.exact_value or "")) == right
    )
    assert is_held(nodes, right)
    if nodes.exact:
        same = ("value", "low", "high", "exact_value")
        assert [getattr(nodes, name) for name in same] == [getattr(raw, name) for name in same]


@pytest.mark.parametrize("measure", ["hits", "price"])
@pytest.mark.parametrize("aggregate", ["sum", "avg"])
def test_sums_and_averages_of_whole_nodes_are_exact_whatever_their_size(
    reader: PublishedReader, measure: str, aggregate: str
) -> None:
    for start in range(0, SPAN, 20):
        (found,) = ask(reader, "exact", measure, aggregate, start, SPAN)
        right = truth(measure, aggregate, start, SPAN)

        assert right is not None and found.exact and found.value == float(right) and is_held(found, right)


def test_an_extreme_that_nodes_keep_as_a_rounded_double_is_not_exact_and_its_sides_hold_it(
    reader: PublishedReader,
) -> None:
    (found,) = ask(reader, "exact", "hits", "max", 0, SPAN)

    assert not found.exact and found.exact_value is None
    assert is_held(found, Fraction(2**63 - 1)) and found.low != found.high


def test_python_sql_and_charts_show_the_same_digits(reader: PublishedReader) -> None:
    (one,) = ask(reader, "exact", "price", "sum", 0, SPAN)
    columns = "value, low, high, exact, exact_value"
    between = f"make_timestamp(0), make_timestamp({SPAN})"
    sql = run_sql(reader, f"SELECT {columns} FROM range_sum('exact', 'price', {between})").rows[0]
    (bucket,) = series(reader, "exact", "price", "sum", 0, SPAN, points=1).buckets

    shown = (one.value, one.low, one.high, one.exact, one.exact_value)
    assert one.exact and tuple(sql) == shown
    assert (bucket.value, bucket.low, bucket.high, bucket.exact, bucket.exact_value) == shown
    typed = run_sql(
        reader, f"SELECT exact_value::DECIMAL(38, 2) * 2 AS twice FROM range_sum('exact', 'price', {between})"
    )
    assert str(typed.rows[0][0]) == str(2 * Decimal(one.exact_value or ""))


@pytest.mark.parametrize("form", list(Format))
def test_http_writes_all_digits_in_every_format(reader: PublishedReader, form: Format) -> None:
    question = Question("exact", "hits", "sum", 0, SPAN)
    (one,) = ask(reader, "exact", "hits", "sum", 0, SPAN)

    content = written(ask_rows(reader, question), form)

    if form is Format.ARROW:
        found = pa.ipc.open_stream(content).read_all().to_pylist()[0]["exact_value"]
    elif form is Format.CSV:
        found = next(csv.DictReader(content.decode().splitlines()))["exact_value"]
    else:
        found = json.loads(content)["rows"][0]["exact_value"]
    assert found == one.exact_value == str(truth("hits", "sum", 0, SPAN))


def test_a_count_has_its_digits_and_doubles_have_none(reader: PublishedReader) -> None:
    (count,), (total,) = (
        ask(reader, "exact", *asked, 0, SPAN) for asked in (("price", "count"), ("temp", "sum"))
    )

    assert (count.exact, count.exact_value) == (True, str(sum(row.price is not None for row in ROWS)))
    assert (total.exact, total.exact_value) == (True, None)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-(10**37), 10**37) | st.integers(-(2**54), 2**54) | st.integers(-1000, 1000),
    st.integers(1, 2**40) | st.integers(1, 8),
    st.integers(0, 18),
)
def test_a_quotient_is_rounded_once(units: int, terms: int, digits: int) -> None:
    value, is_held = _MACROS.execute(
        "SELECT nearest, is_held(u, t, d, nearest) FROM (SELECT u, t, d, nearest_double(u, t, d) AS nearest "
        f"FROM (SELECT '{units}'::HUGEINT AS u, {terms}::BIGINT AS t, {digits} AS d))"
    ).fetchall()[0]

    right = Fraction(units, terms) / 10**digits
    assert value == float(right)
    assert not is_held or Fraction(value) == right or Fraction(Decimal(repr(value))) == right


_MACROS = duckdb.connect()
_MACROS.execute(macros_of("exact_values"))
