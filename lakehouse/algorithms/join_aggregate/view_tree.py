"""View tree: aggregates of streams joined on different attributes, from views below each edge of their join tree.

    A(x) - B(x, y) - C(y)     per x what A's rows come to, per y what C's do; each (x, y) of B has both at hand

A row changes the views from its side up to the root. No result is ever listed, and a row that comes late meets the
views as they were. Sides that are joined in a circle have no tree: there a row meets the rows of the others, those
alike at once.
"""

from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.arrivals import NO_TICK, Arrivals, fitted
from lakehouse.algorithms.join_aggregate.contract import Int64s, Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.kernels import view_cells
from lakehouse.algorithms.join_aggregate.kernels.digits import places, with_wider_sums
from lakehouse.algorithms.join_aggregate.kernels.envelopes import copy_steps
from lakehouse.algorithms.join_aggregate.kernels.keys import put_in_slots
from lakehouse.algorithms.join_aggregate.kernels.view_answers import list_gains
from lakehouse.algorithms.join_aggregate.kernels.view_tree import spread
from lakehouse.algorithms.join_aggregate.kernels.view_walk import PARTS
from lakehouse.algorithms.join_aggregate.kernels.view_waves import MANY
from lakehouse.algorithms.join_aggregate.lanes import Lanes
from lakehouse.algorithms.join_aggregate.view_plan import Plan

_LEAST = 16
_ANSWERS = 1024
# Of cells, hubs, events and steps in a tree.
_TABLES = 1, 3, 4, 5
_SIZES = [view_cells.CELLS, view_cells.HUBS, view_cells.EVENTS, view_cells.STEPS]


