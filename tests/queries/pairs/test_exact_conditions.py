"""Conditions on whole numbers, decimals and doubles, from the text of a query to its pairs, against exact fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.algorithms.late_join.repair import missing_pairs
from lakehouse.queries.pairs.query import PairsQuery, condition_in_words
from lakehouse.queries.pairs.rows import as_batch, side_rows
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tasks.reading import Columns, SideRows
from tests.queries.declared_streams import join_of, stream_of

SCALES = {"n": 0, "m": 0, "d": 1, "e": 3, "g": 18, "f": None, "h": None}
COLUMNS = {
    "id": "int",
    **{name: "int" for name, scale in SCALES.items() if scale == 0},
    **{name: {"type": "decimal", "decimals": scale} for name, scale in SCALES.items() if scale},
    **{name: "double" for name, scale in SCALES.items() if scale is None},
}
OWN = {"columns": COLUMNS, "keys": ["id"], "groupings": [[]], "measures": ["f"]}
STREAMS = {name: stream_of(name=name, **OWN) for name in ("a", "b")}
SIGNS = ("<", "<=", "=", "<>", ">=", ">")
Row = dict[str, Any]
Holds = Callable[[Row, Row], bool]


@dataclass(frozen=True)
class InMemory:
    """Rows as tasks read them, of one file."""

    rows: pa.RecordBatch

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        yield self.rows


@dataclass(frozen=True)
class Source:
    """Rows of both sides."""

    sides: tuple[pa.RecordBatch, pa.RecordBatch]

    def read(self, side: int, columns: Sequence[str]) -> SideRows:
        return SideRows([], Columns(InMemory(self.sides[side]), tuple(columns)))


def raw(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as the raw table has them."""
    kinds = {
        name: pa.int64() if not scale and scale is not None else pa.decimal128(38, scale or 0)
        for name, scale in SCALES.items()
    }
    kinds |= {name: pa.float64() for name, scale in SCALES.items() if scale is None}
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    numbers = pa.array(range(len(rows)), pa.int64())
    times = {name: numbers for name in ("event_us", "arrival_us", "source_line", "batch", "id")}
    files = {"source_file": pa.array(["f"] * len(rows)), "source_item": pa.array([0] * len(rows), pa.int32())}
    return pa.record_batch({**columns, **times, **files})


def found(
    query: PairsQuery, rows: tuple[Sequence[Row], Sequence[Row]], buckets: int = 2
) -> list[tuple[int, int]]:
    """Return the pairs that buckets find online, which a repair of every row finds too."""
    sides = side_rows(cast(RowSource, Source((raw(rows[0]), raw(rows[1])))), query, STREAMS, buckets)
    batches = [batch for side in sides for batch in side.rows.batches(["f"])]
    both, pairs = pa.Table.from_batches([each.cast(batches[0].schema) for each in batches]), []
    for bucket in range(buckets):
        own = both.filter(pa.array(both["bucket"].to_numpy() == bucket)).combine_chunks()
        own = own.set_column(own.schema.get_field_index("row"), "row", own["source_line"])
        batch = as_batch(own)
        join = QJoin(query.condition, query.window_us, NeededSlack(0.9, 10**6, 10**5))
        online = join.process(batch).pairs
        everything, horizon = np.arange(len(batch)), np.full(len(batch), 2**40)
        again = missing_pairs(query.condition, query.window_us, batch, everything, horizon)
        at_once = sorted(zip(online.left.tolist(), online.right.tolist(), strict=True))
        assert at_once == sorted(zip(again.left.tolist(), again.right.tolist(), strict=True))
        pairs += at_once
    return sorted(pairs)


def asked(condition: str) -> PairsQuery:
    return join_of(
        "q", f"SELECT a.id FROM a [RANGE 1 SECOND] JOIN b ON {condition} RECALL 0.9 OVER 1 MINUTE", STREAMS
    )


def numbers_of(left: Any, right: Any, is_exact: bool) -> tuple[Any, Any]:
    return (Fraction(left), Fraction(right)) if is_exact else (float(left), float(right))


def both_exact(left: str, right: str) -> bool:
    return SCALES[left] is not None and SCALES[right] is not None


def comparison(left: str, sign: str, right: str, plus: str) -> Holds:
    """Return what ``a.left sign b.right + plus`` means."""
    is_exact = both_exact(left, right)
    bound = Fraction(plus) if is_exact else float(Fraction(plus))

    def holds(a: Row, b: Row) -> bool:
        if a[left] is None or b[right] is None:
            return False
        one, two = numbers_of(a[left], b[right], is_exact)
        two = two + bound
        if one != one or two != two:
            return False
        found: dict[str, bool] = {
            "<": one < two,
            "<=": one <= two,
            "=": one == two,
            "<>": one != two,
            ">=": one >= two,
            ">": one > two,
        }
        return found[sign]

    return holds


def near(reach: str, *columns: tuple[str, str], is_squared: bool) -> Holds:
    """Return what a band or a distance over pairs of columns means."""
    is_exact = all(both_exact(*each) for each in columns)
    most = Fraction(reach) if is_exact else float(reach)

    def holds(a: Row, b: Row) -> bool:
        gaps = []
        for left, right in columns:
            if a[left] is None or b[right] is None:
                return False
            one, two = numbers_of(a[left], b[right], is_exact)
            if not is_exact and not (np.isfinite(one) and np.isfinite(two)):
                return False
            gaps.append(one - two)
        if is_squared:
            return bool(sum(gap * gap for gap in gaps) <= most * most)
        return bool(abs(gaps[0]) <= most)

    return holds


