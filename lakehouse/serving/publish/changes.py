"""Nodes that changed since the version before: new partial nodes are added to the old ones, or others replace them.

    files of partial nodes -> wide nodes -> long rows, ``changed`` -> with the old rows, ``combined`` -> ``fresh``

Sums add, extremes and times take the outer one, so a node's new row needs only its old rows and the partial nodes
since; counters need more, see counter_changes.py. Of times whose nodes were built again all nodes are given: they take
the place of the old ones, and where there is none a node without values does, which readers skip. Cost: the nodes that
are given, and one pass over their times in the version before.
"""

import duckdb

from lakehouse.serving.literals import name, parquet
from lakehouse.serving.publish.counter_changes import write_changed_counters
from lakehouse.serving.publish.node_rows import Numbered, magnitude_of, no_nodes, write_rows
from lakehouse.serving.publish.snapshot import (
    ROWS,
    ChangedNodes,
    PublishedMeasure,
    StreamSnapshot,
    Total,
    totals_of,
)
from lakehouse.serving.segments.segments import BLOCK, NEWEST_STORED, NODE_COLUMNS
from lakehouse.serving.table_reader import named_rows

# Sums of doubles as two columns: lakehouse/algorithms/rollup/runs.py as macros.
_TOGETHER = "(a + b)"
_SEEN = f"({_TOGETHER} - a)"
# A step is a lambda, because a macro repeats its argument wherever it names it.
_SUMS = f"""
    CREATE OR REPLACE TEMP MACRO two_sum(a, b) AS
        {{total: {_TOGETHER}, carry: (a - ({_TOGETHER} - {_SEEN})) + (b - {_SEEN})}};
    CREATE OR REPLACE TEMP MACRO quick_sum(a, b) AS {{total: {_TOGETHER}, carry: b - {_SEEN}}};
    CREATE OR REPLACE TEMP MACRO added(x, y) AS list_transform(list_transform(
        [{{high: two_sum(x.total, y.total), low: two_sum(x.carry, y.carry)}}],
        lambda s: {{high: quick_sum(s.high.total, s.high.carry + s.low.total), rest: s.low.carry}}),
        lambda s: quick_sum(s.high.total, s.rest + s.high.carry))[1];
    CREATE OR REPLACE TEMP MACRO totalled(pairs) AS
        CASE WHEN len(pairs) > 1 THEN list_reduce(pairs, lambda x, y: added(x, y)) ELSE pairs[1] END;
"""
_EXACT = "ifnull(CAST({0}.exact_total AS HUGEINT), {0}.wide_total)"


def write_changed(connection: duckdb.DuckDBPyConnection, one: Numbered) -> None:
    """Write the new rows of the stream's changed nodes; ``combined`` holds them with their earlier values."""
    create_sums(connection)
    connection.execute(f"CREATE TEMP TABLE wide AS {_folded(one.stream)}")
    connection.execute("CREATE TEMP TABLE changed_nodes AS FROM fresh.segment.nodes WITH NO DATA")
    write_rows(connection, one, "FROM wide", "changed_")
    connection.execute("DROP TABLE wide")
    changed = one.stream.changed
    assert changed is not None
    if changed.has_nodes:
        write_changed_counters(connection, one, _kept(one.stream))
    _find_replaced(connection, one, changed)
    _find_before(connection, one, changed)
    combined = combined_of(one.number)
    connection.execute(f"CREATE TEMP TABLE {combined} AS {_COMBINED}")
    connection.execute("DROP TABLE changed_nodes; DROP TABLE before; DROP TABLE replaced")
    connection.execute(
        f"INSERT INTO fresh.segment.nodes SELECT {NODE_COLUMNS} FROM {combined} ORDER BY slot, start_us"
    )


