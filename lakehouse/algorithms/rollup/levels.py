"""Levels of a rollup: their nesting and their reach into the past, in whole numbers, so that every layer can share it.

A level i of width G_i that keeps T_i holds the nodes that start at or after its horizon,

    H_i = floor_to(G_{i+1}, newest - T_i)     (the last level: floor_to(G_i, newest - T_i), or none at all)

                 H_2                  H_1                    newest
    level 3 ......|....................|......................|      all of the past
    level 2       [----][----][----][----][----][----][----][-
    level 1                            [][][][][][][][][][][][

Aligned to the parent's width, a horizon never passes through a parent: all of its children are kept, or none.
Reference: Liu, Jin, Hou, Zhang, DSMGA-Tree, section 2; the aligned horizon is ours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

KEPT_FOREVER_US = -(2**62)


@dataclass(frozen=True)
class Level:
    """One granularity: nodes ``width_us`` wide, kept for ``keep_us``; None keeps them forever."""

    width_us: int
    keep_us: int | None


def floor_to(width_us: int, time_us: int) -> int:
    """Return the latest multiple of the width at or before the time, also for times before 1970.

    >>> floor_to(60, 125), floor_to(60, -1)
    (120, -60)
    """
    return time_us - time_us % width_us


def horizon(level_index: int, levels: Sequence[Level], newest_us: int) -> int:
    """Return the start of the oldest node that level ``level_index`` (0 is the finest) keeps.

    It never moves back as ``newest_us`` grows. A level that keeps everything gets ``KEPT_FOREVER_US``.

    >>> horizon(0, [Level(1, 10), Level(4, None)], newest_us=25)
    12
    """
    keep_us = levels[level_index].keep_us
    if keep_us is None:
        return KEPT_FOREVER_US
    parent = min(level_index + 1, len(levels) - 1)
    return floor_to(levels[parent].width_us, newest_us - keep_us)


def horizons(levels: Sequence[Level], newest_us: int) -> list[int]:
    """Return the horizon of every level, finest first; they never grow from one level to the next."""
    return [horizon(index, levels, newest_us) for index in range(len(levels))]


def geometric_levels(first_us: int, alpha: int, exponent: int, span_us: int) -> list[Level]:
    """Return the levels of the paper's tree over ``span_us``: each ``alpha`` times as wide as the one below.

    Level i is ``first_us * alpha**i`` wide and keeps ``alpha**exponent`` widths, so it holds at most ``alpha**exponent
    + alpha`` nodes of a series: its horizon is aligned to the parent, where the paper's ``alpha**exponent + 1`` is not.
    The last level, whose nodes cover the span, keeps everything: a series takes O(log_alpha(span_us / first_us)) nodes.
    Before the start of a range of length h up to the newest row, ``h >= first_us * alpha**(exponent - 1)``, some kept
    node begins within ``h / alpha**(exponent - 1)``.
    Reference: Liu, Jin, Hou, Zhang, DSMGA-Tree, section 2 and Theorem 1. Differs from the paper: a level that the
    history does not fill yet has a node or two, where the paper's tree makes a level when the one below is full.

    >>> [(level.width_us, level.keep_us) for level in geometric_levels(1, alpha=2, exponent=2, span_us=20)]
    [(1, 4), (2, 8), (4, None)]
    """
    levels, width_us = list[Level](), first_us
    while (alpha**exponent + 1) * width_us < span_us:
        levels.append(Level(width_us, alpha**exponent * width_us))
        width_us *= alpha
    return [*levels, Level(width_us, None)]


def validate_levels(levels: Sequence[Level]) -> list[str]:
    """Return what is wrong with the levels, one sentence each; an empty list means that they nest.

    >>> validate_levels([Level(2, 100), Level(5, None)])
    ['level 2: found width 5 us; expected a multiple of level 1, 2 us']
    """
    if not levels:
        return ["levels: found none; expected at least one"]
    return [*_sizes(levels), *_nesting(levels), *_keeps(levels)]


def _sizes(levels: Sequence[Level]) -> Iterator[str]:
    for number, level in enumerate(levels, start=1):
        if level.width_us <= 0:
            yield f"level {number}: found width {level.width_us} us; expected more than 0 us"
        if level.keep_us is not None and level.keep_us <= 0:
            yield f"level {number}: found keep {level.keep_us} us; expected more than 0 us, or forever"


def _nesting(levels: Sequence[Level]) -> Iterator[str]:
    for number, (fine, coarse) in enumerate(pairwise(levels), start=2):
        width = f"level {number}: found width {coarse.width_us} us"
        if coarse.width_us <= fine.width_us:
            yield f"{width}; expected wider than level {number - 1}, {fine.width_us} us"
        elif fine.width_us > 0 and coarse.width_us % fine.width_us:
            yield f"{width}; expected a multiple of level {number - 1}, {fine.width_us} us"


def _keeps(levels: Sequence[Level]) -> Iterator[str]:
    for number, (fine, coarse) in enumerate(pairwise(levels), start=1):
        if fine.keep_us is None:
            yield f"level {number}: found keep forever; expected a limit, only the last may have none"
            continue
        if fine.keep_us < coarse.width_us:
            yield (
                f"level {number}: found keep {fine.keep_us} us; expected at least {coarse.width_us} us, "
                f"one whole node of level {number + 1}"
            )
        if coarse.keep_us is not None and coarse.keep_us <= fine.keep_us:
            yield (
                f"level {number + 1}: found keep {coarse.keep_us} us; expected longer than level {number}, "
                f"{fine.keep_us} us"
            )
