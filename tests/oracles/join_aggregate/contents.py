"""Contents of methods as laws and benchmarks ask for them: rows held, memory used, and whether indexes are right.

Bytes are those in use: room that waits for growth is up to half of all, which would hide what a method needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Int64s, JoinAggregate, Rows
from lakehouse.algorithms.join_aggregate.factorised import Factorised
from lakehouse.algorithms.join_aggregate.incremental import Incremental
from lakehouse.algorithms.join_aggregate.kernels import factorised as places
from lakehouse.algorithms.join_aggregate.kernels.credit import HELD
from lakehouse.algorithms.join_aggregate.kernels.extremes import TAKEN
from lakehouse.algorithms.join_aggregate.kernels.keys import FREE, USED
from lakehouse.algorithms.join_aggregate.kernels.total import GROUPS
from lakehouse.algorithms.join_aggregate.key_totals import KeyTotals
from lakehouse.algorithms.join_aggregate.lanes import Lanes
from lakehouse.algorithms.join_aggregate.multiway import Credits, Multiway
from lakehouse.algorithms.join_aggregate.totals import Totals
from lakehouse.algorithms.join_aggregate.view_tree import _TABLES, Views, ViewTree
from lakehouse.algorithms.join_aggregate.windows import WindowJoin, Windows
from tests.oracles.join_aggregate.as_paper import add_up
from tests.oracles.join_aggregate.materialised import Materialised


def rows_held(method: JoinAggregate) -> Rows:
    """Return the rows in their windows at the last tick, or waiting; sorted by enter.

    Of rows in their windows ``Factorised`` keeps neither times of entry nor numbers: those are the last tick, and -1.
    """
    assert isinstance(method, WindowJoin | Factorised | ViewTree)
    if isinstance(method, WindowJoin):
        live = [_rows_of_windows(method._windows)]
    elif isinstance(method, Factorised):
        live = [_rows_of_keys(method, block) for block in _blocks(method._live)]
    else:
        live = _blocks(method._live)
    both = Rows.joined([Rows.none(method.shape), *_blocks(method._arrivals.waiting), *live])
    rest = (both.weight, *both.values.view(np.int64).T, *both.keys.T, both.group, both.leave_us)
    return both[np.lexsort((*rest, both.side, both.row, both.enter_us))]


def bytes_used(method: JoinAggregate) -> int:
    """Return the bytes that a method uses of its arrays."""
    assert isinstance(method, WindowJoin | Factorised | ViewTree)
    row = 1 + 8 * (5 + method.shape.width + method.shape.columns)
    waiting = _held(method._arrivals.waiting) * row
    if isinstance(method, WindowJoin):
        windows = method._windows
        return waiting + _in_use(windows._slots, len(windows.entries), len(windows)) + _own_bytes(method)
    if isinstance(method, ViewTree):
        return waiting + _of_views(method._views) + _held(method._live) * row
    live = 8 * (places.VALUES + method.shape.columns)
    return waiting + _of_keys(method._totals) + _held(method._live) * live


def check(method: WindowJoin) -> None:
    """Raise AssertionError if an index of the windows is not what their rows make it, or totals are not the credits."""
    _check_windows(method._windows)
    if isinstance(method, Multiway):
        kept, totals = method._totals.answer(0), method._totals
        add_up(method._windows.arrays, totals.aggregates, totals.arrays, method._credits.arrays)
        anew = totals.answer(0)
        for field in fields(kept):
            one, other = getattr(kept, field.name), getattr(anew, field.name)
            assert np.array_equal(one, other, equal_nan=True), f"{field.name} that credits do not add up to"


def _blocks(lanes: Lanes[Any]) -> list[Any]:
    return [piece.rows for lane in lanes._lanes for piece in lane]


def _held(lanes: Lanes[Any]) -> int:
    """Return how many rows memory is held for."""
    return sum(piece.size for lane in lanes._lanes for piece in lane)


def _rows_of_keys(method: Factorised, live: Int64s) -> Rows:
    """Return rows in their windows, whose side, keys and group are where their strip is."""
    totals, shape = method._totals, method.shape
    strips, layout, is_grouped = totals.keys[1], totals.layout, any(shape.grouped)
    strip, side = live[:, places.PLACE] >> places.SIDE_BITS, live[:, places.PLACE] & places.SIDE_MASK
    owner = strips[strip, layout.owner] if is_grouped else strip
    keys, group = np.zeros((len(live), shape.width), np.int64), np.zeros(len(live), np.int64)
    for column, attribute in enumerate(totals.plan[2]):
        keys[:, attribute] = strips[owner, is_grouped + column]
    if is_grouped:
        group = np.where(totals.plan[1][side], strips[strip, layout.parts + side], 0)
    values = live[:, places.VALUES :].view(np.float64)
    leave, weight = live[:, places.LEAVE], live[:, places.WEIGHT]
    enter, row = np.full(len(live), method._arrivals.tick_us), np.full(len(live), -1)
    return Rows(side.astype(np.int8), enter, leave, keys, group, values, row, weight)


def _rows_of_windows(windows: Windows) -> Rows:
    """Return the rows in the windows, in the order in which they entered."""
    slots = windows.live()
    entries = windows.entries[slots]
    return Rows(
        side=entries["side"].astype(np.int8),
        enter_us=entries["enter"].copy(),
        leave_us=entries["leave"].copy(),
        keys=windows._slots[1][slots],
        group=entries["group"].copy(),
        values=windows.arrays[2][slots],
        row=entries["row"].copy(),
        weight=np.ones(len(slots), np.int64),
    )


def _own_bytes(method: WindowJoin) -> int:
    match method:
        case Materialised():
            return _in_use(method._kept, len(method._kept[1]), method._many)
        case Incremental():
            return _of_totals(method._totals) + method._results.nbytes
        case Multiway():
            return _of_totals(method._totals) + _of_credits(method._credits) + method._results.nbytes
    raise TypeError(type(method))


def _of_totals(totals: Totals) -> int:
    return _in_use(totals._groups, len(totals._groups[0]), int(totals._state[GROUPS]))


def _of_credits(credits: Credits) -> int:
    return _in_use(credits._items, len(credits._items[0]), int(credits._state[HELD]))


def _of_keys(totals: KeyTotals) -> int:
    """Return the bytes of all tables that keys, groups and extremes use; hash tables are whole."""
    (_, strips, free, changed), (_, groups), (stairs, nodes, ends) = totals.keys, totals.groups, totals.pools
    named = int(totals.state[USED] - totals.state[FREE])
    used = _in_use((strips, free, changed), len(strips), named)
    used += _in_use((groups,), len(groups), int(totals.state[places.GROUPS]))
    for pool, taken in zip((stairs, nodes), ends[:, TAKEN].tolist(), strict=True):
        used += _in_use((pool,), max(len(pool), 1), taken)
    whole: int = totals.keys[0].nbytes + totals.groups[0].nbytes + ends.nbytes + totals.state.nbytes
    return used + whole


def _of_views(views: Views) -> int:
    """Return the bytes of all tables that are used; hash tables are whole."""
    sizes = views._sizes()
    used = sum(views.tree[at][:many].nbytes for at, many in zip(_TABLES, sizes, strict=True))
    return int(views.tree[0].nbytes + views.tree[2].nbytes + used + 24 * sizes[3])


def _in_use(parts: Iterable[Any], room: int, used: int) -> int:
    """Return the bytes of arrays that have ``room`` on one axis, of which so many places are used; others are whole."""
    return sum(part.nbytes * used // room if room in part.shape else part.nbytes for part in parts)


def _check_windows(windows: Windows) -> None:
    """Raise AssertionError if a chain is broken, or a live row is not in every index of its side once."""
    entries, _, _, links, heads, counts = windows._slots[:6]
    live = windows.live().tolist()
    for index, (side, place) in enumerate(np.argwhere(windows.plan.own >= 0).tolist()):
        chained = list[int]()
        for head in heads[index].tolist():
            before, slot = -1, head
            while slot >= 0:
                assert links[slot, place, 1] == before, "a chain whose ways back and forth differ"
                assert before < 0 or entries["number"][before] > entries["number"][slot], "not newest first"
                chained.append(slot)
                before, slot = slot, int(links[slot, place, 0])
        assert sorted(chained) == sorted(slot for slot in live if entries["side"][slot] == side)
        assert counts[index].sum() == len(chained), "live rows that are miscounted"
