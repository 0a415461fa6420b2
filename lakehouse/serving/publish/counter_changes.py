"""Nodes of counters that changed since the version before: new partial nodes combined with the old ones, in time order.

    partial nodes, and the nodes that they belong to -> joined; from the second level on, if the nodes below have all
    readings of a node, it is combined from these instead: late readings leave an interval in it but rarely in them

Cost: the partial nodes and, for each node that they belong to, the nodes below it.
"""

from dataclasses import dataclass
from typing import Any

import duckdb

from lakehouse.serving.publish.node_rows import Numbered, write_counters
from lakehouse.serving.segments.segments import BLOCK, COUNTER_COLUMNS, NEWEST_STORED

_COLUMNS = COUNTER_COLUMNS.split(", ")
# The kernel's fields, by the columns in which they are stored.
_FIELDS = {
    "n": "n",
    "first_us": "first_us",
    "last_us": "last_us",
    "first": "first_reading",
    "last": "last_reading",
}
_FIELDS |= {"max": "highest", "drops_low": "drops_low", "drops_high": "drops_high"}
Columns = dict[str, Any]


def write_changed_counters(connection: duckdb.DuckDBPyConnection, one: Numbered, partial: str) -> None:
    """Write the counters' changed nodes; ``partial`` is SQL for the new partial nodes, whose series are known."""
    changed = one.stream.changed
    if changed is None or one.stream.meter_grouping is None or not any(m.is_counter for m in one.measures):
        return
    for table in ("came_counter_nodes", "joined_counter_nodes"):
        connection.execute(f"CREATE TEMP TABLE {table} AS FROM fresh.segment.counter_nodes WITH NO DATA")
    wide = f'FROM {partial} WHERE "grouping" = {one.stream.meter_grouping}'
    write_counters(connection, one, wide, "came_")
    for place in (place for place, measure in enumerate(one.measures) if measure.is_counter):
        for level in range(1, len(one.stream.levels) + 1):
            _Level(connection, one.first_slot(place, level) // BLOCK, level == 1, changed.within()).join()
    connection.execute(
        "INSERT INTO fresh.segment.counter_nodes FROM joined_counter_nodes ORDER BY slot, start_us"
    )
    connection.execute("DROP TABLE came_counter_nodes; DROP TABLE joined_counter_nodes")


@dataclass(frozen=True)
class _Level:
    """One level of a counter, with its block of slots; the block before belongs to the level below.

    ``again``: SQL for whether a node is built again, whatever it was before.
    """

    connection: duckdb.DuckDBPyConnection
    block: int
    is_finest: bool
    again: str

    def join(self) -> None:
        """Add its changed nodes to ``joined_counter_nodes``, which already has those of the level below."""
        came = f"came_counter_nodes WHERE {_within(self.block)}"
        ends = self.connection.execute(f"SELECT min(start_us), max(start_us) FROM {came}").fetchone()
        if ends is None or ends[0] is None:
            return
        before = self._before(self.block, f"start_us BETWEEN {ends[0]} AND {ends[1]}")
        before = f"({before}) SEMI JOIN (FROM {came}) USING (slot, start_us)"
        columns = ", ".join(_COLUMNS)
        nodes = _joined(self._read(f"SELECT {columns} FROM {came} UNION ALL SELECT {columns} FROM {before}"))
        if not self.is_finest:
            _take_complete(nodes, _joined(self._read(self._children(came, *ends))))
        self.connection.register("joined_now", nodes)
        self.connection.execute(f"INSERT INTO joined_counter_nodes SELECT {columns} FROM joined_now")
        self.connection.unregister("joined_now")

    def _children(self, came: str, first_us: int, last_us: int) -> str:
        """Return SQL for the nodes below the changed ones, at the places of these."""
        places = f"SELECT DISTINCT slot - {BLOCK} AS slot, start_us AS parent_us FROM {came}"
        below = f"joined_counter_nodes WHERE {_within(self.block - 1)}"
        before = self._before(self.block - 1, f"parent_us BETWEEN {first_us} AND {last_us}")
        rest = ", ".join(_COLUMNS[3:])
        return f"""
            SELECT slot + {BLOCK} AS slot, parent_us, parent_us AS start_us, {rest} FROM (
                SELECT {COUNTER_COLUMNS} FROM ({before}) ANTI JOIN (FROM {below}) USING (slot, start_us)
                UNION ALL SELECT {COUNTER_COLUMNS} FROM {below}
            ) SEMI JOIN ({places}) USING (slot, parent_us)
        """

    def _before(self, block: int, where: str) -> str:
        stored = f"previous.counter_segments WHERE {_within(block)} AND {where} AND NOT {self.again}"
        return f"SELECT {COUNTER_COLUMNS} FROM {stored} {NEWEST_STORED}"

    def _read(self, query: str) -> Columns:
        import numpy as np

        found = self.connection.execute(query).fetchnumpy()
        return {name: np.asarray(values) for name, values in found.items()}


def _within(block: int) -> str:
    return f"slot >= {block * BLOCK} AND slot < {(block + 1) * BLOCK}"


def _joined(nodes: Columns) -> Columns:
    """Return the nodes of each place combined in order of time; in order of place."""
    import numpy as np

    from lakehouse.algorithms.rollup.counter_kernels import COUNTER, fold_nodes

    order = np.lexsort((nodes["first_reading"], nodes["first_us"], nodes["start_us"], nodes["slot"]))
    slot, start = nodes["slot"][order], nodes["start_us"][order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (slot[1:] != slot[:-1]) | (start[1:] != start[:-1])
    parts = np.empty(len(order), COUNTER)
    parts["start"] = np.cumsum(is_first)
    for field, column in _FIELDS.items():
        parts[field] = nodes[column][order]
    found = fold_nodes(parts, 1)
    places = {column: nodes[column][order][is_first] for column in _COLUMNS[:3]}
    return places | {column: found[field].copy() for field, column in _FIELDS.items()}


def _take_complete(nodes: Columns, children: Columns) -> None:
    """Replace nodes by the combination of their children if these have all of their readings; both are in order."""
    import numpy as np

    slot, start = (np.concatenate([nodes[name], children[name]]) for name in ("slot", "start_us"))
    # A node comes before the combination of its children.
    is_own = np.lexsort((start, slot)) < len(nodes["slot"])
    own = (np.cumsum(is_own) - 1)[~is_own]
    is_complete = children["n"] == nodes["n"][own]
    for column in _FIELDS.values():
        nodes[column][own[is_complete]] = children[column][is_complete]
