"""Raw rows of all sides of a join of three streams or more; late, refused and unusable ones.

    side, event_us, row, key            what a join reads; the key is null where a column of it is
    k_0 ...                             the columns of the key
    is_refused                          a clock ahead of its own arrival: it joins nothing
    batch                               the ingest batch that brought it
    source_file, source_line, source_item   its place
    o_<name> ...                        the query's own columns, of the row's side

``key`` is a hash: rows meet by it and are counted by it. Those that have met join if the columns of their keys are
equal.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.multiway_join.contract import Bools
from lakehouse.config.stream import Stream
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.progress import is_refused
from lakehouse.queries.runtime.tables import (
    ROW_HASH,
    Constants,
    bucket_of,
    column_type,
    hash_of,
    output_columns,
    with_constants,
)
from lakehouse.spark.noted_rows import PLACE

TAKEN = ("rows", "missed", "refused", "unusable")


def side_columns(query: MultiwayQuery, streams: Mapping[str, Stream], number: int) -> tuple[str, ...]:
    """Return what a row of a side is, as SQL over the raw table's columns."""
    keys = {name: column_type(streams, query.sides[number], name) for name in query.sides[number].keys}
    return (
        f"{number} AS side",
        "event_us",
        f"{ROW_HASH} AS `row`",
        f"{hash_of(query.sides[number].keys)} AS `key`",
        f"{is_refused(query)} AS is_refused",
        "batch",
        *PLACE,
        *(f"CAST(`{name}` AS {kind}) AS k_{place}" for place, (name, kind) in enumerate(keys.items())),
        *output_columns(query, streams, number),
    )


def keyed(columns: Sequence[str], places: int) -> tuple[str, ...]:
    """Return columns of rows with the place in which all rows of a key meet."""
    key = next(each.removesuffix(" AS `key`") for each in columns if each.endswith(" AS `key`"))
    return (*columns, bucket_of(f"coalesce({key}, 0L)", places))


def kinds_of(rows: pa.Table, is_new: Bools, horizon_us: int | None) -> dict[str, Bools]:
    """Return which new rows are of which kind, and which are new, by ``rows``; those before the horizon are late."""
    refused = rows["is_refused"].to_numpy()
    has_key, event = rows["key"].is_valid().to_numpy(), rows["event_us"].to_numpy()
    is_late = np.zeros(len(event), np.bool_) if horizon_us is None else event < horizon_us
    known = is_new & ~refused
    kinds = {
        "refused": is_new & refused,
        "unusable": known & ~has_key,
        "missed": known & has_key & is_late,
    }
    return {"rows": is_new, **kinds}


def logged_rows(
    rows: pa.Table, kinds: Mapping[str, Bools], horizon_us: int | None, batch: int, time_us: int | None
) -> pa.Table:
    """Return the rows of a batch that came late, and those that are refused, as the log has them."""
    horizons = {"missed": horizon_us, "refused": None}
    found = []
    for kind, horizon in horizons.items():
        own = rows.filter(pa.array(kinds[kind])).select(["side", "row", "event_us"])
        constants: Constants = {"what": kind, "bucket": 0, "horizon_us": horizon, "batch": batch}
        found.append(with_constants(own, {**constants, "time_us": time_us}))
    return pa.concat_tables(found, promote_options="permissive")
