"""The place of a new version's nodes: beside those of the version before, or merged with them into a new segment.

Cost: the rows written. Each publish writes the nodes in the version's own tables, at most ``OWN_NODES``. A node is
then written once or a few times for each of at most ``MOST_SEGMENTS`` sizes, each several times the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from lakehouse.serving.literals import text
from lakehouse.serving.segments.previous import Previous
from lakehouse.serving.segments.segments import BLOCK, COLUMNS, catalog, new_segment, newest_rows, seal
from lakehouse.serving.versions.versions import draft_path
from sql import statement

# Rows in a row group. A question looks at the bounds of each row group, and reads each column of those that may have
# its nodes: small ones are best for few nodes, and for tens of millions there would be too many bounds.
SMALL_ROW_GROUP = 4_096
ROW_GROUP = 16_384
_FEW_NODES = 2_000_000
OWN_NODES = 250_000
MOST_SEGMENTS = 3
_RATIO = 8
# A reader of all nodes of a version holds the slots and starts of those that replace others in memory.
_MOST_REPLACING = 4_000_000
_SORTED_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Size:
    """Number of nodes that a segment stores, and about how many of them are kept."""

    segment: str
    stored: int
    kept: int


@dataclass(frozen=True)
class Stored:
    """The segments of a version, oldest first; ``written``: the draft of the newest, None if it is an old one.

    ``newest`` is the schema with all nodes that are new in this version.
    """

    segments: tuple[str, ...]
    newest: str = "segment"
    written: Path | None = None

    @property
    def has_own(self) -> bool:
        """True if the version's own tables hold nodes."""
        return self.newest == "segment"

    @property
    def is_shared(self) -> bool:
        """True if several tables hold nodes, so that a newer table may replace nodes of an older one."""
        return len(self.segments) + self.has_own > 1


def share_kept(first_us: int, last_us: int, since_us: int) -> float:
    """Return the share of rows that are kept from a time on, if they are even over theirs.

    >>> share_kept(0, 99, 75), share_kept(0, 99, 100), share_kept(5, 5, 0)
    (0.25, 0.0, 1.0)
    """
    return min(1.0, max(0.0, (last_us + 1 - since_us) / (last_us + 1 - first_us)))


def sizes_of(segments: Sequence[str], parts: Iterable[tuple[str, int, float]]) -> list[Size]:
    """Return the sizes of segments and of the own file, last, whose parts have so many rows and keep such a share."""
    found = {segment: (0, 0) for segment in (*segments, "")}
    for segment, rows, share in parts:
        if segment in found:
            stored, kept = found[segment]
            found[segment] = stored + rows, kept + int(rows * share)
    return [Size(segment, *counts) for segment, counts in found.items()]


def open_fresh(connection: duckdb.DuckDBPyConnection, draft: Path | None) -> None:
    """Attach empty tables for new nodes, in memory if no file is given."""
    options = f"AS fresh (ROW_GROUP_SIZE {ROW_GROUP})" if draft else "AS fresh"
    connection.execute(f"ATTACH {text(str(draft or ':memory:'))} {options}")
    connection.execute(_tables_of("fresh"))


def remaining(sizes: Sequence[Size], incoming: int, most_own: int | None = None) -> tuple[int, bool]:
    """Return how many segments, oldest first, stay as they are, and whether the rest fits into the version's own file.

    ``incoming`` nodes, or rows, are new, or are in the own file of the version before, which has at most
    ``most_own``.
    """
    most_own = OWN_NODES if most_own is None else most_own
    forgotten = next((place for place, one in enumerate(sizes) if 2 * one.kept < one.stored), len(sizes))
    left = len(sizes)
    if incoming <= most_own and forgotten == left:
        return left, True
    while left and (
        left > forgotten
        or left == MOST_SEGMENTS
        or sizes[left - 1].kept < _RATIO * incoming
        or incoming > _MOST_REPLACING
    ):
        left -= 1
        incoming += sizes[left].kept
    return left, incoming <= most_own