class Views:
    """Tables of cells, hubs and events as the kernels want them, grown and rid of what is not used any more."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._reach, self._plan = shape, np.zeros(2, np.int64), Plan(shape)
        self.plan, self.lists, self.layout = self._plan.arrays, self._plan.lists, self._plan.layout(2)
        self.state = np.zeros(view_cells.FIELDS, np.int64)
        # The hub of the root is there from the start.
        self.state[view_cells.HUBS] = 1
        self.state[view_cells.NEWEST] = NO_TICK
        self.tree = self._tables(*[_LEAST] * len(_TABLES))
        self.tree[3][0, 0] = -1
        self._kept = self._sizes()
        self._link()

    def widen(self, rows: Rows) -> None:
        """Make the sums keep all digits that the values of rows need."""
        aggregates = (each for each in self._shape.aggregates if each.function == "sum")
        sums = np.array([(each.side, each.column, each.limbs) for each in aggregates], np.int64)
        lowest, highest = self._reach.tolist()
        places(rows.values, rows.side, sums.reshape(-1, 3), self._reach)
        below, above = lowest - int(self._reach[0]), int(self._reach[1]) - highest
        if below or above:
            old, first = self.layout, 1 + self.layout.aggregates
            self.layout = self._plan.layout(old.digits + below + above)
            self.state[view_cells.LOWEST] = self._reach[0]
            slots, cells, hub_slots, hubs, events, *steps = self.tree
            starts = old.ring + first, view_cells.CHANGE + first
            cells, events = (
                with_wider_sums(table, start, old.digits, below, above)
                for table, start in zip((cells, events), starts, strict=True)
            )
            self.tree = slots, cells, hub_slots, hubs, events, *steps

    def grow(self, events: int) -> None:
        """Make room for more of all that is half full, and for so many events; cells stay what they are."""
        used, old = self._sizes(), self.tree
        more = 0, self.layout.edges, events, int(self.state[view_cells.NEEDED])
        needed = (2 * sum(both) for both in zip(used, more, strict=True))
        rooms = (max(len(old[at]), _power(many)) for at, many in zip(_TABLES, needed, strict=True))
        self.tree = self._tables(*rooms)
        for at, many in (*zip(_TABLES, used, strict=True), (6, used[3])):
            self.tree[at][:many] = old[at][:many]
        for at, names, many in ((0, self.layout.links, used[0]), (2, self.layout.views, used[1])):
            put_in_slots(self.tree[at], self.tree[at + 1], names, many)

    def tidy(self) -> None:
        """Drop cells without rows that no event is of any more, now and then."""
        if all(now <= 2 * kept + _LEAST for now, kept in zip(self._sizes(), self._kept, strict=True)):
            return
        sizes = zip(_TABLES, self._sizes(), strict=True)
        cells, hubs, events, steps = (self.tree[at][:many] for at, many in sizes)
        events = events[events[:, view_cells.TIME] > self.state[view_cells.KEEP]]
        events = events[np.argsort(events[:, view_cells.TIME], kind="stable")]
        is_used = cells[:, self.layout.ring] != 0
        is_used[events[:, view_cells.CELL]] = True
        events[:, view_cells.CELL] = (np.cumsum(is_used) - 1)[events[:, view_cells.CELL]]
        cells, is_hub = cells[is_used], np.zeros(len(hubs), np.bool_)
        columns = [(cells[:, 0] >= 0, 0)]
        columns += [(cells[:, 0] == -1 - side, 1 + edge) for side, edge in np.argwhere(self.plan[2]).tolist()]
        is_hub[0] = True
        for own, column in columns:
            is_hub[cells[own, column]] = True
        for own, column in columns:
            cells[own, column] = (np.cumsum(is_hub) - 1)[cells[own, column]]
        kept, tops, keep = (cells, hubs[is_hub], events), self.layout.tops, self.state[view_cells.KEEP]
        new, heights = np.empty_like(steps), np.empty((len(steps), 3))
        lists = np.array([tops, tops + self.layout.lists])
        used = copy_steps(cells, lists, keep, steps, self.tree[6], new, heights)
        self._kept = [*map(len, kept), used]
        self.tree = self._tables(*(_power(2 * many + _LEAST) for many in self._kept))
        for at, table in zip((*_TABLES, 6), (*kept, new[:used], heights[:used]), strict=True):
            self.tree[at][: len(table)] = table
        self.state[_SIZES] = self._kept
        self._link()

    def _link(self) -> None:
        view_cells.link_all(self.plan[2], self.tree[:5], self.layout, self.state)

    def _sizes(self) -> list[int]:
        sizes: list[int] = self.state[_SIZES].tolist()
        return sizes

    def _tables(self, cells: int, hubs: int, events: int, steps: int) -> tuple[Any, ...]:
        """Return slots of cells, cells, slots of hubs, hubs, events, and steps with their heights."""
        layout = self.layout
        return (
            np.full(2 * cells, -1, np.int32),
            np.zeros((cells, layout.ring + layout.width), np.int64),
            np.full(2 * hubs, -1, np.int32),
            np.zeros((hubs, layout.met + 1), np.int64),
            np.zeros((events, view_cells.CHANGE + layout.width), np.int64),
            np.zeros((steps, 2), np.int64),
            np.zeros((steps, 3)),
        )


class ViewTree:
    """COUNT, SUM, MIN and MAX of a join of two to eight streams on any attributes.

    Cost: a row O(1) at the root, and elsewhere O(what meets it on the way up): for each side above it the distinct rows
    that agree with what is below, times the groups that these have. The same when it leaves. A late row costs that for
    each tick that it revises, and nothing else is computed again. A tick O(groups). Memory O(rows), and O(changes of
    views) in the last ``slack_us``. With extremes these meet *envelopes*, of as many steps as a view has rows that no
    row beats which leaves later: O(log rows) for values in no order, all of them where they only get worse.
    In a circle a row costs the partial results that it has of distinct rows, from side to side: the side of which the
    fewest agree with those joined so far comes next. Each of its rows is in an index for every set of attributes that
    it may be asked by: two or three, in a circle of three.
    Guarantee: exactly the definition; sums of doubles are rounded once to high and once more to low, whatever came and
    left.

    >>> from lakehouse.algorithms.join_aggregate.contract import Aggregate, Shape
    >>> shape = Shape(((0,), (0, 1), (1,)), (False,) * 3, (Aggregate("sum", 2, 0),))
    >>> views = ViewTree(shape, slack_us=20)
    >>> rows = Rows.of([0, 1, 2], [1, 2, 3], [11, 22, 33], [[7, 0], [7, 8], [0, 8]], values=[[0], [0], [2.5]])
    >>> answers = views.advance(rows, np.array([3, 11, 12]))
    >>> answers.tick_us.tolist(), answers.results.tolist(), answers.high.tolist()
    ([3, 11], [1, 1], [[2.5], [2.5]])
    >>> views.revise(Rows.of([0], [2], [12], [[7, 0]], values=[[0]]), np.array([3, 11, 12])).results.tolist()
    [1, 1, 1]

    Reference: Nikolic and Olteanu, F-IVM, 2018. Differs from it: rows leave, so deltas are at times, and views keep
    their latest changes for rows that come late; sides in a circle have one view, of all of them. Extremes have no
    inverse: since a row says when it leaves, they are kept as functions of time, to which rows only ever add.
    """

    def __init__(self, shape: Shape, slack_us: int = 0) -> None:
        self.shape, self._slack = shape, slack_us
        self._views, self._arrivals = Views(shape), Arrivals(shape)
        self._live: Lanes[Rows] = Lanes(lambda rows: rows.leave_us, Rows.joined)

    def advance(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in and return the answers at the ticks; cost as above.

        Raises ValueError when rows lack columns or are of sides that the shape does not have, or ticks do not ascend.
        Raises OverflowError: a count goes beyond 2^63 - 1; the state is not to be used any more.
        """
        first = self._arrivals.tick_us + 1
        ticks, entering = self._arrivals.take(rows, ticks_us)
        if not len(ticks):
            return Partials.none(self.shape)
        last = self._arrivals.tick_us
        stays = entering.leave_us >= last
        self._live.push(entering[stays])
        leaving = Rows.joined([*self._live.pop(last), entering[~stays]])
        times = np.concatenate([np.maximum(entering.enter_us, first), leaving.leave_us + 1, ticks])
        which = np.arange(len(times))
        which[len(entering) + len(leaving) :] = -1
        sign = np.where(which < len(entering), 1, -1)
        order = np.lexsort((which < 0, times))
        one = np.ones(len(times), np.int64)
        items = np.column_stack([which[order], sign[order], np.arange(len(times)), one, one])
        return self._spread(Rows.joined([entering, leaving]), items, times[order])

    def revise(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in that enter up to the last tick, as if they had not been late; return what answers gain.

        Ticks ascend, and are all at which such a row is in its window, back to the slack before the last one. Raises
        OverflowError: a count goes beyond 2^63 - 1; the state is not to be used any more.
        """
        rows, ticks = fitted(self.shape, rows), np.ascontiguousarray(ticks_us, np.int64)
        stays = rows.leave_us >= self._arrivals.tick_us
        self._live.push(rows[stays])
        first = np.searchsorted(ticks, rows.enter_us)
        many = np.searchsorted(ticks, rows.leave_us, side="right") - first
        some = np.flatnonzero(many > 0)
        items = np.column_stack([some, np.ones_like(some), first[some], many[some], stays[some]])
        return self._spread(rows, items.astype(np.int64), ticks, revises=True)

    def _spread(self, rows: Rows, items: Int64s, times: Int64s, revises: bool = False) -> Partials:
        views, state = self._views, self._views.state
        # By what was kept until now: ticks that are answered now may be before what is kept then.
        views.tidy()
        state[view_cells.KEEP] = self._arrivals.tick_us - self._slack
        views.widen(rows)
        state[[view_cells.ITEM, view_cells.ANSWERED, view_cells.GAINED]] = 0
        state[view_cells.LEVEL], state[view_cells.REVISES] = -1, revises
        # The loops are compiled for columns that lie in one piece and may be written to.
        names = "side", "keys", "group", "values", "weight", "leave_us"
        columns = tuple(np.require(getattr(rows, name), requirements=["C", "W"]) for name in names)
        pieces, gains, waves = self._run(items, times, columns)
        if revises:
            out = self._room_for_answers(len(gains))
            of_views = views.plan[6], views.tree[1], views.tree[3]
            list_gains(times, *of_views, waves, gains, views.layout, out, state)
            pieces.append(Partials(*out)[: state[view_cells.ANSWERED]])
        whole = Partials.joined([Partials.none(self.shape), *pieces])
        return whole[np.lexsort((*whole.group.T[::-1], whole.tick_us))]

    def _run(
        self, items: Int64s, times: Int64s, rows: tuple[Any, ...]
    ) -> tuple[list[Partials], Int64s, tuple[Any, ...]]:
        """Return answers at ticks, and what the groups of the root gain at each time, extremes among the waves."""
        views, state = self._views, self._views.state
        most = int(items[:, MANY].max(initial=1))
        work, gains = self._work(most), np.zeros((0, views.layout.width), np.int64)
        pieces, out, lists = list[Partials](), self._room_for_answers(0), views.layout.lists
        spans, tops = np.zeros((_LEAST + lists, 2), np.int64), np.zeros((_LEAST + lists, 3))
        brings, of = views.lists
        bounds, best = np.zeros((self.shape.sides, lists + 1), np.int64), np.zeros((0, max(lists - 1, 0), 3))
        while True:
            waves = spans, tops, bounds, *views.tree[5:], brings, best, of
            known = views.plan, views.tree[:5], views.layout
            spread(items, times, rows, *known, work, waves, gains, out, state)
            match int(state[view_cells.LACK]):
                case view_cells.NOTHING:
                    break
                case view_cells.ROOM:
                    views.grow(most)
                case view_cells.WAVES:
                    spans, tops = (np.concatenate([each, each]) for each in (spans, tops))
                case view_cells.GAINS:
                    more = len(gains) or len(times)
                    gains = np.concatenate([gains, np.zeros((more, views.layout.width), np.int64)])
                    best = np.concatenate([best, np.full((more, *best.shape[1:]), np.nan)])
                case view_cells.OUT:
                    pieces.append(Partials(*out)[: state[view_cells.ANSWERED]])
                    state[view_cells.ANSWERED] = 0
                    out = self._room_for_answers(int(state[view_cells.ROOTS]))
        pieces.append(Partials(*out)[: state[view_cells.ANSWERED]])
        state[view_cells.ANSWERED] = 0
        return pieces, gains, waves

    def _work(self, most: int) -> tuple[Any, ...]:
        """Return deltas by step and time, a ring for each time, the path, and names of a cell and a hub."""
        sides, width = self.shape.sides, self._views.layout.width
        return (
            np.zeros((sides * most, width), np.int64),
            np.zeros((most, width), np.int64),
            np.zeros((sides, PARTS + sides + self.shape.width), np.int64),
            np.zeros(self._views.layout.edges + 2, np.int64),
            np.zeros(1 + self.shape.width, np.int64),
        )

    def _room_for_answers(self, least: int) -> tuple[Any, ...]:
        many, wide = max(_ANSWERS, least), len(self.shape.aggregates)
        times, counts = np.empty((2, many), np.int64), np.empty((many, wide), np.int64)
        high, low, extreme = np.zeros((many, wide)), np.zeros((many, wide)), np.full((many, wide), np.nan)
        return times[0], np.empty((many, self.shape.sides), np.int64), times[1], counts, high, low, extreme


def _power(least: int) -> int:
    return 1 << max(4, (least - 1).bit_length())
