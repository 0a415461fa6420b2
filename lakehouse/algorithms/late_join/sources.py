"""The sources of both streams that a join watches: what is known of each, as kernels read it.

A source is whatever sends rows of its own accord and may fall silent: a device, a sensor, a station.
"""

from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.contract import NO_TIME, Int64s
from lakehouse.algorithms.late_join.kernels.source import DUE, KNOWN, SHARE, SOURCE, SPARED

Watch = tuple[Any, Any, Any, Any, Any, Any]
PACKED = np.dtype([("side", np.int64), ("slot", np.int64), ("source", SOURCE)])


def watch_of(
    slots: int,
    *,
    gaps: float = 0.0,
    seen: int = 0,
    drain: float = 0.0,
    gone_us: int = 0,
    first_us: int = 0,
) -> Watch:
    """Return an empty watch over at most so many sources a side, a power of two; 0 for none.

    ``gaps``: usual gaps that make a silence; ``seen``: rows before a source is judged; ``drain``: the share of a
    silence in which rows held back may still come; ``gone_us``: when a source is forgotten; ``first_us``: how long one
    is waited for before any silence has held rows back.
    """
    settings = np.array([gaps, seen, drain, gone_us, 0.0, first_us])
    totals, looks = np.zeros((2, 2), np.int64), np.full(3, NO_TIME, np.int64)
    records, listed = np.zeros((2, slots), SOURCE), np.zeros((2, slots), np.int64)
    silences = np.zeros((2, 2))
    silences[:, SHARE] = 1.0
    return records, listed, totals, settings, silences, looks


def pack(watch: Watch) -> bytes:
    """Return the sources that are known; equal states give equal bytes."""
    records, _, totals, settings, silences, _ = watch
    side, slot = np.nonzero(records["seen"])
    own = np.empty(len(side), PACKED)
    own["side"], own["slot"], own["source"] = side, slot, records[side, slot]
    head = settings[SPARED].tobytes() + silences.tobytes()
    whole: bytes = head + totals.tobytes() + own.tobytes()
    return whole


def unpack(watch: Watch, packed: bytes) -> None:
    """Take over what was packed."""
    records, listed, totals, settings, silences, looks = watch
    settings[SPARED] = np.frombuffer(packed, np.float64, 1)[0]
    silences[:] = np.frombuffer(packed, np.float64, 4, 8).reshape(2, 2)
    totals[:] = np.frombuffer(packed, np.int64, 4, 40).reshape(2, 2)
    own = np.frombuffer(packed[40 + totals.nbytes :], PACKED)
    records[:] = np.zeros(1, SOURCE)[0]
    records[own["side"], own["slot"]] = own["source"]
    looks[DUE] = NO_TIME
    for side in (0, 1):
        slots: Int64s = own["slot"][own["side"] == side]
        listed[side, : len(slots)] = slots
    assert totals[:, KNOWN].tolist() == [np.count_nonzero(own["side"] == side) for side in (0, 1)]


NO_WATCH = watch_of(0)
