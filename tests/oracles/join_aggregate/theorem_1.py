"""Theorem 1 of incremental aggregates over joins, on multisets: the yardstick of ``Incremental``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


def join_count(left: Counter[Hashable], right: Counter[Hashable]) -> int:
    """Return how many pairs of a row of each side have equal keys; a side is how many rows each key has."""
    return sum(many * right[key] for key, many in left.items())


def changed_count(
    count: int,
    left: tuple[Counter[Hashable], Counter[Hashable]],
    right: tuple[Counter[Hashable], Counter[Hashable]],
) -> int:
    """Return ``|B x D|`` from ``count = |A x C|`` and the changes of both sides, A to B and C to D (Theorem 1).

        |B x D| = |A x C| + |(B-A) x D| + |(D-C) x B| - |(B-A) x (D-C)|
                          - |(A-B) x (C&D)| - |(C-D) x (A&B)| - |(A-B) x (C-D)|

    Sides are multisets of keys; ``left`` is (A, B), ``right`` (C, D). Holds for any change: of one row, as in the
    paper's algorithm, or of all that happens between two ticks. The paper prints ``(C&D)`` for the second ``(C-D)``.

    >>> changed_count(2, (Counter("ab"), Counter("a")), (Counter("ab"), Counter("aab")))
    2
    """
    (before_left, after_left), (before_right, after_right) = left, right
    come_left, come_right = after_left - before_left, after_right - before_right
    gone_left, gone_right = before_left - after_left, before_right - after_right
    added = join_count(come_left, after_right) + join_count(come_right, after_left)
    twice = join_count(come_left, come_right)
    lost = join_count(gone_left, before_right & after_right) + join_count(
        gone_right, before_left & after_left
    )
    return count + added - twice - lost - join_count(gone_left, gone_right)
