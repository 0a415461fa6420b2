"""Revisions among rows of one identity: the newest counts, each other is revised by the one behind it.

    order                               read later, or greater by a column; then by all values, so that no order of
                                        arrival makes another row the newest
    the values of the row before it     a duplicate

Rows that raw keeps no longer cannot be taken out of nodes and results: where an identity has one, the first row stays.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.duplicates import ACCEPTED, DUPLICATE
from lakehouse.config.stream import Stream
from lakehouse.ingest.batch_records import processing_order
from lakehouse.ingest.identities.identities import payload_columns

# A verdict beside those of repeats: of a row of the batch, or of one that was accepted before.
REVISED = 3
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def with_revised(
    rows: pa.Table, identity: Int64s, payload: Int64s, is_open: Bools, stream: Stream
) -> pa.Table:
    """Return rows with new verdicts; ``by_file``, ``by_line`` and ``by_item`` say which row revises a REVISED one.

    ``rows``: those of a batch with their ``verdict``, and accepted ones, which have a ``batch``. ``identity`` and
    ``payload``: the same numbers where these are the same; ``is_open``: rows whose identity may be revised.
    """
    at = _in_order(rows, identity, stream)
    at = at[is_open[at]]
    is_known = rows["batch"].is_valid().to_numpy()
    repeats = _is_as_before(identity[at]) & _is_as_before(payload[at]) & ~is_known[at]
    verdict = rows["verdict"].to_numpy().copy()
    verdict[at] = np.where(repeats, DUPLICATE, ACCEPTED)
    live = at[~repeats]
    known = live[is_known[live]]
    # What is older than another accepted row has been revised before.
    revised_before = known[:-1][_is_as_before(identity[known])[1:]]
    is_revised = np.append(_is_as_before(identity[live])[1:], False) & ~np.isin(live, revised_before)
    verdict[live[is_revised]] = REVISED
    by = np.full(rows.num_rows, -1)
    by[live[:-1]] = live[1:]
    places = pa.array(np.where(verdict == REVISED, by, 0), mask=verdict != REVISED)
    for name in ("file", "line", "item"):
        rows = rows.append_column(f"by_{name}", rows[f"source_{name}"].take(places))
    return rows.drop_columns("verdict").append_column("verdict", pa.array(verdict))


def _is_as_before(numbers: Int64s) -> Bools:
    """Return whether each number is the one before it."""
    return np.append(np.zeros(len(numbers[:1]), np.bool_), numbers[1:] == numbers[:-1])


def _in_order(rows: pa.Table, identity: Int64s, stream: Stream) -> Int64s:
    """Return the places of rows by identity, and inside one from the oldest to the newest."""
    read = np.empty(rows.num_rows, np.int64)
    batches = pc.fill_null(rows["batch"], np.iinfo(np.int64).max).to_numpy()
    read[processing_order(rows, batches)] = np.arange(rows.num_rows)
    newest_by = stream.revisions.newest_by if stream.revisions else None
    values = [newest_by, *payload_columns(stream)] if newest_by else []
    keys = [pa.chunked_array([identity]), *(rows[name] for name in values), pa.chunked_array([read])]
    table = pa.table(keys, names=[str(number) for number in range(len(keys))])
    order = [(name, "ascending", "at_start") for name in table.column_names]
    return np.asarray(pc.sort_indices(table, sort_keys=order).to_numpy().astype(np.int64))
