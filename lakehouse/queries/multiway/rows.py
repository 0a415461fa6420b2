"""Raw rows of all sides of a join of three streams or more.

    side, event_us, row, key            what a join reads; the key is null where a column of it is
    k_0 ...                             the columns of the key
    is_refused                          a clock ahead of its own arrival: it joins nothing
    batch                               the ingest batch that brought it
    o_<name> ...                        the query's own columns, of the row's side

``key`` is a hash: rows meet by it and are counted by it. Those that have met join if the columns of their keys are
equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakehouse.config.stream import Stream
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.progress import is_refused
from lakehouse.queries.runtime.tables import ROW_HASH, column_type, hash_of, output_columns


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
        *(f"CAST(`{name}` AS {kind}) AS k_{place}" for place, (name, kind) in enumerate(keys.items())),
        *output_columns(query, streams, number),
    )


def keyed(columns: Sequence[str], places: int) -> tuple[str, ...]:
    """Return columns of rows with the place in which all rows of a key meet."""
    key = next(each.removesuffix(" AS `key`") for each in columns if each.endswith(" AS `key`"))
    return (*columns, f"CAST(pmod(coalesce({key}, 0L), {places}) AS int) AS bucket")
