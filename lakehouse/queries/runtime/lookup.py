"""Find rows by their hash, which numbers them within a side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def positions_of(known: pa.Table, rows: pa.Table) -> np.ndarray:
    """Return for each row the position of its side and hash in ``known``, -1 if it is not there.

    If several in ``known`` are equal, the first is found. Cost: one sort of ``known``.
    """
    ids, wanted = _ids(known), _ids(rows)
    if not len(ids):
        return np.full(len(wanted), -1)
    order = np.argsort(ids, order=("side", "row"), kind="stable")
    at = np.searchsorted(ids[order], wanted)
    found = order[np.minimum(at, len(ids) - 1)]
    return np.where(ids[found] == wanted, found, -1)


def _ids(rows: pa.Table) -> np.ndarray:
    ids = np.empty(rows.num_rows, [("side", np.int64), ("row", np.int64)])
    ids["side"], ids["row"] = rows["side"].to_numpy(), rows["row"].to_numpy()
    return ids
