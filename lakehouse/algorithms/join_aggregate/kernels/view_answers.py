"""Compiled answers of a view tree: what its root comes to at a tick, and what late rows add (``view_tree.py``)."""

from typing import Any

from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.digits import shown
from lakehouse.algorithms.join_aggregate.kernels.envelopes import step_at
from lakehouse.algorithms.join_aggregate.kernels.view_cells import ANSWERED, LACK, LOWEST, OUT, ROOTS
from lakehouse.algorithms.join_aggregate.kernels.view_waves import write_extreme


@njit(cache=True)
def answer(
    tick: Any, aggregates: Any, cells: Any, hubs: Any, waves: Any, layout: Any, out: Any, state: Any
) -> None:
    """Write the answers at a tick: the views of the root."""
    steps, heights, lists = waves[3], waves[4], waves[7]
    if state[ANSWERED] + state[ROOTS] > len(out[0]):
        state[LACK] = OUT
        return
    cell = hubs[0, layout.views]
    while cell >= 0:
        if cells[cell, layout.ring] != 0:
            for which in range(1, layout.lists):
                step = step_at(cells[cell, layout.tops + which], steps, tick)
                if step >= 0:
                    write_extreme(heights[step], lists[which], out, state[ANSWERED])
            _write(tick, cells[cell], cells, cell, layout.ring, aggregates, layout, out, state)
        cell = cells[cell, layout.next_view]


@njit(cache=True)
def list_gains(
    times: Any,
    aggregates: Any,
    cells: Any,
    hubs: Any,
    waves: Any,
    gains: Any,
    layout: Any,
    out: Any,
    state: Any,
) -> None:
    """Write the gains at all times and let go of them; there is room."""
    cell = hubs[0, layout.views]
    while cell >= 0:
        slot = cells[cell, layout.gained]
        cells[cell, layout.gained] = -1
        for number in range(len(times) if slot >= 0 else 0):
            row = slot * len(times) + number
            if gains[row, 0] != 0:
                for which in range(1, layout.lists):
                    write_extreme(waves[6][row, which - 1], waves[7][which], out, state[ANSWERED])
                _write(times[number], cells[cell], gains, row, 0, aggregates, layout, out, state)
        cell = cells[cell, layout.next_view]


@njit(cache=True)
def _write(
    tick: Any,
    name: Any,
    table: Any,
    row: Any,
    start: Any,
    aggregates: Any,
    layout: Any,
    out: Any,
    state: Any,
) -> None:
    ticks, group, results, counted, high, low, extreme = out
    at = state[ANSWERED]
    state[ANSWERED] += 1
    ticks[at], results[at] = tick, table[row, start]
    group[at] = name[1 : 1 + layout.sides]
    for number in range(layout.aggregates):
        counted[at, number] = table[row, start + 1 + number]
        if aggregates[number, 2] >= 0:
            column = start + 1 + layout.aggregates + aggregates[number, 2] * layout.digits
            parts = shown(table, row, column, layout.digits, state[LOWEST], aggregates[number, 3])
            high[at, number], low[at, number], extreme[at, number] = parts
