"""Totals by key and by group, in tables that compiled loops change and this module grows."""

from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Int64s, Rows, Shape
from lakehouse.algorithms.join_aggregate.kernels import factorised as kernels
from lakehouse.algorithms.join_aggregate.kernels.digits import places, with_wider_sums
from lakehouse.algorithms.join_aggregate.kernels.extremes import FREE, NODE, STAIR, TAKEN, copy_heaps
from lakehouse.algorithms.join_aggregate.kernels.factorised import GROUPS, LACK, LOWEST, NEEDED, STAMP
from lakehouse.algorithms.join_aggregate.kernels.keys import FREE as FREE_STRIPS
from lakehouse.algorithms.join_aggregate.kernels.keys import LINE, Layout, put_in_slots, sweep

FUNCTIONS = {"count": kernels.COUNT, "sum": kernels.SUM, "min": kernels.MIN, "max": kernels.MAX}
LEAST = 64


class KeyTotals:
    """Tables of one method: ``plan``, ``layout``, ``keys``, ``groups``, ``pools`` and ``state`` as kernels want them.

    Memory: 16 bytes a key, and 8 for each column of its strip (``Layout``); up to twice that, as tables grow by
    doubling, and up to four times where keys have come and gone.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape, self._is_grouped = shape, any(shape.grouped)
        self._reach = np.zeros(2, np.int64)
        self.plan = _plan(shape)
        # The names of extras have four columns, and all names one that tells which they are of.
        attributes = len(self.plan[2])
        self._names = max(4, 1 + attributes) if self._is_grouped else attributes
        self.layout, strip_width, group_width = self._columns(2)
        many = LEAST if self._is_grouped else 1
        self.keys = _slots(LEAST), _table(LEAST, strip_width), *np.zeros((2, LEAST), np.int32)
        self.groups = _slots(many), _table(many, group_width)
        self.groups[1][:, self.layout.roots :] = -1
        entries = LEAST if self.layout.extremes else 0
        self.pools = _pool(STAIR, entries), _pool(NODE, entries), np.zeros((2, 2), np.int64)
        self.state = np.zeros(kernels.FIELDS, np.int64)
        self.state[STAMP], self.state[GROUPS] = 1, 0 if self._is_grouped else 1
        self._sorted = int(self.state[GROUPS])

    def _columns(self, digits: int) -> tuple[Layout, int, int]:
        """Return the layout for sums of so many digits, and the width of strips and groups."""
        functions = [each.function for each in self._shape.aggregates]
        sides, sums = self._shape.sides, functions.count("sum") * digits
        extremes = functions.count("min") + functions.count("max")
        block = sides + len(functions) + sums
        now = self._names + 1
        ends = now + 2 * block
        parts = ends + 2 * extremes
        layout = Layout(
            sides=sides,
            is_grouped=self._is_grouped,
            stamp=now - 1,
            now=now,
            then=now + block,
            sums=sides + len(functions),
            digits=digits,
            ends=ends,
            extremes=extremes,
            parts=parts,
            heads=parts + sides,
            following=parts + 2 * sides,
            owner=parts + 2 * sides + 1,
            results=sides,
            totals=sides + 1,
            roots=sides + 1 + len(functions) + sums,
        )
        width = parts + 2 * sides + 2 if self._is_grouped else parts
        return layout, width, layout.roots + extremes

    def widen(self, rows: Rows) -> None:
        """Make the sums keep all places that the values of rows need."""
        sums = np.ascontiguousarray(self.plan[0][self.plan[0][:, 0] == kernels.SUM][:, [1, 2, 4]])
        lowest, highest = self._reach.tolist()
        places(rows.values, rows.side, sums, self._reach)
        below, above = lowest - int(self._reach[0]), int(self._reach[1]) - highest
        if below or above:
            self._widen(below, above)
            self.state[LOWEST] = self._reach[0]

    def _widen(self, below: int, above: int) -> None:
        old = self.layout
        self.layout, strip_width, group_width = self._columns(old.digits + below + above)
        size, many = old.then - old.now, len(self.plan[0])
        slots, strips, free, changed = self.keys
        blocks = [
            with_wider_sums(strips[:, start : start + size], old.sums, old.digits, below, above)
            for start in (old.now, old.then)
        ]
        whole = np.concatenate([strips[:, : old.now], *blocks, strips[:, old.ends :]], axis=1)
        self.keys = slots, _table_of(whole[:, :strip_width]), free, changed
        group_slots, groups = self.groups
        totals = with_wider_sums(groups[:, : old.roots], old.totals + many, old.digits, below, above)
        whole = np.concatenate([totals, groups[:, old.roots :]], axis=1)
        self.groups = group_slots, _table_of(whole[:, :group_width])

    def make_room(self) -> None:
        """Make room for what the kernels lacked. Raises OverflowError when it was a count."""
        match int(self.state[LACK]):
            case kernels.STRIPS:
                self._make_room_for_strips()
            case kernels.GROUP_NAMES:
                self._sorted = -1
                self._keep_groups(np.flatnonzero(self._group_column(self.layout.results) > 0))
            case kernels.STAIRS:
                self._grow_stairs()
            case kernels.NODES:
                self._make_room_for_nodes()
            case kernels.BEYOND:
                raise OverflowError("expected counts of results up to 2^63 - 1, found one beyond")

    def _make_room_for_strips(self) -> None:
        stamp, many = int(self.state[STAMP]), len(self.keys[1])
        sweep(self.keys, self.layout, self._names, self.state, stamp)
        if 2 * self.state[FREE_STRIPS] < many:
            _, strips, free, changed = self.keys
            lists = (_longer(each, 2 * many) for each in (free, changed))
            self.keys = _slots(2 * many), _table_of(strips, 2 * many), *lists
            sweep(self.keys, self.layout, self._names, self.state, stamp)

    def _group_column(self, column: int) -> Int64s:
        return self.groups[1][: self.state[GROUPS], column]

    def _keep_groups(self, kept: Int64s) -> None:
        """Number these groups in this order, and drop all others; there is room for as many more as are needed."""
        table, count = self.groups[1], len(kept)
        many = max(len(table), _power(2 * (count + int(self.state[NEEDED]))))
        slots, rows = _slots(many), _table_of(table[kept], many)
        rows[count:, self.layout.roots : self.layout.roots + self.layout.extremes] = -1
        put_in_slots(slots, rows, self.layout.sides, count)
        self.groups, self.state[GROUPS] = (slots, rows), count

    def sort_groups(self) -> bool:
        """Number groups by name and drop those without results; tell if they were in order all along."""
        if self.state[GROUPS] == self._sorted:
            return True
        order = np.lexsort([self._group_column(side) for side in reversed(range(self._shape.sides))])
        self.state[NEEDED] = 0
        self._keep_groups(order[self._group_column(self.layout.results)[order] > 0])
        self._sorted = int(self.state[GROUPS])
        return False

    def _grow_stairs(self) -> None:
        stairs, nodes, states = self.pools
        more = _pool(STAIR, 2 * len(stairs))
        more[: len(stairs)] = stairs
        # The new ones are free, and lead to those that were.
        more["next"][-1] = states[0, FREE]
        states[0, FREE] = len(stairs)
        self.pools = more, nodes, states

    def _make_room_for_nodes(self) -> None:
        stairs, nodes, states = self.pools
        layout, needed = self.layout, int(self.state[NEEDED])
        roots = layout.roots, layout.roots + layout.extremes
        kept = _pool(NODE, len(nodes))
        copy_heaps(nodes, kept, states[1], self.groups[1], roots, self.keys[1], layout.stamp)
        if (least := _power(2 * (int(states[1, TAKEN]) + needed))) > len(nodes):
            nodes, kept = kept, _pool(NODE, least)
            copy_heaps(nodes, kept, states[1], self.groups[1], roots, self.keys[1], layout.stamp)
        self.pools = stairs, kept, states


def _plan(shape: Shape) -> tuple[Any, Any, Any]:
    """Return per aggregate its function, side, column and number among those of its kind; the rest as kernels ask."""
    seen = {"sum": 0, "extreme": 0, "count": 0}
    aggregates = np.zeros((len(shape.aggregates), 5), np.int64)
    for number, each in enumerate(shape.aggregates):
        kind = "extreme" if each.is_extreme else each.function
        aggregates[number] = FUNCTIONS[each.function], each.side, each.column, seen[kind], each.limbs
        seen[kind] += 1
    return aggregates, np.array(shape.grouped), np.array(sorted(set(shape.attributes[0])), np.int64)


def _power(least: int) -> int:
    return 1 << max(6, (least - 1).bit_length())


def _slots(many: int) -> Any:
    return np.full(2 * many, -1, np.int32)


def _table(many: int, width: int) -> Int64s:
    """Return a table of zeros; rows that fit into a line of the cache do not lie across two."""
    width = LINE if LINE // 2 < width <= LINE else width
    memory = np.zeros(many * width + LINE, np.int64)
    start = -memory.ctypes.data // memory.itemsize % LINE
    return memory[start : start + many * width].reshape(many, width)


def _table_of(rows: Int64s, many: int = 0) -> Int64s:
    """Return a table that begins with these rows."""
    table = _table(max(many, len(rows)), rows.shape[1])
    table[: len(rows), : rows.shape[1]] = rows
    return table


def _longer(array: Any, length: int) -> Any:
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array
    return longer


def _pool(kind: Any, size: int) -> Any:
    """Return a pool of which every entry is free."""
    pool = np.zeros(size, kind)
    pool["next" if "next" in kind.names else "sibling"] = np.arange(1, size + 1)
    return pool
