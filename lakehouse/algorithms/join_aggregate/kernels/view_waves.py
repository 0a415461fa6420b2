"""Compiled waves of a view tree: what rows add to the lists of cells, step by step of their walk (``view_tree.py``).

waves ...... spans and tops of pieces; by step and list where they begin; steps and their heights; by kind of step,
edge and list if the cell met brings its values; what groups gain; list, side, column, limbs, turn
"""

from typing import Any

from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.envelopes import raise_by, restricted
from lakehouse.algorithms.join_aggregate.kernels.extremes import limb_of
from lakehouse.algorithms.join_aggregate.kernels.total import MAX, improve
from lakehouse.algorithms.join_aggregate.kernels.view_cells import NEWEST, STEPS

# Columns of items: a row or -1 for a tick, 1 or -1, its first time, how many, and if it stays after the last of them.
ROW, SIGN, FIRST, MANY, STAYS = range(5)


@njit(cache=True)
def write_waves(item: Any, times: Any, rows: Any, waves: Any, layout: Any, state: Any) -> None:
    """Write a row's waves: of all rows one, of an extreme one where the row has a value."""
    spans, tops, bounds, _, _, _, _, lists = waves
    own, row, used = rows[0][item[ROW]], item[ROW], 0
    state[NEWEST] = max(state[NEWEST], times[item[FIRST]])
    for which in range(layout.lists):
        bounds[0, which] = used
        side, column, limbs, turn = lists[which, 0], lists[which, 1], lists[which, 2], lists[which, 3]
        is_there = which == 0 or (side == own and rows[3][row, column] == rows[3][row, column])
        if is_there and item[SIGN] > 0:
            spans[used, 0], spans[used, 1] = times[item[FIRST]], rows[5][row] + 1
            for limb in range(3):
                tops[used, limb] = turn * limb_of(rows[3], row, column, limbs, limb) if which else 0.0
            used += 1
    bounds[0, layout.lists] = used


@njit(cache=True)
def raise_lists(level: Any, cell: Any, cells: Any, waves: Any, layout: Any, state: Any) -> None:
    """Raise the lists of a cell by the waves of a step; there is room."""
    spans, tops, bounds, steps, heights, _, _, _ = waves
    for which in range(layout.lists):
        for piece in range(bounds[level, which], bounds[level, which + 1]):
            is_newest, column = spans[piece, 0] >= state[NEWEST], layout.tops + which
            state[STEPS] = raise_by(
                cells, cell, column, steps, heights, spans, tops, piece, is_newest, state[STEPS]
            )


@njit(cache=True)
def meet(level: Any, kind: Any, edge: Any, cell: Any, cells: Any, waves: Any, layout: Any) -> Any:
    """Write the waves of the next step, those of this one joined with a cell; tell if there was room."""
    spans, tops, bounds, steps, heights, brings, _, _ = waves
    into = bounds[level, layout.lists]
    for which in range(layout.lists):
        is_met = brings[kind, edge, which]
        of, first = (0, layout.tops + which) if is_met else (which, layout.tops)
        begin, end = bounds[level, of], bounds[level, of + 1]
        bounds[level + 1, which] = into
        into = restricted(cells[cell, first], steps, heights, spans, tops, begin, end, into, is_met)
        if into < 0:
            return False
    bounds[level + 1, layout.lists] = into
    return True


@njit(cache=True)
def gain(level: Any, first: Any, many: Any, times: Any, slot: Any, waves: Any, layout: Any) -> None:
    """Let a group gain the waves of a step at some times."""
    spans, tops, bounds, _, _, _, best, _ = waves
    for which in range(1, layout.lists):
        for piece in range(bounds[level, which], bounds[level, which + 1]):
            for at in range(first, first + many):
                if spans[piece, 0] <= times[at] < spans[piece, 1]:
                    row = slot * len(times) + at
                    improve(MAX, best, row, which - 1, tops[piece, 0], tops[piece, 1], tops[piece, 2])


@njit(cache=True)
def write_extreme(value: Any, of: Any, out: Any, at: Any) -> None:
    """Write an extreme, if there is one, into its columns of answers."""
    number, turn = of[4], of[3]
    if value[0] != value[0]:
        return
    out[6][at, number], out[4][at, number], out[5][at, number] = (
        turn * value[0],
        turn * value[1],
        turn * value[2],
    )