def settle(
    connection: duckdb.DuckDBPyConnection,
    version: int,
    folder: Path | None,
    draft: Path | None,
    previous: Previous | None,
) -> Stored:
    """Put ``fresh`` and the rows of the version before into the segments of this version; ``ladder`` says what is kept.

    ``draft`` is the file of ``fresh``, None if it is in memory.
    """
    connection.execute(
        f"CREATE TEMP TABLE live AS SELECT first_slot // {BLOCK} AS block, horizon_us FROM ladder"
    )
    sizes = _sizes(connection, previous)
    own = next((size.kept for size in sizes if not size.segment), 0)
    shared = [size for size in sizes if size.segment]
    left, is_own = remaining(shared, own + _count(connection, "fresh.segment.nodes"))
    kept = tuple(size.segment for size in shared[:left])
    merged = [f"{catalog(size.segment)}.segment" for size in shared[left:]]
    sources = [*merged, *(["previous.segment"] if previous else []), "fresh.segment"]
    if is_own or folder is None:
        stored = Stored(kept)
        _copy(connection, sources, "segment", is_base=not kept)
    else:
        stored = _new_segment(connection, f"{version:08d}", kept, sources, folder, draft)
    _write_sizes(connection, kept, stored, previous)
    return stored


def _new_segment(
    connection: duckdb.DuckDBPyConnection,
    segment: str,
    kept: tuple[str, ...],
    sources: Sequence[str],
    folder: Path,
    draft: Path | None,
) -> Stored:
    if draft is not None and len(sources) == 1:
        seal(connection, "fresh", segment, draft)
        return Stored((*kept, segment), f"{catalog(segment)}.segment", draft)
    written = draft_path(folder / "segments", f"{segment}-merged")
    nodes = _count(connection, *(f"{source}.nodes" for source in sources))
    rows = SMALL_ROW_GROUP if nodes <= _FEW_NODES else ROW_GROUP
    with new_segment(connection, segment, written, rows) as attached:
        connection.execute(_tables_of(attached))
        _copy(connection, sources, f"{attached}.segment", is_base=not kept)
    return Stored((*kept, segment), f"{catalog(segment)}.segment", written)


def _tables_of(of: str) -> str:
    return statement("serving/segment").replace(" segment", f" {of}.segment")


def _sizes(connection: duckdb.DuckDBPyConnection, previous: Previous | None) -> list[Size]:
    """Return the sizes of the parts of the version before, of nodes of blocks that are still there."""
    if previous is None:
        return []
    listed = connection.execute(
        "SELECT segment, nodes, first_us, last_us, horizon_us FROM previous.segments LEFT JOIN live USING (block)"
    ).fetchall()
    parts = (
        (segment, nodes, 0.0 if since is None else share_kept(first, last, since))
        for segment, nodes, first, last, since in listed
    )
    return sizes_of(previous.segments, parts)


def _count(connection: duckdb.DuckDBPyConnection, *tables: str) -> int:
    rows = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables]
    return sum(int(row[0]) for row in rows if row)


def _copy(connection: duckdb.DuckDBPyConnection, sources: Sequence[str], into: str, is_base: bool) -> None:
    """Write the rows of sources, oldest first, sorted, without those that are replaced or no longer kept."""
    for table, columns in COLUMNS.items():
        tables = [f"{source}.{table}" for source in sources]
        for where in _ranges(connection, tables):
            connection.execute(
                f"""
                INSERT INTO {into}.{table}
                SELECT {columns} FROM ({newest_rows(tables, columns, where, is_base)}) AS stored
                SEMI JOIN live ON stored.slot // {BLOCK} = live.block AND stored.start_us >= live.horizon_us
                ORDER BY slot, start_us
                """
            )
    series = " UNION ALL ".join(f"FROM {source}.series" for source in sources)
    connection.execute(
        f"INSERT INTO {into}.series FROM ({series}) SEMI JOIN streams USING (stream_id) ORDER BY grouping_id, lookup"
    )


def _ranges(connection: duckdb.DuckDBPyConnection, tables: Sequence[str]) -> list[str]:
    """Return conditions that divide the slots in their order, so that no sort is of all nodes at once."""
    if _count(connection, *tables) <= _SORTED_AT_ONCE:
        return ["true"]
    blocks = connection.execute("SELECT block FROM live ORDER BY block").fetchall()
    return [f"slot >= {block * BLOCK} AND slot < {(block + 1) * BLOCK}" for (block,) in blocks]


def _write_sizes(
    connection: duckdb.DuckDBPyConnection, kept: Sequence[str], stored: Stored, previous: Previous | None
) -> None:
    if previous is not None:
        names = ", ".join(map(text, ("-", *kept)))
        connection.execute(
            f"INSERT INTO segments FROM previous.segments WHERE segment IN ({names}) ORDER BY ALL"
        )
    written = stored.segments[-1] if stored.written else ""
    connection.execute(
        f"INSERT INTO segments SELECT {text(written)}, slot // {BLOCK} AS block, count(*), min(start_us), "
        f"max(start_us) FROM {stored.newest}.nodes GROUP BY block ORDER BY block"
    )
