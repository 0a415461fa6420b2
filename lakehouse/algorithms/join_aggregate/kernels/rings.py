"""Rings of a view tree in rows of tables: results, per aggregate how many have a value, and sums as digits.

n rows that count c and sum s, joined with n' that count c' and sum s', are (n n', c n' + c' n, s n' + s' n).
"""

from typing import Any, NamedTuple

from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.digits import add_times, product

BEYOND = "expected counts of results up to 2^63 - 1, found one beyond"


class Layout(NamedTuple):
    """Columns of cells and of hubs, and of a ring: how many aggregates, and how many sums of how many digits.

    ``core``: the root's side, or all sides of the circle, as bits. ``own``: the part of the group of a cell of rows,
    behind ``edges`` hubs. ``links``: the cells that follow this one at these; ``next_view``: at the hub of a view.
    ``lists``: how many begin from ``tops`` on: none where nothing is least or greatest. ``met``: how many cells of rows
    a hub has.
    """

    sides: int
    core: int
    edges: int
    own: int
    links: int
    next_view: int
    gained: int
    event: int
    tops: int
    lists: int
    ring: int
    views: int
    rows: int
    met: int
    aggregates: int
    sums: int
    digits: int
    width: int


@njit(cache=True)
def multiplied(deltas: Any, at: Any, into: Any, table: Any, row: Any, start: Any, layout: Any) -> Any:
    """Write a product of rings; tell if it is not zero."""
    for column in range(layout.width):
        deltas[into, column] = 0
    one, other = deltas[at, 0], table[row, start]
    if one == 0 or other == 0:
        return False
    if product(abs(one), abs(other)) < 0:
        raise OverflowError(BEYOND)
    deltas[into, 0] = one * other
    for column in range(1, 1 + layout.aggregates):
        deltas[into, column] = deltas[at, column] * other + table[row, start + column] * one
    for number in range(layout.sums):
        column = 1 + layout.aggregates + number * layout.digits
        if is_some(deltas, at, column, layout.digits):
            add_times(deltas, into, column, deltas, at, column, layout.digits, other)
        if is_some(table, row, start + column, layout.digits):
            add_times(deltas, into, column, table, row, start + column, layout.digits, one)
    return True


@njit(cache=True)
def copy_ring(table: Any, into: Any, start: Any, source: Any, row: Any, begin: Any, layout: Any) -> None:
    """Write a ring over another."""
    for column in range(layout.width):
        table[into, start + column] = source[row, begin + column]


@njit(cache=True)
def is_some(table: Any, row: Any, start: Any, many: Any) -> Any:
    """Tell if any of so many columns is not 0."""
    is_any = False
    for column in range(start, start + many):
        is_any |= table[row, column] != 0
    return is_any


@njit(cache=True)
def add_ring(
    table: Any, into: Any, start: Any, source: Any, row: Any, begin: Any, sign: Any, layout: Any
) -> None:
    """Add a ring to another, or take it away where the sign is -1."""
    for column in range(1 + layout.aggregates):
        table[into, start + column] += sign * source[row, begin + column]
    for column in range(1 + layout.aggregates, layout.width, layout.digits):
        add_times(table, into, start + column, source, row, begin + column, layout.digits, sign)
