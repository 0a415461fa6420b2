"""Random small inputs for the tests of join-aggregates, the answers by definition, and what tests say about both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.contract import (
    LIMB_BITS,
    Aggregate,
    JoinAggregate,
    Partials,
    Rows,
    Shape,
)

# One call of ``advance``: rows, and the ticks answered after them.
Call = tuple[Rows, list[int]]
Make = Callable[[Shape], JoinAggregate]

# Sums of these are exact in whatever order they are added.
SMALL = st.integers(-6, 6).map(lambda number: number / 2) | st.just(math.nan)
WHOLE = st.integers(-6, 6).map(float) | st.just(math.nan)
# Sums of these are lost when they are added in float64.
ROUGH = st.sampled_from([1e16, -1e16, 1e200, -1e200, 2.0**900, -(2.0**900), 5e-324]) | st.floats(-1e3, 1e3)
FUNCTIONS = st.sampled_from(["count", "sum", "min", "max"])


@st.composite
def shapes(draw: Any, sides: tuple[int, int] = (2, 4), one_key: bool = False) -> Shape:
    """Shapes of that many sides: connected attributes, groups on some sides, up to four aggregates."""
    many = draw(st.sampled_from([each for each in (2, 2, 3, 3, 4) if sides[0] <= each <= sides[1]]))
    carried = [draw(st.sets(st.integers(0, 2), min_size=1, max_size=2))]
    while len(carried) < many:
        known = sorted(set().union(*carried))
        own = {draw(st.sampled_from(known))} | draw(st.sets(st.integers(0, 2), max_size=1))
        carried.append(carried[0] if one_key else own)
    return _shape(draw, [tuple(sorted(each)) for each in carried])


def _shape(draw: Any, carried: Sequence[tuple[int, ...]]) -> Shape:
    many = len(carried)
    aggregate = st.builds(Aggregate, FUNCTIONS, st.integers(0, many - 1), st.integers(0, 1))
    return Shape(
        attributes=tuple(carried),
        grouped=tuple(draw(st.lists(st.booleans(), min_size=many, max_size=many))),
        aggregates=tuple(draw(st.lists(aggregate, max_size=4, unique=True))),
    )


@st.composite
def rows_of(
    draw: Any,
    shape: Shape,
    size: tuple[int, int] = (6, 24),
    values: Any = SMALL,
    *,
    now: int = 0,
    first: int = 0,
    windows: tuple[int, ...] | None = None,
) -> Rows:
    """Rows in order of arrival from ``now`` on, numbered from ``first``; time goes on by up to two a row.

    Some are late by up to eight, or early by up to two. Windows of the sides differ; some rows leave at a time of their
    own, perhaps before they enter. Rows have at least three keys and two values, whatever the shape reads; most keys
    are equal.
    """
    lengths = windows or draw(windows_of(shape))
    number = st.sampled_from([0] * 5 + [1])
    row = st.tuples(
        st.integers(0, shape.sides - 1),
        st.sampled_from([0, 0, 1, 1, 2]),
        st.sampled_from([0] * 4 + [-2, -1, 1, 3, 8]),
        st.sampled_from([None] * 4 + [-1, 0, 3, 15]),
        st.tuples(*[number] * max(3, shape.width)),
        st.integers(5, 7),
        st.tuples(values, values),
    )
    drawn = draw(st.lists(row, min_size=size[0], max_size=size[1]))
    side, steps, late, stays, keys, group, held = zip(*drawn, strict=True) if drawn else ((),) * 7
    enter = now + np.cumsum(np.array(steps, np.int64)) - np.array(late, np.int64)
    length = [lengths[at] if own is None else own for at, own in zip(side, stays, strict=True)]
    return Rows.of(
        side,
        enter,
        enter + np.array(length, np.int64),
        np.array(keys, np.int64).reshape(-1, max(3, shape.width)),
        group=group,
        values=np.array(held, np.float64).reshape(-1, 2),
        row=np.arange(first, first + len(drawn)),
    )


def windows_of(shape: Shape) -> Any:
    """Windows of the sides, mostly unequal."""
    return st.tuples(*[st.integers(3, 20)] * shape.sides)


@st.composite
def calls_of(draw: Any, shape: Shape, values: Any = SMALL) -> list[Call]:
    """Rows and ticks in calls. Ticks are dense or sparse; some rows wait for theirs, some come after theirs."""
    windows, now, tick, first = draw(windows_of(shape)), 0, -20, 0
    calls = list[Call]()
    for size in draw(st.lists(st.sampled_from([0, 5, 8, 12]), min_size=2, max_size=5)):
        rows = draw(rows_of(shape, (size, size), values, now=now, first=first, windows=windows))
        newest = int(max(rows.enter_us, default=now))
        behind = draw(st.sampled_from([None, 0, 0, 1, 3, 9]))
        ticks = [] if behind is None else [max(tick + 1, newest - behind)]
        for step in draw(st.lists(st.sampled_from([1, 1, 2, 6]), max_size=3)) if ticks else []:
            ticks.append(ticks[-1] + step)
        calls.append((rows, ticks))
        tick, first = max([tick, *ticks]), first + size
        now = max(newest, tick)
    return calls


@dataclass(frozen=True)
class Case:
    """A shape and its calls."""

    shape: Shape
    calls: list[Call]


@st.composite
def cases(draw: Any, shape: Any = None, values: Any = SMALL) -> Case:
    """Shapes (of a strategy, else any) with calls."""
    chosen = draw(shapes() if shape is None else shape)
    return Case(chosen, draw(calls_of(chosen, values)))


def cut_otherwise(calls: Iterable[Call], cuts: Iterable[int]) -> list[Call]:
    """Return the same in other calls: rows in pieces, and each just before the tick that it enters at."""
    anew, places = list[Call](), sorted(cuts)
    for rows, ticks in calls:
        entered = -(10**9)
        for tick in [*ticks, 10**9]:
            due = rows[(rows.enter_us > entered) & (rows.enter_us <= tick)]
            ends = [min(place, len(due)) for place in places]
            anew += [(due[start:end], []) for start, end in zip([0, *ends], [*ends, len(due)], strict=True)]
            anew.append((due[:0], [tick] if tick in ticks else []))
            entered = tick
    return anew


def tick_after_every_row(rows: Rows) -> list[Call]:
    """Return one call per row in order of arrival, each with a tick: at its enter, or as soon after as may be.

    A tick without rows comes first.
    """
    tick = -(10**6)
    calls: list[Call] = [(rows[:0], [tick])]
    for at in range(len(rows)):
        tick = max(tick + 1, int(rows.enter_us[at]))
        calls.append((rows[at : at + 1], [tick]))
    return calls


def answers(method: JoinAggregate, calls: Iterable[Call]) -> Partials:
    """Return all answers of some calls."""
    return Partials.joined([method.advance(rows, np.array(ticks, np.int64)) for rows, ticks in calls])


def answers_by_definition(shape: Shape, calls: Iterable[Call]) -> dict[tuple[int, ...], list[Any]]:
    """Return (tick, *group) -> [results, then (counted, sum, sum of magnitudes, extreme) of each aggregate], exact."""
    known, found = list[Rows](), dict[tuple[int, ...], list[Any]]()
    for rows, ticks in calls:
        known.append(rows)
        for tick in ticks:
            for group, results in _results_at(shape, Rows.joined(known), tick).items():
                told = [_told(each, results) for each in shape.aggregates]
                found[tick, *group] = [len(results), *told]
    return found


def _results_at(shape: Shape, rows: Rows, tick: int) -> dict[tuple[int, ...], list[list[Any]]]:
    """Return the values of each result's rows, by group."""
    there = (rows.enter_us <= tick) & (tick <= rows.leave_us)
    sides = [np.flatnonzero(there & (rows.side == side)).tolist() for side in range(shape.sides)]
    found = dict[tuple[int, ...], list[list[Any]]]()
    for result in product(*sides):
        if all(_agree(shape, rows, result, number) for number in range(shape.width)):
            group = (
                int(rows.group[at]) if counts else 0 for at, counts in zip(result, shape.grouped, strict=True)
            )
            found.setdefault(tuple(group), []).append([rows.values[at].tolist() for at in result])
    return found


