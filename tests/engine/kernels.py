"""Kernels of the engine's tests: whatever they are run by, what they return follows from their arguments."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakehouse.engine import Item

NUMBERS = pa.schema({"n": pa.int64(), "text": pa.string()})
KEYED = pa.schema({"key": pa.int32(), "n": pa.int64()})
SUMS = pa.schema({"key": pa.int64(), "sum": pa.int64()})


def twice(item: Item) -> Iterator[pa.Table]:
    """Yield a number twice, and its double."""
    for number in (item["n"], 2 * item["n"]):
        yield pa.table({"n": [number], "text": [f"of {item['n']}"]})


def failing(item: Item) -> Iterator[pa.Table]:
    """Yield a number, unless it is 2."""
    if item["n"] == 2:
        raise LookupError("no number 2")
    yield from twice(item)


def spread(item: Item) -> Iterator[pa.Table]:
    """Yield as many rows as the number says, over three keys."""
    numbers = range(item["n"])
    yield pa.table(
        {"key": pa.array([n % 3 for n in numbers], pa.int32()), "n": pa.array(numbers, pa.int64())}
    )


def failing_read(item: Item) -> Iterator[pa.Table]:
    """Yield rows, unless the number is 2."""
    if item["n"] == 2:
        raise LookupError("no number 2")
    yield from spread(item)


def summed(key: int, rows: pa.Table) -> pa.Table:
    """Return the sum of a key's numbers."""
    return pa.table({"key": [key], "sum": [sum(rows["n"].to_pylist())]})


def failing_key(key: int, rows: pa.Table) -> pa.Table:
    """Return the sum of a key's numbers, unless it is 1."""
    if key == 1:
        raise LookupError("no key 1")
    return summed(key, rows)
