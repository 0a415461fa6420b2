"""Find things that are numbered within a side: rows by their hash, groups by theirs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def positions_of(known: pa.Table, rows: pa.Table, number: str) -> np.ndarray:
    """Return for each row the position of its side and ``number`` in ``known``, -1 if it is not there.

    If several in ``known`` are equal, the first is found. Cost: one sort of ``known``.
    """
    ids, wanted = _ids(known, number), _ids(rows, number)
    if not len(ids):
        return np.full(len(wanted), -1)
    order = np.argsort(ids, order=("side", "number"), kind="stable")
    at = np.searchsorted(ids[order], wanted)
    found = order[np.minimum(at, len(ids) - 1)]
    return np.where(ids[found] == wanted, found, -1)


def _ids(rows: pa.Table, number: str) -> np.ndarray:
    ids = np.empty(rows.num_rows, [("side", np.int64), ("number", np.int64)])
    ids["side"], ids["number"] = rows["side"].to_numpy(), rows[number].to_numpy()
    return ids