def _find_replaced(connection: duckdb.DuckDBPyConnection, one: Numbered, changed: ChangedNodes) -> None:
    """Let ``replaced`` be the places of nodes that were built again; one that is gone becomes one without values."""
    held = f"slot >= {one.first_slot(0)} AND slot < {one.end_slot} AND {changed.within()}"
    of_version = f"FROM previous.node_segments WHERE {held} {NEWEST_STORED}" if changed.ranges else ""
    connection.execute(
        "CREATE TEMP TABLE replaced AS SELECT slot, parent_us, start_us "
        f"{of_version or 'FROM fresh.segment.nodes WHERE false'}"
    )
    gone = "SELECT *, 0 AS n FROM replaced ANTI JOIN changed_nodes USING (slot, start_us)"
    connection.execute(f"INSERT INTO changed_nodes BY NAME {gone}")
    counters = f"FROM previous.counter_segments WHERE {held} {NEWEST_STORED}" if changed.ranges else ""
    if counters:
        connection.execute(
            "INSERT INTO fresh.segment.counter_nodes BY NAME SELECT slot, parent_us, start_us, 0 AS n "
            f"FROM ({counters}) ANTI JOIN fresh.segment.counter_nodes USING (slot, start_us)"
        )


def _find_before(connection: duckdb.DuckDBPyConnection, one: Numbered, changed: ChangedNodes) -> None:
    """Let ``before`` be the earlier values of the changed nodes; of each block only the changed times are read.

    A batch affects as many row groups as it has series, and DuckDB opens each column of each: columns that
    ``_COMBINED`` does not need stay null.
    """
    connection.execute("CREATE TEMP TABLE before AS FROM fresh.segment.nodes WITH NO DATA")
    touched = f"SELECT slot // {BLOCK}, min(start_us), max(start_us) FROM changed_nodes GROUP BY ALL"
    for block, first_us, last_us in connection.execute(touched).fetchall():
        place = (block - one.first_slot(0) // BLOCK) // len(one.stream.levels)
        connection.execute(
            f"""
            INSERT INTO before BY NAME SELECT slot, start_us, {_added_columns(one.measures[place])} FROM (
                FROM previous.node_segments WHERE slot >= {block * BLOCK} AND slot < {(block + 1) * BLOCK}
                AND start_us >= {first_us} AND start_us <= {last_us} AND NOT {changed.within()}
            ) SEMI JOIN changed_nodes USING (slot, start_us)
            {NEWEST_STORED}
            """
        )


def _added_columns(measure: PublishedMeasure) -> str:
    """Return the columns of a measure's nodes to which those of partial nodes are added."""
    if measure.name == ROWS:
        return "n, first_us, last_us"
    sums = "exact_total, wide_total" if measure.is_exact else "total, carry"
    return f"n, {sums}, lowest, highest, first_us, last_us"


def combined_of(number: int) -> str:
    """Return the table of a stream's changed nodes."""
    return f"combined_{number}"


def totals_of_changes(connection: duckdb.DuckDBPyConnection, stream: StreamSnapshot) -> list[Total]:
    """Return the totals of the partial nodes, read from their files alone."""
    if stream.changed is None or not stream.changed.has_nodes:
        return []
    sums = ['CAST(sum("rows") AS BIGINT) AS "rows"']
    for measure in stream.measures:
        n, total = f"{measure.name}__n", f"{measure.name}__sum"
        sums += [f"CAST(sum({name(n)}) AS BIGINT) AS {name(n)}", f"sum({name(total)}) AS {name(total)}"]
    summed = f'SELECT level, "grouping", {", ".join(sums)} FROM {_kept(stream)} GROUP BY level, "grouping"'
    rows = named_rows(connection, summed)
    return [total for row in rows for total in totals_of(row, stream.measures)]


def _kept(stream: StreamSnapshot) -> str:
    """Return SQL for the new partial nodes that their level still keeps, and for nodes that were built again."""
    changed = stream.changed
    assert changed is not None
    kept = [f"level = {n} AND start_us >= {start}" for n, start in enumerate(stream.horizons, start=1)]
    new = f"SELECT * FROM {{}} WHERE ({' OR '.join(kept)}) AND NOT {changed.within()}"
    parts = [new.format(parquet(changed.nodes))] if changed.nodes else []
    parts += [f"SELECT * FROM {parquet(changed.again)}"] if changed.again else []
    return f"({' UNION ALL BY NAME '.join(parts)})"


def _folded(stream: StreamSnapshot) -> str:
    """Return SQL for wide nodes, one for each node that received partial nodes."""
    if stream.changed is None or not stream.changed.has_nodes:
        return no_nodes(stream)
    by = ", ".join(("level", '"grouping"', "start_us", *map(name, stream.key_names)))
    sums = ['CAST(sum("rows") AS BIGINT) AS "rows"', "min(first_us) AS first_us", "max(last_us) AS last_us"]
    for measure in stream.measures:
        n, *parts = (name(f"{measure.name}__{part}") for part in ("n", "min", "max", "first_us", "last_us"))
        sums.append(f"CAST(sum({n}) AS BIGINT) AS {n}")
        sums += _sums(measure)
        combine = zip(("min", "max", "min", "max"), parts, strict=True)
        sums += [f"{how}({part}) AS {part}" for how, part in combine]
    return f"SELECT {by}, {', '.join(sums)} FROM {_kept(stream)} GROUP BY {by}"


def _sums(measure: PublishedMeasure) -> list[str]:
    """Return SQL for a measure's sum over partial nodes; of doubles, its carry too."""
    total, carry = (name(f"{measure.name}__{part}") for part in ("sum", "carry"))
    if measure.is_exact:
        return [f"sum({total}) AS {total}"]
    whole = f"totalled({pairs(total, carry)})"
    return [f"({whole}).total AS {total}", f"({whole}).carry AS {carry}"]


def create_sums(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the macros ``added`` and ``totalled``: the sum of two pairs {total, carry}, and of a list of them."""
    connection.execute(_SUMS)


def pairs(total: str, carry: str) -> str:
    """Return SQL for the list that ``totalled`` adds up, of the rows of a group."""
    return f"list({{total: {total}, carry: {carry}}}) FILTER ({total} IS NOT NULL)"


_MAGNITUDE = magnitude_of("(n + n_before)", "least_value", "greatest_value")
_COMBINED = f"""
    WITH added AS (
        SELECT
            new.*, before.n IS NULL AND replaced.parent_us IS NULL AS is_new,
            ifnull(before.n, 0) AS n_before, before.total AS total_before,
            added(
                {{total: new.total, carry: ifnull(new.carry, 0.0)}},
                {{total: ifnull(before.total, 0.0), carry: ifnull(before.carry, 0.0)}}
            ) AS sums,
            {_EXACT.format("before")} AS exact_before,
            {_EXACT.format("new")} + ifnull(exact_before, 0) AS exact,
            least(new.lowest, before.lowest) AS least_value, greatest(new.highest, before.highest) AS greatest_value,
            least(new.first_us, before.first_us) AS first_of_all, greatest(new.last_us, before.last_us) AS last_of_all
        FROM changed_nodes AS new LEFT JOIN before USING (slot, start_us) LEFT JOIN replaced USING (slot, start_us)
    )
    SELECT
        slot, parent_us, start_us, n + n_before AS n,
        CASE WHEN exact IS NULL THEN sums.total ELSE CAST(exact AS DOUBLE) END AS total,
        CASE WHEN exact IS NULL THEN sums.carry END AS carry,
        TRY_CAST(exact AS BIGINT) AS exact_total,
        CASE WHEN TRY_CAST(exact AS BIGINT) IS NULL THEN exact END AS wide_total,
        least_value AS lowest, greatest_value AS highest,
        ifnull({_MAGNITUDE}, 0) AS magnitude,
        first_of_all AS first_us, last_of_all AS last_us,
        is_new, n_before, exact_before, total_before
    FROM added
"""
