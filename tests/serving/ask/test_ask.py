from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.refinement import refinements
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import AGGREGATES, Answer, AskError, Question, microseconds
from lakehouse.serving.versions.versions import NotPublished
from lakehouse.storage.layout import Home
from tests.oracles.rollup.contract import Aggregate
from tests.oracles.rollup.refined_tree import RefinedTree
from tests.serving.conftest import STREAMS, Lakehouse
from tests.serving.streams import RandomStream

MEASURES = ("temp", "hits", "price")
EPS = 2.220446049250313e-16


@st.composite
def questions(draw: st.DrawFn, by: bool = False) -> Question:
    """Any range of any stream, for any aggregate; by keys or for one series, or over all of them."""
    stream = STREAMS[draw(st.sampled_from(sorted(STREAMS)))]
    start, length = draw(st.integers(-1100, 3000)), draw(st.integers(1, 2500) | st.integers(1, 40))
    measure = draw(st.sampled_from((*MEASURES, "*")))
    aggregate = "count" if measure == "*" else draw(st.sampled_from(AGGREGATES))
    grouping = draw(st.sampled_from(stream.groupings))
    values = {
        "device": st.sampled_from(["a", "b", "it's, {odd}=1", None]),
        "zone": st.sampled_from(["0", "1", "9"]),
    }
    where = {key: draw(values[key]) for key in grouping if draw(st.booleans())}
    keys = tuple(key for key in grouping if key not in where) if by else ()
    return Question(stream.name, measure, aggregate, start, start + length, where, keys)


def truth(question: Question, key: dict[str, str | None] | None = None) -> float | None:
    stream = STREAMS[question.stream]
    where = question.where | (key or {})
    return stream.truth(question.measure, question.aggregate, question.start_us, question.end_us, where)


def holds(found: Answer, actual: float | None) -> bool:
    """The truth is inside; a truth of None (no row) only where none was sure to be there."""
    if actual is None:
        return found.rows_low == 0
    above = found.low is None or found.low <= actual
    return above and (found.high is None or actual <= found.high)


def value_is_inside(found: Answer) -> bool:
    if found.value is None:
        return found.rows == 0 or found.low is None or found.high is None
    return (found.low is None or found.low <= found.value) and (
        found.high is None or found.value <= found.high
    )


def close(left: float | None, right: float | None, magnitude: float = 1e12) -> bool:
    if left is None or right is None:
        return left is right
    return abs(left - right) <= 1e-12 * max(abs(left), abs(right)) + EPS * magnitude


def has_all_digits(found: Answer) -> bool:
    """Return whether an answer that no double is lies between the two doubles beside its value."""
    if found.value is None or found.exact_value is None or found.low is None or found.high is None:
        return False
    beside = (math.nextafter(found.value, -math.inf), math.nextafter(found.value, math.inf))
    return (found.low, found.high) == beside and found.low < Decimal(found.exact_value) < found.high


SLOW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SLOWER = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW
@given(questions())
def test_the_interval_holds_the_truth_and_the_value(lakehouse: Lakehouse, question: Question) -> None:
    (found,) = answer(lakehouse.reader.connection, question)

    assert holds(found, truth(question)), (found, truth(question))
    assert value_is_inside(found)


@SLOW
@given(questions())
def test_an_exact_answer_is_the_truth(lakehouse: Lakehouse, question: Question) -> None:
    (found,) = answer(lakehouse.reader.connection, question)

    assert not found.exact or close(found.value, truth(question)), (found, truth(question))
    if found.exact and question.measure != "temp":
        # An average is a quotient, which no double may be; its sides hold that.
        width = 2e-15 * abs(found.value or 0) if question.aggregate == "avg" else 0
        assert (
            found.low == found.high == found.value
            or has_all_digits(found)
            or 0 < (found.high or 0) - (found.low or 0) <= width
        )


@SLOWER
@given(questions(by=True))
def test_every_key_has_its_own_interval_and_all_keys_with_rows_answer(
    lakehouse: Lakehouse, question: Question
) -> None:
    found = answer(lakehouse.reader.connection, question)

    assert all(holds(part, truth(question, part.key)) for part in found), found
    assert {tuple(part.key.values()) for part in found} >= _keys_with_values(question)


