"""Compiled index of keys: open addressing from a key's values to its strip, and the strips themselves.

A strip is a row of numbers: all that is known of a key. It has a place for each side, for the rows of that side that
are in one part of a group. A key has one strip of its own, which all sides use that are not grouped or have one part
only; every further part of a side has an extra strip, found by (key's strip, side, part) and chained to the key.

    key's strip | side 0: part 7 | side 1: part 3 |
         extras | side 0: part 8 |                |      results of the key: 2 x 1 groups

What is known is there twice: ``now``, and as of ``then``, the last tick, which is what is in the totals of the groups.
Strips whose rows have all left stay, for rows that may come, until the index is full (``sweep``).

``0 * len(a)`` at the end of what is put in line is no idle sum: compiled code counts references to an array between its
first and its last use, and leaves it out only where that last use is not in a branch. It saves half the time of a row.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

# Of `state`: strips ever used, and how many of those are free again.
USED, FREE = range(2)
NONE, UNCHAINED = -1, -2
# So many numbers are a line of the processor's cache.
LINE = 8


class Layout(NamedTuple):
    """Columns of strips and of groups.

    A strip: its name, the ``stamp`` of the tick at which its key changed last, two blocks (``now``, ``then``), and for
    each extreme the ``ends`` of its stairs. If anything is grouped: per side the ``parts`` and the ``heads`` of the
    chains of extras; which extra is ``following`` it in its chain, and its ``owner``, the key's strip. A block: rows
    of each side, values counted per aggregate, from ``sums`` on the ``digits`` of each sum.
    A group: its name, ``results``, as in a block counted and sums (``totals``), and the ``roots`` of its heaps.
    """

    sides: int
    is_grouped: bool
    stamp: int
    now: int
    then: int
    sums: int
    digits: int
    ends: int
    extremes: int
    parts: int
    heads: int
    following: int
    owner: int
    results: int
    totals: int
    roots: int


@njit(cache=True, inline="always")
def slot_of(wanted: Any, many: Any) -> Any:
    """Return the slot of so many, a power of two, at which the search for a name begins."""
    mixed = np.uint64(0)
    for column in range(len(wanted)):
        mixed = (mixed ^ np.uint64(wanted[column])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64((mixed * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(32)) & (many - 1)


@njit(cache=True, inline="always")
def find(slots: Any, table: Any, wanted: Any) -> Any:
    """Return the slot of a name, and the row of the table that begins with it; -1 where there is none."""
    slot = slot_of(wanted, len(slots))
    row = np.int64(slots[slot])
    while row >= 0:
        column = 0
        while column < len(wanted) and table[row, column] == wanted[column]:
            column += 1
        if column == len(wanted):
            break
        slot = (slot + 1) & (len(slots) - 1)
        row = np.int64(slots[slot])
    return slot, row + 0 * (len(slots) + len(table) + len(wanted))


@njit(cache=True)
def fetch(strips: Any, wanted: Any) -> Any:
    """Read strips, all at once, so that they are in the processor's cache when they are worked on one by one.

    What is returned says nothing; it has to be kept somewhere, or the reads are left out.
    """
    seen = np.int64(0)
    for place in range(len(wanted)):
        for column in range(0, strips.shape[1], LINE):
            seen += strips[max(wanted[place], 0), column]
    return seen


@njit(cache=True)
def fetch_keys(
    slots: Any, strips: Any, key: Any, order: Any, attributes: Any, wanted: Any, first: Any
) -> Any:
    """Do so with the strips that the search for keys of some rows will most likely begin at."""
    likely = np.empty(len(order), np.int64)
    for place in range(len(order)):
        for column in range(len(attributes)):
            wanted[first + column] = key[order[place], attributes[column]]
        likely[place] = slot_of(wanted, len(slots))
    for place in range(len(order)):
        likely[place] = slots[likely[place]]
    return fetch(strips, likely)


@njit(cache=True)
def put_in_slots(slots: Any, table: Any, names: Any, many: Any) -> None:
    """Let the first rows of a table, whose names are so long and all different, be found."""
    slots[:] = NONE
    for row in range(many):
        slot, _ = find(slots, table, table[row, :names])
        slots[slot] = row


@njit(cache=True, inline="always")
def has_room(strips: Any, state: Any, needed: Any) -> Any:
    """Tell if so many strips can be new."""
    return len(strips) - state[USED] + state[FREE] >= needed


@njit(cache=True)
def new_strip(keys: Any, layout: Any, state: Any, slot: Any, wanted: Any, owner: Any) -> Any:
    """Return a strip for a name that is not known, an extra where it has an owner; there is room."""
    slots, strips, free, _ = keys
    if state[FREE] > 0:
        state[FREE] -= 1
        strip = np.int64(free[state[FREE]])
    else:
        strip = state[USED]
        state[USED] += 1
    slots[slot] = strip
    strips[strip] = 0
    strips[strip, : len(wanted)] = wanted
    strips[strip, layout.ends : layout.ends + 2 * layout.extremes] = NONE
    if layout.is_grouped:
        strips[strip, layout.heads : layout.heads + layout.sides] = NONE
        strips[strip, layout.following] = UNCHAINED
        strips[strip, layout.owner] = strip if owner < 0 else owner
    return strip


@njit(cache=True)
def extra_strip(keys: Any, layout: Any, state: Any, wanted: Any, owner: Any, side: Any, part: Any) -> Any:
    """Return the extra strip of a part of a side of a key, which is new where there was none."""
    slots, strips, _, _ = keys
    wanted[:] = 0
    wanted[0], wanted[1], wanted[2], wanted[3] = 1, owner, side, part
    slot, strip = find(slots, strips, wanted)
    if strip < 0:
        strip = new_strip(keys, layout, state, slot, wanted, owner)
        strips[strip, layout.parts + side] = part
    if strips[strip, layout.following] == UNCHAINED:
        _chain(strips, layout, owner, side, strip)
    return strip


@njit(cache=True, inline="always")
def _chain(strips: Any, layout: Any, owner: Any, side: Any, strip: Any) -> None:
    strips[strip, layout.following] = strips[owner, layout.heads + side]
    strips[owner, layout.heads + side] = strip


@njit(cache=True, inline="always")
def first_of(strips: Any, layout: Any, owner: Any, side: Any, block: Any) -> Any:
    """Return a key's first strip with rows of a side in a block, -1 for none."""
    strip = owner
    if strips[owner, block + side] == 0:
        strip = np.int64(NONE)
        if layout.is_grouped:
            strip = strips[owner, layout.heads + side]
            while strip >= 0 and strips[strip, block + side] == 0:
                strip = strips[strip, layout.following]
    return strip


