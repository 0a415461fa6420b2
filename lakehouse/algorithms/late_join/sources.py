"""The sources of both streams that a join watches: what is known of each, as kernels read it.

A source is whatever sends rows of its own accord and may fall silent: a device, a sensor, a station.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.source_kernels import DUE, KNOWN, SHARE, SOURCE, SPARED

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s

Watch = tuple[Any, Any, Any, Any, Any, Any]
PACKED = np.dtype([("side", np.int64), ("slot", np.int64), ("source", SOURCE)])
# The first number of what is packed says which fields of a source follow. Versions that did not count pairs began with
# how many sources there were; the next one did not know which silences had held rows back.
FORM, WITHOUT_SILENCES = -3, -2
_FIELDS = "id", "heard", "reached", "until", "gap", "seen", "backlog"
_COUNTS = "rows", "pairs", "sent", "found"


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
    head = np.int64(FORM).tobytes() + settings[SPARED].tobytes() + silences.tobytes()
    whole: bytes = head + totals.tobytes() + own.tobytes()
    return whole


def unpack(watch: Watch, packed: bytes) -> None:
    """Take over what was packed, by this version or an earlier one."""
    records, listed, totals, settings, silences, looks = watch
    form = int(np.frombuffer(packed, np.int64, 1)[0])
    head, fields = _form(form)
    settings[SPARED] = np.frombuffer(packed, np.float64, 1, 8)[0] if head else 0.0
    silences[:] = np.frombuffer(packed, np.float64, 4, 16).reshape(2, 2) if form == FORM else [1.0, 0.0]
    totals[:] = np.frombuffer(packed, np.int64, 4, head).reshape(2, 2)
    kinds = [("side", np.int64), ("slot", np.int64), *((name, SOURCE[name]) for name in fields)]
    own = np.frombuffer(packed[head + totals.nbytes :], np.dtype(kinds))
    records[:] = np.zeros(1, SOURCE)[0]
    for name in fields:
        records[name][own["side"], own["slot"]] = own[name]
    looks[DUE] = NO_TIME
    for side in (0, 1):
        slots: Int64s = own["slot"][own["side"] == side]
        listed[side, : len(slots)] = slots
    assert totals[:, KNOWN].tolist() == [np.count_nonzero(own["side"] == side) for side in (0, 1)]


def _form(form: int) -> tuple[int, tuple[str, ...]]:
    """Return how many bytes of a packed watch come before its totals, and what it has of a source."""
    if form == FORM:
        return 48, tuple(SOURCE.names or ())
    return (16, (*_FIELDS, *_COUNTS)) if form == WITHOUT_SILENCES else (0, _FIELDS)


NO_WATCH = watch_of(0)