def _keys_with_values(question: Question) -> set[tuple[str | None, ...]]:
    stream = STREAMS[question.stream]
    kept = stream.horizons[-1]
    rows = [
        row
        for row in stream.rows
        if max(question.start_us, kept) <= row.event_us < question.end_us
        and (question.measure == "*" or getattr(row, question.measure) is not None)
        and all(_text(getattr(row, key)) == value for key, value in question.where.items())
    ]
    return {tuple(_text(getattr(row, key)) for key in question.by) for row in rows} if question.by else {()}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@SLOWER
@given(questions(by=True))
def test_the_parts_by_key_add_up_to_the_whole(lakehouse: Lakehouse, question: Question) -> None:
    counted = _with(question, aggregate="count")
    connection = lakehouse.reader.connection

    parts, (whole,) = answer(connection, counted), answer(connection, _with(counted, by=()))

    assert sum(part.rows_low for part in parts) <= _most(whole)
    assert sum(map(_most, parts)) >= whole.rows_low
    assert not (whole.exact and all(part.exact for part in parts)) or sum(p.rows for p in parts) == whole.rows


@SLOWER
@given(questions(), st.integers(1, 2000))
def test_neighbouring_ranges_that_are_exact_add_up(
    lakehouse: Lakehouse, question: Question, more: int
) -> None:
    question = _with(question, aggregate="count")
    end = question.end_us + more
    ranges = (question, _with(question, start_us=question.end_us, end_us=end), _with(question, end_us=end))

    (left,), (right,), (whole,) = (answer(lakehouse.reader.connection, part) for part in ranges)

    assert left.rows_low + right.rows_low <= _most(whole)
    assert not (left.exact and right.exact and whole.exact) or left.rows + right.rows == whole.rows


def _most(found: Answer) -> float:
    """Return how many rows there can be."""
    return math.inf if found.rows_high is None else found.rows_high


def _with(question: Question, **changes: Any) -> Question:
    return Question(**(vars(question) | changes))


@SLOWER
@given(questions())
def test_the_tree_in_memory_gives_the_same_interval(lakehouse: Lakehouse, question: Question) -> None:
    """Of all rows; and what the tree that knows no series allows is never closer."""
    measure = "hits" if question.measure == "*" else question.measure
    question = _with(question, where={}, measure=measure)
    stream = STREAMS[question.stream]
    if () not in stream.groupings or stream.newest_us is None:
        return
    (found,) = answer(lakehouse.reader.connection, question)
    asked = question.start_us, question.end_us, _aggregate(question)

    known, alone = _tree(stream, measure).query(*asked), _tree(stream, measure, most_rows=0).query(*asked)

    assert (known.rows_low, known.rows_high, known.nodes_read) == (
        found.rows_low,
        found.rows_high,
        found.nodes_read,
    )
    # The tree takes doubles for exact; extremes beyond the whole numbers that they hold are none.
    is_beyond = question.aggregate in ("min", "max") and abs(found.value or 0) > 2**53
    assert question.aggregate == "avg" or known.exact == found.exact or (is_beyond and not found.exact)
    # The paper's tree has zero for the sum of nothing, which has no value here.
    if known.rows_high:
        assert close(known.low, found.low, 1e15) and close(known.high, found.high, 1e15)
    assert alone.rows_low <= found.rows_low and _most(found) <= (alone.rows_high or math.inf)
    assert not _is_below(found.low, alone.low) and not _is_below(alone.high, found.high)


def _is_below(left: float | None, right: float | None) -> bool:
    """Whether the first is less by more than rounding."""
    return left is not None and right is not None and left < right and not close(left, right, 1e15)


def _aggregate(question: Question) -> Aggregate:
    names: dict[str, Aggregate] = {"sum": "sum", "count": "count", "avg": "avg", "min": "min", "max": "max"}
    return names[question.aggregate]


def _tree(stream: RandomStream, measure: str, most_rows: int | None = None) -> RefinedTree:
    keys = [[tuple(getattr(row, key) for key in names) for row in stream.rows] for names in stream.groupings]
    refined = refinements(stream.groupings, [len(set(one)) for one in keys])[stream.groupings.index(())]
    assert refined is not None
    tree = RefinedTree(stream.levels, refined.most_rows if most_rows is None else most_rows)
    values = [getattr(row, measure) for row in stream.rows]
    tree.insert_series(
        [row.event_us for row in stream.rows],
        [None if v is None else float(v) for v in values],
        keys[refined.grouping],
    )
    return tree