@njit(cache=True, inline="always")
def next_of(strips: Any, layout: Any, owner: Any, strip: Any, side: Any, block: Any) -> Any:
    """Return the strip after this one with rows of a side in a block, -1 for none."""
    after = np.int64(NONE)
    if layout.is_grouped:
        after = strips[owner, layout.heads + side] if strip == owner else strips[strip, layout.following]
        while after >= 0 and strips[after, block + side] == 0:
            after = strips[after, layout.following]
    return after


@njit(cache=True)
def tidy(strips: Any, layout: Any, owner: Any) -> None:
    """Bring the extras of a key from ``then`` to ``now``, and unchain those without rows."""
    size = layout.then - layout.now
    for side in range(layout.sides):
        before, strip = np.int64(NONE), strips[owner, layout.heads + side]
        while strip >= 0:
            after = strips[strip, layout.following]
            for column in range(layout.now, layout.now + size):
                strips[strip, column + size] = strips[strip, column]
            if strips[strip, layout.now + side] > 0:
                before = strip
            else:
                strips[strip, layout.following] = UNCHAINED
                if before >= 0:
                    strips[before, layout.following] = after
                else:
                    strips[owner, layout.heads + side] = after
            strip = after


@njit(cache=True)
def sweep(keys: Any, layout: Any, names: Any, state: Any, stamp: Any) -> None:
    """Free the strips without rows, but for keys that change as of this stamp; put all others into the slots.

    It is called while rows enter, when none has left since the last tick: ``then`` has no rows where ``now`` has none.
    """
    slots, strips, free, _ = keys
    alive = np.zeros(state[USED], np.bool_)
    for strip in range(len(alive)):
        for column in range(layout.now, layout.now + layout.sides):
            if strips[strip, column] > 0:
                alive[strip] = True
                if layout.is_grouped:
                    alive[strips[strip, layout.owner]] = True
        alive[strip] |= strips[strip, layout.stamp] == stamp
    slots[:] = NONE
    state[FREE] = 0
    for strip in range(len(alive)):
        if alive[strip]:
            slot, _ = find(slots, strips, strips[strip, :names])
            slots[slot] = strip
            if layout.is_grouped:
                strips[strip, layout.heads : layout.heads + layout.sides] = NONE
        else:
            strips[strip, layout.stamp] = 0
            free[state[FREE]] = strip
            state[FREE] += 1
    if layout.is_grouped:
        _chain_all(strips, layout, alive)


@njit(cache=True)
def _chain_all(strips: Any, layout: Any, alive: Any) -> None:
    for strip in range(len(alive)):
        owner = strips[strip, layout.owner]
        if alive[strip] and owner != strip:
            strips[strip, layout.following] = UNCHAINED
            for side in range(layout.sides):
                if strips[strip, layout.now + side] > 0:
                    _chain(strips, layout, owner, side, strip)
