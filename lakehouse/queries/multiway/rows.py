"""Raw rows of all sides of a join of three streams or more.

    side, event_us, row, key            what a join reads; the key is null where a column of it is
    is_refused                          a clock ahead of its own arrival: it joins nothing
    batch                               the ingest batch that brought it
    o_<name> ...                        the query's own columns, of the row's side

Keys are hashes of the values: equal where the values are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakehouse.config.stream import Stream
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.progress import is_refused
from lakehouse.queries.runtime.tables import ROW_HASH, hash_of, output_columns


def side_columns(query: MultiwayQuery, streams: Mapping[str, Stream], number: int) -> tuple[str, ...]:
    """Return what a row of a side is, as SQL over the raw table's columns."""
    return (
        f"{number} AS side",
        "event_us",
        f"{ROW_HASH} AS `row`",
        f"{hash_of(query.sides[number].keys)} AS `key`",
        f"{is_refused(query)} AS is_refused",
        "batch",
        *output_columns(query, streams, number),
    )


def keyed(columns: Sequence[str], places: int) -> tuple[str, ...]:
    """Return columns of rows with the place in which all rows of a key meet."""
    key = next(each.removesuffix(" AS `key`") for each in columns if each.endswith(" AS `key`"))
    return (*columns, f"CAST(pmod(coalesce({key}, 0L), {places}) AS int) AS bucket")