def test_python_and_sql_give_the_same_answer(lakehouse: Lakehouse) -> None:
    (found,) = ask(lakehouse.reader, "deep", "temp", "avg", 411, 2777, {"device": "a"})

    row = lakehouse.reader.connection.execute(
        "SELECT value, low, high, exact, exact_value, rows, nodes_read, finest_granularity_us, as_of_version FROM "
        "range_avg('deep', 'temp', make_timestamp(411), make_timestamp(2777), keys := {device: 'a'})"
    ).fetchone()

    assert row == tuple(vars(found).values())[:9]


def test_nodes_read_stay_within_the_bound(lakehouse: Lakehouse) -> None:
    levels = STREAMS["deep"].levels

    (found,) = ask(lakehouse.reader, "deep", "*", "count", 121, 2999)

    fan_out = [coarse.width_us // fine.width_us for fine, coarse in pairwise(levels)]
    assert found.nodes_read <= sum(2 * (k - 1) for k in fan_out) + 3000 // levels[-1].width_us + 2


@pytest.mark.parametrize(
    ("measure", "agg"), [("temp", "avg"), ("hits", "sum"), ("price", "avg"), ("*", "count")]
)
def test_a_measure_is_asked_for_what_it_means_where_no_aggregate_is_named(
    lakehouse: Lakehouse, measure: str, agg: str
) -> None:
    assert ask(lakehouse.reader, "deep", measure, None, 0, 3000) == ask(
        lakehouse.reader, "deep", measure, agg, 0, 3000
    )


@pytest.mark.parametrize(
    ("named", "meant"),
    [("mean", "avg"), ("average", "avg"), ("total", "sum"), ("minimum", "min"), ("mx", "max")],
)
def test_an_aggregate_by_another_name_is_told_its_own(lakehouse: Lakehouse, named: str, meant: str) -> None:
    with pytest.raises(AskError, match=f"did you mean '{meant}'"):
        ask(lakehouse.reader, "deep", "temp", named, 0, 10)


def test_the_coarsest_grouping_that_holds_the_keys_answers(lakehouse: Lakehouse) -> None:
    over_all = ask(lakehouse.reader, "deep", "*", "count", 0, 3000)
    by_device = ask(lakehouse.reader, "deep", "*", "count", 0, 3000, by=["device"])
    in_zone = ask(lakehouse.reader, "deep", "*", "count", 0, 3000, {"zone": 1}, ["device"])

    assert over_all[0].grouping == []
    assert by_device[0].grouping == ["device"]
    assert in_zone[0].grouping == ["device", "zone"]


def test_answers_come_in_the_order_of_their_keys_with_the_missing_one_last(lakehouse: Lakehouse) -> None:
    found = ask(lakehouse.reader, "deep", "*", "count", 0, 3000, by=["device"])

    assert [part.key["device"] for part in found] == ["a", "b", "it's, {odd}=1", None]


def test_an_answer_is_final_once_the_newest_time_is_past_it_by_latest(lakehouse: Lakehouse) -> None:
    newest = STREAMS["deep"].newest_us or 0
    latest = STREAMS["deep"].latest_us

    before = ask(lakehouse.reader, "deep", "*", "count", 0, newest - latest)
    after = ask(lakehouse.reader, "deep", "*", "count", 0, newest - latest + 1)

    assert before[0].final
    assert not after[0].final


def test_what_a_limited_top_level_forgot_opens_the_sides(lakehouse: Lakehouse) -> None:
    kept = STREAMS["limited"].horizons[-1]

    (reaching,) = ask(lakehouse.reader, "limited", "hits", "sum", 0, 1200)
    (inside,) = ask(lakehouse.reader, "limited", "hits", "sum", kept, 1200)

    assert (reaching.low, reaching.high, reaching.exact) == (None, None, False)
    assert (reaching.rows_high, inside.rows_high) == (None, inside.rows)
    assert inside.exact


def test_the_sides_of_an_average_of_whole_numbers_hold_a_quotient_that_no_double_is(
    lakehouse: Lakehouse,
) -> None:
    points = []
    for end in range(120, 2881, 120):
        (total,), (rows,), (mean,) = (
            ask(lakehouse.reader, "deep", "hits", name, 0, end) for name in ("sum", "count", "avg")
        )
        assert total.value is not None and mean.low is not None and mean.high is not None
        truth = Fraction(total.value) / rows.rows
        assert mean.exact
        assert Fraction(mean.low) <= truth <= Fraction(mean.high)
        assert mean.high - mean.low <= 2e-15 * abs(truth)
        points.append(mean.low == mean.high)
        assert points[-1] or (truth * 2**20).denominator > 1
    assert 0 < sum(points) < len(points)


@pytest.mark.parametrize(("agg", "expected"), [("sum", None), ("count", 0.0), ("avg", None), ("min", None)])
@pytest.mark.parametrize("exact", [False, True])
def test_no_rows_have_a_count_alone(
    lakehouse: Lakehouse, agg: str, expected: float | None, exact: bool
) -> None:
    (found,) = ask(lakehouse.reader, "deep", "hits", agg, 10**9, 10**9 + 5, exact=exact)

    assert (found.value, found.low, found.high, found.exact, found.rows) == (
        expected,
        expected,
        expected,
        True,
        0,
    )


def test_no_rows_by_key_is_no_answer(lakehouse: Lakehouse) -> None:
    assert ask(lakehouse.reader, "deep", "hits", "sum", 10**9, 10**9 + 5, by=["device"]) == []


def test_a_stream_without_rows_answers_zero(lakehouse: Lakehouse) -> None:
    (found,) = ask(lakehouse.reader, "empty", "*", "count", 0, 100)

    assert (found.value, found.exact, found.final) == (0.0, True, False)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"stream": "depp"}, "no stream 'depp'; did you mean 'deep'"),
        ({"measure": "tmp"}, "did you mean 'temp'"),
        ({"agg": "average"}, "There are: sum, count, avg, min, max"),
        ({"where": {"devices": "a"}}, "did you mean 'device'"),
        ({"by": ["zone"], "stream": "keyless"}, "no stream 'keyless'"),
        (
            {"start": 10, "end": 10},
            "from 1970-01-01T00:00:00.000010[+]00:00 to 1970-01-01T00:00:00.000010[+]00:00",
        ),
        (
            {"start": "2026-01-02", "end": "2026-01-01T09:30"},
            "from 2026-01-02T00:00:00[+]00:00 to 2026-01-01T09:30",
        ),
        ({"start": 10**19, "end": 10}, "from 10000000000000000000 us to 1970"),
        ({"start": "yesterday"}, "expected a time such as"),
        ({"measure": "*"}, "counts rows"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(
    lakehouse: Lakehouse, change: dict[str, Any], expected: str
) -> None:
    asked: dict[str, Any] = {
        "stream": "deep",
        "measure": "temp",
        "agg": "sum",
        "start": 0,
        "end": 10,
    } | change

    with pytest.raises(AskError, match=expected.replace("?", r"\?").replace("*", r"\*")):
        ask(lakehouse.reader, **asked)


def test_keys_of_no_common_grouping_are_refused_with_those_declared(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    from lakehouse.serving.publish.publish import publish

    root = tmp_path_factory.mktemp("apart")
    apart = RandomStream("apart", STREAMS["pair"].levels, STREAMS["pair"].rows, (("device",), ("zone",)))
    publish(Home(root / "home"), [apart.write(root / "apart")])

    with pytest.raises(
        AskError, match=r"holds the keys \['device', 'zone'\] together; declared: \[\['device'\]"
    ):
        ask(Home(root / "home"), "apart", "hits", "sum", 0, 10, {"device": "a"}, ["zone"])


def test_nothing_published_yet_says_what_to_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(NotPublished, match="run `tidemark run`"):
        ask(tmp_path_factory.mktemp("bare"), "deep", "temp", "sum", 0, 1)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-02", 86_400_000_000),
        (date(1970, 1, 2), 86_400_000_000),
        (datetime(1970, 1, 1, 0, 0, 0, 7), 7),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000),
        (12, 12),
    ],
)
def test_a_moment_is_utc_unless_it_carries_an_offset(moment: str | date | int, expected: int) -> None:
    assert microseconds(moment) == expected


def test_asking_imports_nothing_heavy(lakehouse: Lakehouse) -> None:
    code = (
        "import sys; from pathlib import Path; from lakehouse.serving.ask.ask import ask; "
        f"ask(Path({str(lakehouse.home.root)!r}), 'deep', 'temp', 'sum', 0, 3000, {{'device': 'a'}}, ['zone']); "
        "print({'pyspark', 'airflow', 'pydantic', 'pandas', 'numpy', 'pyarrow'} & set(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
