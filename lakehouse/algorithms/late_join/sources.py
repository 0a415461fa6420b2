"""The sources of both streams that a join watches: what is known of each, as kernels read it.

A source is whatever sends rows of its own accord and may fall silent: a device, a sensor, a station.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.source_kernels import DUE, KNOWN, SOURCE, SPARED

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s

Watch = tuple[Any, Any, Any, Any, Any]
PACKED = np.dtype([("side", np.int64), ("slot", np.int64), ("source", SOURCE)])
# The first number of what is packed. Versions that did not count pairs began with how many sources there were, and
# of a source they wrote these fields.
FORM = -2
FIELDS_BEFORE = ("id", "heard", "reached", "until", "gap", "seen", "backlog")
PACKED_BEFORE = np.dtype(
    [("side", np.int64), ("slot", np.int64), *((name, SOURCE[name]) for name in FIELDS_BEFORE)]
)


def watch_of(slots: int, *, gaps: float = 0.0, seen: int = 0, drain: float = 0.0, gone_us: int = 0) -> Watch:
    """Return an empty watch over at most so many sources a side, a power of two; 0 for none.

    ``gaps``: usual gaps that make a silence; ``seen``: rows before a source is judged; ``drain``: the share of a
    silence in which rows held back may still come; ``gone_us``: when a source is forgotten.
    """
    settings = np.array([gaps, seen, drain, gone_us, 0.0])
    counts, looks = np.zeros((2, 2), np.int64), np.full(3, NO_TIME, np.int64)
    return np.zeros((2, slots), SOURCE), np.zeros((2, slots), np.int64), counts, settings, looks


def pack(watch: Watch) -> bytes:
    """Return the sources that are known; equal states give equal bytes."""
    records, _, totals, settings, _ = watch
    side, slot = np.nonzero(records["seen"])
    own = np.empty(len(side), PACKED)
    own["side"], own["slot"], own["source"] = side, slot, records[side, slot]
    head = np.int64(FORM).tobytes() + settings[SPARED].tobytes()
    whole: bytes = head + totals.tobytes() + own.tobytes()
    return whole


def unpack(watch: Watch, packed: bytes) -> None:
    """Take over what was packed, by this version or by one that did not count pairs."""
    records, listed, totals, settings, looks = watch
    is_known = int(np.frombuffer(packed, np.int64, 1)[0]) == FORM
    settings[SPARED] = np.frombuffer(packed, np.float64, 1, 8)[0] if is_known else 0.0
    packed = packed[16 if is_known else 0 :]
    totals[:] = np.frombuffer(packed, np.int64, 4).reshape(2, 2)
    own = np.frombuffer(packed[32:], PACKED if is_known else PACKED_BEFORE)
    records[:] = np.zeros(1, SOURCE)[0]
    if is_known:
        records[own["side"], own["slot"]] = own["source"]
    else:
        for name in FIELDS_BEFORE:
            records[name][own["side"], own["slot"]] = own[name]
    looks[DUE] = NO_TIME
    for side in (0, 1):
        slots: Int64s = own["slot"][own["side"] == side]
        listed[side, : len(slots)] = slots
    assert totals[:, KNOWN].tolist() == [np.count_nonzero(own["side"] == side) for side in (0, 1)]


NO_WATCH = watch_of(0)
