"""Nodes of rows that are sorted are those of rows that are grouped by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.columns import sql_type
from lakehouse.config.stream import Stream
from lakehouse.rollup import nodes
from lakehouse.rollup.nodes import NodeFolder, folder_of, needed
from lakehouse.rollup.row_nodes import row_nodes

SECOND = 1_000_000
T0 = 1_600_000_000 * SECOND
MEASURES = {
    "real": {"type": "double"},
    "whole": {"type": "int"},
    "exact": {"type": "decimal", "decimals": 2},
}
ARROW = {"double": pa.float64(), "bigint": pa.int64(), "decimal(38,2)": pa.decimal128(38, 2)}
GROUPINGS = [[["device", "site"]], [["device"], ["site"], []], [[]], [["site"], ["device", "site"]]]
# A second's level, a minute's and one that keeps everything or some minutes: rows enter at each of them, or at none.
LAST = ["5m forever", "5m for 20m"]
VALUES = {
    "real": st.integers(-8, 8).map(lambda n: n / 4),
    "whole": st.integers(-(2**40), 2**40),
    "exact": st.integers(-(10**6), 10**6).map(lambda n: Decimal(n) / 100),
}
ROW = st.fixed_dictionaries(
    {
        "event_us": st.integers(-2000 * SECOND, 200 * SECOND).map(lambda us: T0 + us // 100_000 * 100_000),
        "device": st.sampled_from([None, "a", "b", "c"]),
        "site": st.sampled_from([None, 1, 7]),
        **{name: st.none() | values for name, values in VALUES.items()},
    }
)


def stream_of(groupings: list[list[str]], last: str) -> Stream:
    columns: dict[str, Any] = {"ts": "int", "device": "string", "site": "int", **MEASURES}
    declared = {
        "name": "s",
        "source": {"path": "x", "format": "csv"},
        "event_time": {"column": "ts", "unit": "us"},
        "keys": ["device", "site"],
        "measures": list(MEASURES),
        "groupings": groupings,
        "levels": ["1s for 1m", "1m for 10m", last],
        "columns": columns,
    }
    return Stream.model_validate(declared)


def table_of(rows: list[dict[str, Any]], stream: Stream) -> pa.Table:
    types = {"event_us": pa.int64(), "device": pa.string(), "site": pa.int64()}
    types |= {name: ARROW[sql_type(stream.all_columns[name])] for name in MEASURES}
    found = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    return pa.table(found).select(needed(stream))


def told(made: pa.Table, folder: NodeFolder) -> list[dict[str, Any]]:
    """Return nodes and counts, whole and in order; sums of these numbers are exact in doubles."""
    by = ["level", "grouping", "start_us", *folder.stream.grouping_keys]
    whole = folder.combined(made, by).select(folder.schema.names).cast(folder.schema)
    return sorted(whole.to_pylist(), key=lambda row: [str(row[name]) for name in by])


@contextmanager
def at_once(count: int) -> Iterator[None]:
    with patch.object(nodes, "ROWS_AT_ONCE", count):
        yield


@given(
    st.lists(ROW, max_size=30),
    st.sampled_from(GROUPINGS),
    st.sampled_from(LAST),
    st.sampled_from([1, 4, 1000]),
)
def test_sorting_makes_the_nodes_that_grouping_makes(
    rows: list[dict[str, Any]], groupings: list[list[str]], last: str, most: int
) -> None:
    stream = stream_of(groupings, last)
    newest = max((row["event_us"] for row in rows), default=T0)
    folder, table = folder_of(stream, newest), table_of(rows, stream)
    none = folder.schema.empty_table()
    with at_once(most):
        parts = [table.slice(low, 3) for low in range(0, len(rows), 3)]
        found = pa.concat_tables([none, *folder.folded(parts)])

    assert found.schema == folder.schema
    assert told(found, folder) == told(pa.concat_tables([none, *folder.by_keys([table])]), folder)


@pytest.mark.parametrize("value", [Decimal("1e20"), Decimal("92233720368547758.07"), Decimal("-5e16")])
def test_sums_that_may_need_more_than_64_bits_are_made_by_grouping(value: Decimal) -> None:
    stream = stream_of([["device"], []], LAST[0])
    rows = [
        {"event_us": T0, "device": "a", "site": 1, "real": 0.5, "whole": n, "exact": value} for n in range(4)
    ]
    folder, table = folder_of(stream, T0), table_of(rows, stream)

    assert row_nodes(table, stream, T0, folder.schema) is None
    found = pa.concat_tables(folder.folded([table]))

    assert {row["exact__sum"] for row in found.to_pylist() if row["level"] > 0} == {4 * value}


@pytest.mark.parametrize(("parts", "most", "tables"), [(1, 2**30, 1), (2, 2**25, 2), (2, 2**30, 1)])
def test_keys_may_have_more_bytes_than_one_array_and_fewer_of_them_are_sorted_at_once(
    parts: int, most: int, tables: int
) -> None:
    stream, count = stream_of([["device"]], LAST[0]), 128
    nothing = {name: pa.nulls(count, ARROW[sql_type(stream.all_columns[name])]) for name in MEASURES}
    columns = {"event_us": pa.array([T0] * count), "device": pa.array(["x" * 2**19] * count)}
    rows = pa.table(columns | {"site": pa.nulls(count, pa.int64())} | nothing).select(needed(stream))
    folder, copies = folder_of(stream, T0), 33 if parts == 1 else 1
    # The copies are one in memory.
    part = pa.concat_tables([rows] * copies)
    assert (part["device"].nbytes > 2**31) == (parts == 1)

    with patch.object(nodes, "BYTES_AT_ONCE", most):
        found = list(folder.folded([part] * parts))

    assert len(found) == tables
    made = [row["rows"] for row in pa.concat_tables(found).to_pylist() if row["level"] == 1]
    assert made == [count * copies * parts // tables] * tables


def test_digits_of_64_bits_are_kept_and_come_back() -> None:
    stream = stream_of([[]], LAST[0])
    most = Decimal(2**61 - 1) / 100
    row = {"event_us": T0, "device": "a", "site": 1, "real": None, "whole": -(2**61), "exact": most}
    folder, table = folder_of(stream, T0), table_of([row], stream)

    made = row_nodes(table, stream, T0, folder.schema)

    assert made is not None
    nodes_made = [each for each in made.to_pylist() if each["level"] > 0]
    assert len(nodes_made) == 3
    for node in nodes_made:
        assert (node["exact__sum"], node["exact__min"], node["whole__sum"]) == (most, most, -(2**61))
        assert (node["real__n"], node["real__sum"], node["real__min"]) == (0, None, None)
