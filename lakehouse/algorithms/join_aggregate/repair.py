"""What answers still lack of rows that were logged: to be added to them once, whenever it is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.join_aggregate.revision import revised, ticks_in

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s, Partials, Rows, Shape


def missing(shape: Shape, rows: Rows, counted_from_us: Int64s, every_us: int) -> Partials:
    """Return what answers lack of rows that have counted only from a later tick on than they should.

    ``rows`` are all rows taken in so far whose windows meet those of the logged ones, in any order; they enter at their
    event times. ``counted_from_us`` says from when each has counted: its event time, or where it was logged and is
    not repaired, its horizon.

    Guarantee: repairs that follow each other, each of what was logged since the last, come to the same as one.
    Cost: as ``revised``, over the ticks between a logged row's event time and its horizon.
    """
    is_logged = counted_from_us > rows.enter_us
    now = rows[is_logged]
    was = replace(now, enter_us=counted_from_us[is_logged])
    ticks = ticks_in(now.enter_us, np.minimum(now.leave_us, was.enter_us - 1), every_us)
    return revised(shape, rows[~is_logged], was, now, ticks)