def random_value(dice: np.random.Generator, scale: int | None, base: int) -> Any:
    """Return a number near ``base``, or at an edge of what the type has; None where it is missing."""
    kind, by = dice.random(), int(dice.integers(-12, 13))
    if kind < 0.05:
        return None
    if scale is None:
        edges = [1e300, -1e300, 2.0**53, -0.0, float("inf"), float("nan"), 1e-300, 2.0**1000]
        return float(dice.choice(edges)) if kind < 0.15 else base + by / 10
    if scale == 0:
        edges_of_int = [2**63 - 1, -(2**63), 2**53, 2**53 + 1, 0]
        return int(edges_of_int[dice.integers(5)]) if kind < 0.15 else base + by
    if kind < 0.15:
        digits = int(dice.choice([2**63 - 1, 2**63, 2**53 + 1, 2**53])) * int(dice.choice([-1, 1]))
        return Decimal(f"{digits}E-{scale}")
    return Decimal(base) + Decimal(f"{by}E-{min(scale, int(dice.integers(1, 4)))}")


def random_case(dice: np.random.Generator) -> tuple[str, Holds, tuple[list[Row], list[Row]]]:
    """Return a condition, what it means, and rows of both sides."""
    names = list(SCALES)
    left, right, other, last = (names[each] for each in dice.integers(0, len(names), 4))
    plus = str(
        dice.choice(["0", "0.1", "-0.3", "1", "0.05", "9007199254740993", "-0.0000000000000000001", "1.25"])
    )
    reach = str(dice.choice(["0", "0.3", "0.1", "1", "0.25", "2", "4611686018427387904.5", "0.0000001"]))
    sign = str(dice.choice(SIGNS))
    holds, text = comparison(left, sign, right, plus), f"a.{left} {sign} b.{right} + {plus}"
    shape = dice.integers(0, 4)
    if sign == "=" or shape == 0:
        more, first = near(reach, (other, last), is_squared=False), f"ABS(a.{other} - b.{last}) <= {reach}"
        text, both = f"{first} AND {text}", [more, holds]
    elif shape == 1:
        more = near(reach, (other, last), (left, right), is_squared=True)
        first = f"DISTANCE(a.{other}, a.{left}, b.{last}, b.{right}) <= {reach}"
        text, both = f"{first} AND {text}", [more, holds]
    else:
        text, both = f"a.id = b.id AND {text}", [holds]
    base = int(dice.choice([0, 3, 2**53 - 3, -(2**53), 2**62]))
    one, two = (
        [{name: random_value(dice, scale, base) for name, scale in SCALES.items()} for _ in range(8)]
        for _ in range(2)
    )
    is_keyed = shape > 1 and sign != "="

    def whole(a: Row, b: Row) -> bool:
        return all(each(a, b) for each in both)

    def keyed(a: Row, b: Row) -> bool:
        return a["id"] == b["id"] and whole(a, b)

    return text, keyed if is_keyed else whole, (one, two)


def wrong_of(cases: int, seed: int) -> list[str]:
    """Return the conditions, of so many random ones, whose pairs are not those of exact fractions."""
    dice, wrong = np.random.default_rng(seed), []
    for _ in range(cases):
        text, holds, rows = random_case(dice)
        for side in rows:
            for number, row in enumerate(side):
                row["id"] = number
        expected = sorted((a["id"], b["id"]) for a in rows[0] for b in rows[1] if holds(a, b))
        if found(asked(text), rows) != expected:
            wrong.append(text)
    return wrong


def test_random_conditions_find_the_pairs_of_exact_fractions() -> None:
    assert wrong_of(80, 1) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_random_conditions_find_the_pairs_of_exact_fractions() -> None:
    assert wrong_of(10_000, 2) == []


def test_a_band_of_tenths_finds_all_its_pairs() -> None:
    """In doubles 0.4 - 0.1 is more than 0.3."""
    empty = dict.fromkeys(SCALES)
    rows = tuple([empty | {"d": Decimal(f"{each}E-1"), "id": each} for each in range(20)] for _ in range(2))
    pairs = found(asked("ABS(a.d - b.d) <= 0.3"), rows)  # type: ignore[arg-type]
    assert pairs == [(a, b) for a in range(20) for b in range(20) if abs(a - b) <= 3]


def test_a_column_beside_a_double_is_a_double() -> None:
    row = dict.fromkeys(SCALES) | {"n": 2**53 + 1, "f": 2.0**53, "id": 0}
    assert found(asked("a.id = b.id AND a.n <= b.f"), ([row], [row])) == [(0, 0)]
    assert found(asked("a.id = b.id AND a.n <= b.m"), ([row], [row | {"m": 2**53}])) == []


def test_bounds_are_shown_with_every_digit() -> None:
    words = condition_in_words(asked("ABS(a.d - b.e) <= 0.12345 AND a.n > b.n + 9007199254740993"))
    assert words == "|a.d - b.e| <= 0.123 and a.n > b.n + 9007199254740993"


def test_a_number_beyond_all_that_is_compared_is_refused_by_its_column() -> None:
    empty = dict.fromkeys(SCALES)
    huge = empty | {"d": Decimal("9" * 37 + ".9"), "id": 0}
    with pytest.raises(
        ValueError, match=r"numbers of column 'd' that are below 4.25e\+37 in units of 1e-1, found 999"
    ):
        found(asked("ABS(a.d - b.d) <= 1"), ([huge], [huge]))
    with pytest.raises(ValueError, match=r"expected values of `d` that fit DECIMAL\(38, ?18\)"):
        found(asked("ABS(a.d - b.g) <= 1"), ([huge], [huge]))
