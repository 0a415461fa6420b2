"""Assignment of rows to buckets, so that every pair is found in exactly one.

Equal keys share a bucket. For a band or a distance a left row goes to the bucket of its own cell and a right row to the
buckets of all cells in which a partner may lie: at most 3, or 9. The pair is found where its left row is.
"""

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.late_join.conditions import Condition
from lakehouse.algorithms.late_join.contract import RIGHT, Batch, Bools, HeldRows, Int64s
from lakehouse.algorithms.late_join.probing import Plan


def place_in_buckets(condition: Condition, batch: Batch, buckets: int) -> tuple[Int64s, Int64s]:
    """Return positions of rows, ascending and some of them repeatedly, and the bucket in which each is used.

    Rows that cannot join are in bucket 0, which counts them. Raises ValueError when there is no bucket.
    """
    if buckets < 1:
        raise ValueError(f"expected at least one bucket, found {buckets}")
    cells, usable = Plan.of(condition).cells(batch)
    bucket = np.where(usable[:, None], _buckets_of(condition, batch.side, cells, buckets), 0)
    row = np.repeat(np.arange(len(batch)), bucket.shape[1])
    both = np.unique(np.column_stack([row, bucket.ravel()]), axis=0).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def is_in_bucket(condition: Condition, held: HeldRows, bucket: int, buckets: int) -> Bools:
    """Tell which rows that some buckets hold are used in one of so many."""
    cells = held.entries[:, 2]
    found: Bools = (_buckets_of(condition, held.side, cells, buckets) == bucket).any(axis=1)
    return found


def _buckets_of(condition: Condition, side: npt.NDArray[np.int8], cells: Int64s, buckets: int) -> Int64s:
    """Return the buckets in which rows are used, by their cells; some of them repeatedly."""
    around = np.where((side == RIGHT)[:, None], Plan.of(condition).offsets, 0) + cells[:, None]
    # The upper bits of the product, which spread evenly: the lower ones tell the slot inside a bucket.
    mixed = around.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(48)) % np.uint64(buckets)).astype(np.int64)
