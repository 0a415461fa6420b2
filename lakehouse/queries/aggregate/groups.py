"""Groups of answers and alarms: numbers by which they are compared, and the newest row of each."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Int64s
from lakehouse.queries.runtime.tasks.key_codes import key_codes

ANSWER, ALARM = "answer", "alarm"


def coded(rows: pa.Table, names: Sequence[str]) -> Int64s:
    """Return a number per row, equal where the named columns are; nulls are equal."""
    return key_codes([rows.select(names)])[0].code


def newest(rows: pa.Table, keys: list[str], version: str) -> pa.Table:
    """Return the row of the highest version for each key."""
    codes = coded(rows, keys)
    order = np.lexsort((rows[version].to_numpy(), codes))
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = codes[order][1:] != codes[order][:-1]
    return rows.take(pa.array(order[is_last]))
