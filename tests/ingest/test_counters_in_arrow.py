"""Counters of partial nodes in Arrow against every reading, one at a time; no JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.rollup import counters
from tests.oracles.rollup.counter_scan import CounterScan

PLACE = ["start_us", "meter"]
WIDTH = 8
readings = st.lists(
    st.tuples(
        st.integers(-20, 20),
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-2, 30).map(float)),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)
Reading = tuple[int, str | None, float | None, int]


def lifted(rows: list[Reading], width: int) -> pa.Table:
    times = pa.chunked_array([pa.array([row[0] for row in rows], pa.int64())])
    values = counters.readings(pa.chunked_array([pa.array([row[2] for row in rows], pa.float64())]))
    starts = pa.array([row[0] // width * width for row in rows], pa.int64())
    place = {"start_us": starts, "meter": pa.array([row[1] for row in rows], pa.string())}
    return pa.table({**place, **counters.lifted("m", times, values)})


def folded(nodes: pa.Table, width: int) -> pa.Table:
    """Nodes in their places of this width, joined; the plain columns as any fold has them."""
    starts = [start // width * width for start in nodes["start_us"].to_pylist()]
    nodes = nodes.set_column(0, "start_us", pa.array(starts, pa.int64()))
    nodes = nodes.take(counters.order(nodes, PLACE))
    run = counters.runs(nodes, PLACE)
    plain = (
        nodes.append_column("run", pa.array(run))
        .group_by("run")
        .aggregate([("m__n", "sum"), ("m__first_us", "min"), ("m__last_us", "max"), ("m__max", "max")])
    )
    plain = (
        plain.sort_by("run")
        .drop_columns("run")
        .rename_columns(["m__n", "m__first_us", "m__last_us", "m__max"])
    )
    places = nodes.select(PLACE).take(pa.array(np.flatnonzero(np.diff(run, prepend=-1))))
    tables = (places, plain, counters.joined(nodes, run, "m"))
    return pa.table({name: table[name] for table in tables for name in table.column_names})


def truth(rows: list[Reading], start: int, width: int, meter: str | None) -> float:
    scan = CounterScan()
    own = [(row[0], row[2]) for row in rows if row[1] == meter and row[2] is not None]
    scan.insert_batch([time for time, _ in own], [value for _, value in own])
    return scan.increase(start, start + width)


@settings(deadline=None)  # the first call compiles
@given(readings)
def test_readings_of_one_batch_are_joined_exactly(rows: list[Reading]) -> None:
    for node in folded(lifted(rows, WIDTH), WIDTH).to_pylist():
        if node["m__n"]:
            increase = node["m__last"] - node["m__first"] + node["m__drops_low"]
            assert increase == truth(rows, node["start_us"], WIDTH, node["meter"])
            assert node["m__drops_low"] == node["m__drops_high"]
        else:
            assert node["m__first"] is None


@settings(deadline=None)  # the first call compiles
@given(readings)
def test_partial_nodes_that_overlap_hold_the_truth_between_their_bounds(rows: list[Reading]) -> None:
    batches = [[row for row in rows if row[3] == batch] for batch in range(3)]
    parts = pa.concat_tables([folded(lifted(batch, WIDTH), WIDTH) for batch in batches if batch])

    for node in folded(parts, WIDTH).to_pylist():
        if node["m__n"]:
            grown = node["m__last"] - node["m__first"]
            really = truth(rows, node["start_us"], WIDTH, node["meter"])
            assert grown + node["m__drops_low"] <= really <= grown + node["m__drops_high"]


@settings(deadline=None)  # the first call compiles
@given(readings)
def test_parents_are_exact_where_children_with_all_their_rows_are(rows: list[Reading]) -> None:
    batches = [[row for row in rows if row[3] == batch] for batch in range(3)]
    parents = pa.concat_tables([folded(lifted(batch, 2 * WIDTH), 2 * WIDTH) for batch in batches if batch])
    parents = folded(parents, 2 * WIDTH)
    children = folded(lifted(rows, WIDTH), WIDTH)
    known = folded(
        children.filter(pa.array([start >= 0 for start in children["start_us"].to_pylist()])), 2 * WIDTH
    )

    found = counters.from_children(parents, known, PLACE, "m")

    def place(node: dict[str, object]) -> str:
        return repr((node["start_us"], node["meter"]))

    before = {place(node): node for node in parents.to_pylist()}
    assert {place(node) for node in found.to_pylist()} == set(before)
    for node in found.to_pylist():
        if node["start_us"] < 0:
            assert node == before[place(node)]
        elif node["m__n"]:
            really = truth(rows, node["start_us"], 2 * WIDTH, node["meter"])
            assert node["m__last"] - node["m__first"] + node["m__drops_low"] == really
            assert node["m__drops_high"] == node["m__drops_low"]
