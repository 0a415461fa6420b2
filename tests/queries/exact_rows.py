"""Rows of texts, whole numbers, decimals and doubles with values at the edges of their types, as tasks read them."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakehouse.queries.runtime.tasks.arrow_sql import where
from lakehouse.queries.runtime.tasks.reading import Columns, SideRows
from tests.queries.declared_streams import stream_of

SCALES = {"n": 0, "m": 0, "d": 1, "e": 3, "w": 18, "f": None, "h": None}
COLUMNS: dict[str, Any] = {
    "g": "string",
    "t": "string",
    "p": "boolean",
    "k": "int",
    "id": "int",
    **{name: "int" for name, scale in SCALES.items() if scale == 0},
    **{name: {"type": "decimal", "decimals": scale} for name, scale in SCALES.items() if scale},
    **{name: "double" for name, scale in SCALES.items() if scale is None},
}
OWN = {"columns": COLUMNS, "keys": ["k"], "groupings": [[]], "measures": ["f"]}
STREAMS = {name: stream_of(name=name, **OWN) for name in ("a", "b", "c")}
LARGEST = 1.7976931348623157e308
_DOUBLES = [0.0, 5e-324, 1e-300, 0.1, 2.0**53, 1e16, 1e300, 2.0**900, LARGEST, math.inf]
_WHOLE = [0, 1, 2**32, 2**42, 2**53, 2**53 + 1, 2**63 - 1]
Row = dict[str, Any]


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
    """Rows of all sides that pass their conditions."""

    sides: tuple[pa.RecordBatch, ...]
    wheres: tuple[str | None, ...] = ()

    def read(self, side: int, columns: Sequence[str]) -> SideRows:
        rows = where(self.sides[side], self.wheres[side] if self.wheres else None)
        return SideRows([], Columns(InMemory(rows), tuple(dict.fromkeys([*columns, "source_line"]))))


def read(sides: Iterable[SideRows]) -> pa.Table:
    """Return the rows of all sides."""
    batches = [pa.Table.from_batches([each]) for side in sides for each in side.rows.batches(["f"])]
    return pa.concat_tables(batches, promote_options="permissive")


@dataclass
class ReadOnce:
    """Rows of all sides as ``reads`` has them: all at once if all are known, since few take as long as many."""

    reads: Callable[[Sequence[Sequence[Row]]], pa.Table]
    known: Sequence[Sequence[Row]] | None

    @cached_property
    def _whole(self) -> pa.Table:
        return self.reads(self.known or ())

    def of(self, sides: Sequence[Sequence[Row]]) -> pa.Table:
        """Return rows of each side."""
        if self.known is None:
            return self.reads(sides)
        wanted = {(side, row["line"]) for side, rows in enumerate(sides) for row in rows}
        own = zip(self._whole["side"].to_pylist(), self._whole["source_line"].to_pylist(), strict=True)
        return self._whole.filter(pa.array([each in wanted for each in own], pa.bool_()))


def raw(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as the raw table has them; ``line`` stands for all by which a row is known."""
    kinds: dict[str, pa.DataType] = dict.fromkeys(("k", "id", "event_us"), pa.int64())
    kinds |= {"g": pa.string(), "t": pa.string(), "p": pa.bool_()}
    for name, scale in SCALES.items():
        whole = pa.int64() if scale == 0 else pa.decimal128(38, scale or 0)
        kinds[name] = pa.float64() if scale is None else whole
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()}
    for name in ("source_line", "batch"):
        columns[name] = pa.array([row["line"] for row in rows], pa.int64())
    columns["arrival_us"] = columns["event_us"]
    columns["source_file"] = pa.array(["f"] * len(rows), pa.string())
    columns["source_item"] = pa.array([0] * len(rows), pa.int32())
    return pa.record_batch(columns)


# Texts, of which some are alike in all but their bytes, and what keys and groups have besides.
TEXTS = (
    "",
    " ",
    "a",
    "A",
    "a ",
    "a\x00",
    "\x00",
    "\u00e9",
    "e\u0301",
    "\U0001f600",
    "null",
    "'",
    *("\\", "a\\", "\\a", "%", "_", "a%b", "a_b", "100%"),
    "z" * 40,
)
FEW: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("g", "t"), TEXTS),
    **dict.fromkeys(("k", "id", "n", "m"), (0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))),
    **{name: (Decimal(0), Decimal(1), Decimal(f"1E-{SCALES[name]}"), Decimal("-0.1")) for name in "dew"},
    **dict.fromkeys(("f", "h"), (0.0, -0.0, 0.1, 5e-324, 2.0**53, math.inf, -math.inf, math.nan)),
    "p": (True, False),
}


def value_of(drawn: random.Random, name: str, base: int = 0, edges: float = 0.5, most: int = 2**63) -> Any:
    """Return a value of a column: now and then null, as often as said at an edge of its type, else near a base."""
    scale, kind, sign = SCALES[name], drawn.random(), drawn.choice([1, -1])
    if kind < 0.1:
        return None
    if kind < 0.1 + edges:
        if scale is None:
            return sign * drawn.choice(_DOUBLES)
        if not scale:
            return drawn.choice([sign * drawn.choice(_WHOLE), -(2**63)])
        return units(sign * drawn.choice([*_WHOLE, most, most // 2**12]), scale)
    if scale is None:
        return base + drawn.choice([drawn.randint(-90, 90) / 10, drawn.gauss(0, 1)])
    return base + units(drawn.randint(-12, 12), min(scale, drawn.randint(1, 3)))


def units(number: int, scale: int) -> Any:
    return Decimal(f"{number}E-{scale}") if scale else number
