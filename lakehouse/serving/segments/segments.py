"""The segments of a version: nodes in a few immutable files that versions share, as in a log-structured merge tree.

    base       segments/00000003.duckdb      sorted by slot and start; a newer segment's node replaces an older one's
    newer      segments/00000007.duckdb      with the same slot and start
    newest     00000009.duckdb               the version's own tables, written by every publish

New nodes go to the newest part. When there are too many, they become a segment, merged with segments that are not
much larger. A node is therefore written a few times, and there are few segments to read. Nodes that a level no longer
keeps are skipped by readers and deleted by the next merge; so is a node without values, which stands for one that is
gone, once no older segment has it.

Rows of the ledger and of queries are in segments of their own, 00000007r.duckdb, of the same form; see row_store.py.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from lakehouse.serving.literals import text
from lakehouse.serving.versions.versions import segment_path

# A measure's level has a block of slots; its place in it is the number of the series.
BLOCK = 2**32
# The suffix of names of segments of rows.
ROWS = "r"
_PLACE = "slot, parent_us, start_us, n"
NODE_COLUMNS = (
    f"{_PLACE}, total, carry, exact_total, wide_total, lowest, highest, magnitude, first_us, last_us"
)
COUNTER_COLUMNS = f"{_PLACE}, first_us, last_us, first_reading, last_reading, highest, drops_low, drops_high"
COLUMNS = {"nodes": NODE_COLUMNS, "counter_nodes": COUNTER_COLUMNS}
# The newest of the nodes in several segments, among those that a macro reads; one without values stands for none.
NEWEST = (
    "QUALIFY row_number() OVER (PARTITION BY reads.bucket, nodes.slot, nodes.start_us ORDER BY segment DESC) = 1 "
    "AND nodes.n > 0"
)
# The same among all that a version stores.
NEWEST_STORED = "QUALIFY row_number() OVER (PARTITION BY slot, start_us ORDER BY segment DESC) = 1 AND n > 0"


def catalog(segment: str) -> str:
    """Return the name under which a segment is attached."""
    return f"s{segment}"


def attach(connection: duckdb.DuckDBPyConnection, folder: Path, segments: Sequence[str]) -> None:
    """Attach segments for reading, under the names that the views of a version use."""
    for segment in segments:
        path = text(str(segment_path(folder, segment)))
        connection.execute(f"ATTACH IF NOT EXISTS {path} AS {catalog(segment)} (READ_ONLY)")


@contextmanager
def new_segment(
    connection: duckdb.DuckDBPyConnection, segment: str, path: Path, row_group: int | None = None
) -> Iterator[str]:
    """Attach a new file as a segment for writing; it is complete, and still attached, at the end."""
    options = f" (ROW_GROUP_SIZE {row_group})" if row_group else ""
    connection.execute(f"ATTACH {text(str(path))} AS {catalog(segment)}{options}")
    yield catalog(segment)
    connection.execute(f"CHECKPOINT {catalog(segment)}")


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Wait for the disk once, not after each statement; a failure leaves a draft that nobody reads."""
    connection.execute("BEGIN TRANSACTION")
    yield
    connection.execute("COMMIT")


def seal(connection: duckdb.DuckDBPyConnection, database: str, segment: str, path: Path) -> None:
    """Let an attached file, which is sorted and complete, be a segment."""
    connection.execute(f"CHECKPOINT {database}; DETACH {database}")
    connection.execute(f"ATTACH {text(str(path))} AS {catalog(segment)} (READ_ONLY)")


def of_nodes(segments: Sequence[str]) -> tuple[str, ...]:
    """Return the segments of nodes among those of a version, oldest first."""
    return tuple(segment for segment in segments if not segment.endswith(ROWS))


def of_rows(segments: Sequence[str]) -> tuple[str, ...]:
    """Return the segments of rows among those of a version, oldest first."""
    return tuple(segment for segment in segments if segment.endswith(ROWS))


def schemas(segments: Sequence[str]) -> list[str]:
    """Return where a version's nodes are, oldest first: its segments and its own."""
    return [*(f"{catalog(segment)}.segment" for segment in segments), "segment"]


def places(segments: Sequence[str], has_own: bool = True) -> dict[str, str]:
    """Return what replaces the placeholders for a version's segments in the views of ``sql/serving``.

    ``has_own``: the version's own tables hold nodes. If they do not, questions need not open them.
    """
    found: dict[str, str] = {}
    for table, view in (("nodes", "node_segments"), ("counter_nodes", "counter_segments")):
        stored = [f"{schema}.{table}" for schema in schemas(segments)[: None if has_own else -1]]
        numbered = (f"SELECT {n} AS segment, {COLUMNS[table]} FROM {one}" for n, one in enumerate(stored))
        found[f"{{{view}}}"] = " UNION ALL ".join(numbered)
        found[f"{{{table}}}"] = newest_rows(stored, COLUMNS[table], is_base=True)
    series = " UNION ALL ".join(f"SELECT * FROM {schema}.series" for schema in schemas(segments))
    # Older segments may have series of streams that got a new number since.
    found["{series}"] = f"FROM ({series}) SEMI JOIN streams USING (stream_id)" if segments else series
    return found


def newest_rows(stored: Sequence[str], columns: str, where: str = "true", is_base: bool = False) -> str:
    """Return SQL for the nodes of tables, oldest first, without those that a later table replaces.

    ``is_base``: no older table has nodes, so that one without values need not stand for any that is gone.
    """
    selects, held = [], f"{where} AND n > 0" if is_base and len(stored) > 1 else where
    for place, table in enumerate(stored):
        later = " UNION ALL ".join(
            f"SELECT slot, start_us FROM {one} WHERE {where}" for one in stored[place + 1 :]
        )
        again = f" ANTI JOIN ({later}) AS later USING (slot, start_us)" if later else ""
        selects.append(f"SELECT {columns} FROM (FROM {table} WHERE {held}) AS stored{again}")
    return " UNION ALL ".join(selects)
