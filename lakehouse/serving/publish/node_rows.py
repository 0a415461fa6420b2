"""Wide nodes of a stream -> rows of the tables of a segment: series, nodes and counter nodes.

Wide nodes (one row with all measures) become long ones (one row per measure that has values), because a range
question reads one measure. They are sorted by slot, then start: a slot is one measure, level and series, so that a
question touches a few row groups. Cost: one sort of the wide nodes; memory as DuckDB needs, it spills.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, Level
from lakehouse.config.stream import COUNTER_PARTS
from lakehouse.serving.literals import literal, name, text
from lakehouse.serving.publish.snapshot import ROWS, PublishedMeasure, StreamSnapshot
from lakehouse.serving.segments.segments import BLOCK

COUNTER_COLUMNS = ("n", "first_us", "last_us", "first", "last", "max", "drops_low", "drops_high")
# The blocks of slots of one stream: at most this many measures times levels.
_BLOCKS = 2**16


@dataclass(frozen=True)
class Numbered:
    """A stream with its number, and how many series earlier versions have numbered: 0 if all is written anew."""

    number: int
    stream: StreamSnapshot
    known_series: int = 0

    @property
    def measures(self) -> list[PublishedMeasure]:
        """The rows themselves, then the measures."""
        return [PublishedMeasure(ROWS, "rows", 0), *self.stream.measures]

    def first_slot(self, place: int, level: int = 1) -> int:
        """Return the first slot of a measure, by its place in ``measures``, at a level."""
        return (self.number * _BLOCKS + place * len(self.stream.levels) + level - 1) * BLOCK

    @property
    def end_slot(self) -> int:
        """The first slot after all of the stream."""
        return (self.number + 1) * _BLOCKS * BLOCK

    @property
    def is_shared(self) -> bool:
        """True if the nodes of the version before stay."""
        return self.stream.changed is not None


def folded_nodes(stream: StreamSnapshot) -> str:
    """Return SQL for the nodes folded from all partial ones."""
    folder = stream.nodes
    if folder is None or not any(folder.glob("*.parquet")):
        return no_nodes(stream)
    return f"SELECT * FROM read_parquet({text(str(folder / '*.parquet'))})"


def no_nodes(stream: StreamSnapshot) -> str:
    """Return SQL for wide nodes without a row."""
    names = ["start_us", "rows", "first_us", "last_us"]
    for measure in stream.measures:
        carry = () if measure.is_exact else ("carry",)
        parts = ("n", "sum", *carry, "min", "max", "first_us", "last_us")
        names += [f"{measure.name}__{part}" for part in parts]
        names += [f"{measure.name}__{part}" for part in COUNTER_PARTS if measure.is_counter]
    keys = [f"NULL::VARCHAR AS {name(key)}" for key in stream.key_names]
    columns = [f"NULL::BIGINT AS {name(column)}" for column in names]
    return f"SELECT {', '.join(['0 AS level', '0 AS grouping', *keys, *columns])} WHERE false"


def write_rows(connection: duckdb.DuckDBPyConnection, one: Numbered, wide: str, into: str) -> None:
    """Write the new series of wide nodes, and the nodes; ``into`` takes the nodes, series go to ``fresh``.

    ``wide`` is SQL for the wide nodes: no name of one stream may be in the way of the next one's. Counters are
    written only if all is written anew, see counter_changes.py.
    """
    _write_series(connection, one, wide)
    _rank(connection, one, wide)
    for place, measure in enumerate(one.measures):
        source = name("rows" if measure.name == ROWS else f"{measure.name}__n")
        _insert(connection, one, place, f"{into}nodes", node_columns(measure), f"{source} > 0")
    if not one.is_shared:
        _insert_counters(connection, one, into)
    connection.execute("DROP TABLE ranked")


def write_counters(connection: duckdb.DuckDBPyConnection, one: Numbered, wide: str, into: str) -> None:
    """Write the counters of wide nodes, whose series are known, as they are: a row for each partial node."""
    _rank(connection, one, wide)
    _insert_counters(connection, one, into)
    connection.execute("DROP TABLE ranked")


def _insert_counters(connection: duckdb.DuckDBPyConnection, one: Numbered, into: str) -> None:
    for place, measure in enumerate(one.measures):
        if measure.is_counter:
            n, columns = _counter_columns(measure)
            is_meter = f'{n} > 0 AND "grouping" = {one.stream.meter_grouping}'
            _insert(connection, one, place, f"{into}counter_nodes", columns, is_meter)


def _insert(
    connection: duckdb.DuckDBPyConnection, one: Numbered, place: int, into: str, columns: str, where: str
) -> None:
    slot = f"{one.first_slot(place)} + (level - 1) * {BLOCK} + series_rank"
    connection.execute(
        f"INSERT INTO {into} SELECT {slot} AS slot, {_parent(one.stream.levels)}, start_us, {columns} "
        f"FROM ranked WHERE {where}"
    )


def _key_values(stream: StreamSnapshot) -> str:
    whens = [
        f"WHEN {index} THEN [{', '.join(f'CAST({name(key)} AS VARCHAR)' for key in grouping)}]::VARCHAR[]"
        for index, grouping in enumerate(stream.groupings)
    ]
    return f"CASE grouping {' '.join(whens)} END"


def _write_series(connection: duckdb.DuckDBPyConnection, one: Numbered, wide: str) -> None:
    """Write the series that no earlier version has numbered, after those that it has."""
    number, names = one.number, literal(list(one.stream.groupings))
    new = ""
    if one.is_shared:
        new = (
            f"ANTI JOIN previous.series AS known ON known.stream_id = {number} AND known.grouping = met.grouping "
            "AND known.key_values = met.key_values"
        )
    connection.execute(
        f"""
        INSERT INTO fresh.segment.series
        SELECT {number}, grouping, {number} * 1000 + grouping,
            {one.known_series} + row_number() OVER (ORDER BY grouping, lookup) - 1,
            MAP(({names}::VARCHAR[][])[grouping + 1], key_values), key_values, lookup
        FROM (
            SELECT grouping, key_values, ifnull(lookup_of(key_values), '') AS lookup
            FROM (SELECT DISTINCT grouping, {_key_values(one.stream)} AS key_values FROM ({wide})) AS met {new}
        )
        ORDER BY grouping, lookup
        """
    )


def _rank(connection: duckdb.DuckDBPyConnection, one: Numbered, wide: str) -> None:
    # Lists compare their nulls as equal, so a missing key value finds its series. Sorted once, for every measure.
    of_stream = f"WHERE stream_id = {one.number}"
    series = f"FROM fresh.segment.series {of_stream}"
    if one.is_shared:
        series = f"{series} UNION ALL FROM previous.series {of_stream}"
    connection.execute(
        f"""
        CREATE TEMP TABLE ranked AS
        SELECT wide.*, series.series_rank
        FROM (SELECT *, {_key_values(one.stream)} AS key_values FROM ({wide})) AS wide
        JOIN ({series}) AS series
            ON series.grouping = wide.grouping AND series.key_values = wide.key_values
        ORDER BY wide.level, series.series_rank, wide.start_us
        """
    )


def _parent(levels: Sequence[Level]) -> str:
    widths = [level.width_us for level in levels[1:]]
    whens = [f"WHEN {i} THEN start_us - (start_us % {w} + {w}) % {w}" for i, w in enumerate(widths, start=1)]
    return f"CASE level {' '.join(whens)} ELSE {KEPT_FOREVER_US} END" if whens else str(KEPT_FOREVER_US)


def node_columns(measure: PublishedMeasure) -> str:
    """Return the columns of ``nodes`` from ``n`` on, from wide nodes."""
    if measure.name == ROWS:
        return '"rows", NULL, NULL, NULL, NULL, NULL, NULL, 0, first_us, last_us'
    n, total, low, high, first, last = (
        name(f"{measure.name}__{part}") for part in ("n", "sum", "min", "max", "first_us", "last_us")
    )
    exact = wide = carry = "NULL"
    if measure.decimals is None:
        carry = name(f"{measure.name}__carry")
    else:
        exact, low, high = (_unscaled(column, measure.decimals) for column in (total, low, high))
        total, exact = exact, f"TRY_CAST({exact} AS BIGINT)"
        wide = f"CASE WHEN {exact} IS NULL THEN {total} END"
    total, low, high = (f"CAST({column} AS DOUBLE)" for column in (total, low, high))
    return f"{n}, {total}, {carry}, {exact}, {wide}, {low}, {high}, {magnitude_of(n, low, high)}, {first}, {last}"


def magnitude_of(n: str, low: str, high: str) -> str:
    """Return SQL for the quantity that bounds the rounding of a node's sum."""
    return f"{n} * greatest(abs({low}), abs({high}))"


def _counter_columns(measure: PublishedMeasure) -> tuple[str, str]:
    """Return the column that counts a counter's readings, and those of ``counter_nodes`` from ``n`` on."""
    n, first_us, last_us, *readings = (name(f"{measure.name}__{part}") for part in COUNTER_COLUMNS)
    if measure.decimals is not None:
        readings = [f"round(CAST({column} AS DOUBLE) * 1e{measure.decimals})" for column in readings]
    return n, ", ".join((n, first_us, last_us, *readings))


def _unscaled(column: str, decimals: int) -> str:
    """Return a decimal as a whole number of its last digit; by text, as multiplying could leave 38 digits."""
    return f"CAST(replace(CAST(CAST({column} AS DECIMAL(38, {decimals})) AS VARCHAR), '.', '') AS HUGEINT)"
