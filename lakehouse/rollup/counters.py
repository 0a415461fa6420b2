"""Counters in a rollup's nodes, in Arrow: readings and partial nodes joined by the rules of the pure method.

A counter is read per meter: a series of the grouping that holds all keys. Nodes of other groupings have no counter.

    {m}__first, {m}__last                the first and the last reading, in order of (time, value)
    {m}__drops_low, {m}__drops_high      bounds of the sum of readings before each fall
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.rollup.counter_kernels import COUNTER, fold_nodes
from lakehouse.config.stream import COUNTER_PARTS

_FIELDS = ("n", "first_us", "last_us", "max", *COUNTER_PARTS)


def readings(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a counter's values without those below zero: these are no readings."""
    return pc.if_else(pc.greater_equal(values, pa.scalar(0, values.type)), values, None)


def lifted(name: str, times: pa.ChunkedArray, values: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """Return readings as nodes of one reading each, by their columns' names."""
    number, is_reading = values.cast(pa.float64(), safe=False), pc.is_valid(values)
    seen, nothing = pc.if_else(is_reading, times, None), pa.repeat(0.0, len(times))
    columns = {"n": is_reading.cast(pa.int64()), "first_us": seen, "last_us": seen, "max": number}
    columns |= {"first": number, "last": number, "drops_low": nothing, "drops_high": nothing}
    return {f"{name}__{part}": column for part, column in columns.items()}


def order(nodes: pa.Table, by: Sequence[str]) -> pa.Array:
    """Return in which order nodes are sorted by their place and keys; equal ones stay as they stand."""
    return pc.sort_indices(nodes, [(name, "ascending") for name in by])


def runs(nodes: pa.Table, by: Sequence[str]) -> npt.NDArray[np.int64]:
    """Number each node by its place and keys, from 0; the nodes must be in their order."""
    changed = np.zeros(nodes.num_rows, dtype=bool)
    for name in by:
        codes = nodes[name].combine_chunks().dictionary_encode(null_encoding="encode")
        found = (codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes).indices.to_numpy()
        changed[1:] |= found[1:] != found[:-1]
    return np.cumsum(changed)


def joined(nodes: pa.Table, run: npt.NDArray[np.int64], name: str) -> pa.Table:
    """Join one counter's nodes of equal number: one row per number from 0, null where there is no reading.

    Cost: one sort of the nodes.
    """
    # Nodes over several meters have values of the measure and no counter.
    counted = pc.and_(pc.greater(nodes[f"{name}__n"], 0), pc.is_valid(nodes[f"{name}__first"]))
    has = counted.to_numpy(zero_copy_only=False).astype(bool)
    parts = np.empty(int(has.sum()), COUNTER)
    parts["start"] = run[has]
    for field in _FIELDS:
        column = nodes[f"{name}__{field}"].filter(pa.array(has))
        parts[field] = column.cast(pa.from_numpy_dtype(COUNTER[field]), safe=False).to_numpy()
    found = fold_nodes(parts[np.lexsort((parts["first"], parts["first_us"], parts["start"]))], 1)
    size = int(run[-1]) + 1 if len(run) else 0
    missing = np.ones(size, dtype=bool)
    missing[found["start"]] = False
    columns = {}
    for part in COUNTER_PARTS:
        values = np.zeros(size)
        values[found["start"]] = found[part]
        columns[f"{name}__{part}"] = pa.array(values, mask=missing)
    return pa.table(columns)


def from_children(parents: pa.Table, children: pa.Table, by: Sequence[str], name: str) -> pa.Table:
    """Return parents, in order, with one counter joined from their children wherever these have all of its rows.

    Both are one row per node; ``children`` stand in their parents' places. Partial nodes of a parent overlap when
    rows come late, which leaves an interval; its children seldom do.
    """
    size = parents.num_rows
    columns = [*by, f"{name}__n", *(f"{name}__{part}" for part in COUNTER_PARTS)]
    is_child = pa.array(np.arange(size + children.num_rows) >= size)
    own = parents.select(columns)
    both = pa.concat_tables([own, children.select(columns).cast(own.schema)])
    both = both.append_column("is_child", is_child)
    both = both.take(order(both, by))
    run, child = runs(both, by), both["is_child"].to_numpy(zero_copy_only=False)
    has_child = np.flatnonzero(child)
    parent_of = np.flatnonzero(~child)[run[has_child]]
    counts = both[f"{name}__n"].to_numpy()
    complete = counts[has_child] == counts[parent_of]
    source = np.flatnonzero(~child)
    source[run[has_child[complete]]] = has_child[complete]
    ordered = parents.take(order(parents, by))
    for part in COUNTER_PARTS:
        column = f"{name}__{part}"
        ordered = ordered.set_column(
            ordered.schema.get_field_index(column), column, both[column].take(pa.array(source))
        )
    return ordered