def _agree(shape: Shape, rows: Rows, result: tuple[int, ...], number: int) -> bool:
    carriers = [at for at, own in zip(result, shape.attributes, strict=True) if number in own]
    return len({int(rows.keys[at, number]) for at in carriers}) <= 1


def _told(aggregate: Aggregate, results: list[list[Any]]) -> tuple[int, Fraction, Fraction, float]:
    values = [result[aggregate.side][aggregate.column] for result in results]
    known = [value for value in values if not math.isnan(value)]
    total, size, extreme = Fraction(0), Fraction(0), math.nan
    if aggregate.function == "sum":
        total, size = sum(map(Fraction, known), total), sum(map(abs, map(Fraction, known)), size)
    if aggregate.function in ("min", "max") and known:
        extreme = min(known) if aggregate.function == "min" else max(known)
    return len(known), total, size, extreme


def assert_right(
    shape: Shape, found: Partials, truth: dict[tuple[int, ...], list[Any]], bound: float = 2.0**-104
) -> None:
    """Assert answers by definition: sums within ``(results + 1) * bound * magnitudes``, all else exactly."""
    rows = zip(found.tick_us.tolist(), found.group.tolist(), strict=True)
    assert [(tick, *group) for tick, group in rows] == sorted(truth)
    for at, (results, *told) in enumerate(truth[key] for key in sorted(truth)):
        assert found.results[at] == results
        for column, (counted, total, size, extreme) in enumerate(told):
            assert found.counted[at, column] == counted
            high, low = float(found.high[at, column]), float(found.low[at, column])
            assert abs(Fraction(high) + Fraction(low) - total) <= (results + 1) * Fraction(bound) * size
            assert high + low == high, "a low that high has digits for"
            np.testing.assert_equal(float(found.extreme[at, column]), extreme)


def assert_same(found: Partials, expected: Partials) -> None:
    """Assert that answers are equal in every number."""
    for field in fields(Partials):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name), field.name)


def in_limbs(shape: Shape, calls: Iterable[Call], by: int) -> tuple[Shape, list[Call]]:
    """Return a shape over whole numbers in three limbs, and calls whose values are so many times as large."""
    aggregates = tuple(replace(each, column=3 * each.column, limbs=3) for each in shape.aggregates)
    return replace(shape, aggregates=aggregates), [
        (replace(rows, values=_limbs_of(rows.values, by)), ticks) for rows, ticks in calls
    ]


def _limbs_of(values: Any, by: int) -> Any:
    limbs = np.full((*values.shape, 3), np.nan)
    for at, value in np.ndenumerate(values):
        if not math.isnan(value):
            number = int(value) * by
            digits = (abs(number) >> LIMB_BITS * place & 2**LIMB_BITS - 1 for place in range(3))
            limbs[at] = [math.copysign(float(digit), number) for digit in digits]
    return limbs.reshape(len(values), 3 * values.shape[1])


def whole_numbers(found: Partials, column: int) -> list[int | None]:
    """Return the sums or extremes of an aggregate over limbs."""
    limbs = (getattr(found, part)[:, column].tolist() for part in ("extreme", "high", "low"))
    return [
        None if math.isnan(high) else (int(high) << 2 * LIMB_BITS) + (int(middle) << LIMB_BITS) + int(low)
        for high, middle, low in zip(*limbs, strict=True)
    ]


@st.composite
def circles(draw: Any) -> Shape:
    """Shapes of three or four sides in a circle, or each tied to each, perhaps with a side beside the circle."""
    carried = draw(
        st.sampled_from(
            [
                ((0, 1), (1, 2), (0, 2)),
                ((0, 1), (1, 2), (0, 2), (1,)),
                ((2,), (0, 1), (1, 2), (0, 2)),
                ((0, 1), (1, 2), (2, 0), (0, 1, 2)),
                ((0, 1), (1, 2), (2, 3), (0, 3)),
                ((0, 1, 2), (0, 3, 4), (1, 3, 5), (2, 4, 5)),
                ((0, 1), (1, 2), (0, 2), (2, 3), (3,)),
            ]
        )
    )
    return _shape(draw, carried)


def without_extremes(shape: Shape) -> Shape:
    """Return the shape with sums in place of extremes."""
    kept = tuple(
        replace(each, function="sum") if each.function in ("min", "max") else each
        for each in shape.aggregates
    )
    return replace(shape, aggregates=kept)
