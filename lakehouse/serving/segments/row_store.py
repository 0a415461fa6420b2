"""Rows that a new version shares with the one before, and new rows: first added, then put into parts.

    take    new rows go to ``arrived``, in memory; all rows of a table that cannot be shared to ``whole``, a file
    settle  own rows of the version before and new ones -> the version's own file, or merged into a new segment

As with nodes (merge.py), each publish writes a row while there are few, and merges write it a few times. Cost of a
publish: the new rows, at most ``OWN_ROWS``, and sometimes a merge.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.serving.literals import literal, name, parquet, row, text
from lakehouse.serving.segments.merge import Size, remaining, share_kept, sizes_of
from lakehouse.serving.segments.segments import ROWS, catalog, new_segment, seal, transaction
from lakehouse.serving.segments.shared_rows import SCHEMA, RowsBefore, SharedRows
from lakehouse.serving.versions.versions import draft_path
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.appends import appended_since, before_appended
from lakehouse.storage.tables.table_log import files_between, newest_version, table_id
from lakehouse.storage.tables.tables_place import place_at
from sql import statement

OWN_ROWS = 100_000
# With more keys than this, most stored rows are near one of them.
_MOST_NAMED = 1_000
# The placeholder of a table's name in the statements that create it and comment on it.
PLACE = "{table}"


@dataclass(frozen=True)
class Appended:
    """A Delta table with appends only: ``select`` returns SQL for rows to publish, from a source of finished ones.

    ``finished`` selects the rows of finished batches and repairs.
    """

    delta: Location
    select: Callable[[str], str]
    finished: Callable[[int, int], str]


@dataclass
class _Opened:
    """A table that is being written: the database of its new rows, and its rows in the version before."""

    table: SharedRows
    database: str
    basis: str
    declared: Sequence[str]
    columns: Sequence[str]
    before: RowsBefore | None
    log_version: int | None = 0
    shown: int = 0
    parts: Sequence[str] = field(default_factory=list)

    @property
    def arrived(self) -> str:
        return f"{self.database}.{self.table.table}"


def statements_of(declared: str) -> list[str]:
    """Return the statements of a file of ``sql/serving`` that create a table, then those that comment on it."""
    sql = "\n".join(line for line in declared.splitlines() if not line.startswith("--"))
    return [one.strip() for one in sql.rstrip(";\n").split(";\n")]


def say(connection: duckdb.DuckDBPyConnection, comments: Sequence[str], on: str, *, is_view: bool) -> None:
    """Comment on a table or view, whose name is already quoted, and on its columns."""
    said = [comment.replace(PLACE, on) for comment in comments]
    if is_view:
        said = [one.replace("COMMENT ON TABLE", "COMMENT ON VIEW", 1) for one in said]
    connection.execute(";\n".join(said))


class RowStore:
    """The tables of one version; ``folder`` takes segments, without one all rows are in the version's own file.

    ``before`` and ``segments``: the tables of rows of the version before, attached as ``previous``, and its segments.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        version: int = 1,
        folder: Path | None = None,
        before: Mapping[str, RowsBefore] | None = None,
        segments: Sequence[str] = (),
    ) -> None:
        self.segments: tuple[str, ...] = ()
        self.written: Path | None = None
        # True if rows of the version before are among those of this one, once settled.
        self.is_sharing = False
        self.connection, self._folder = connection, folder
        self._segment = f"{version:08d}{ROWS}"
        self._before, self._segments, self._follows = dict(before or {}), tuple(segments), bool(before)
        self._tables: dict[str, _Opened] = {}
        self._whole: Path | None = None
        connection.execute(f"ATTACH ':memory:' AS arrived; CREATE SCHEMA arrived.{SCHEMA}")

    def open(self, table: SharedRows, declared: str, *, is_shared: bool = True) -> RowsBefore | None:
        """Begin a table; return its rows in the version before, None if all of its rows are to be written.

        ``declared``: the statement that creates it, and those that comment on it, with ``PLACE`` for its name.
        """
        created, *comments = statements_of(declared)
        basis, before = table.hashed(declared), self._before.get(table.name)
        if before is not None and not (is_shared and before.is_followed_by(table, basis)):
            before = None
        database = "arrived" if before or self._folder is None else self._open_whole()
        place = f"{database}.{table.table}"
        self.connection.execute(created.replace(PLACE, place))
        columns = [found[0] for found in self.connection.execute(f"DESCRIBE {place}").fetchall()]
        self._tables[table.name] = _Opened(table, database, basis, comments, columns, before)
        return before

    def arrived(self, table: SharedRows) -> str:
        """Return where the new rows of an opened table go."""
        return self._tables[table.name].arrived

    def take(self, table: SharedRows, declared: str, source: Appended) -> RowsBefore | None:
        """Open a table and fill it with the new rows of a Delta table; return its rows in the version before.

        Cost: the rows appended since the version before, if the log says which.
        """
        table = replace(table, basis=f"{table.basis} {table_id(source.delta)}")
        before = self._before.get(table.name)
        # Before the files are listed: rows appended during this publish are for the next one.
        newest, came = newest_version(source.delta), None
        if before is not None and before.log_version is not None:
            came = appended_since(source.delta, before.log_version)
        if came is None:
            self._before.pop(table.name, None)
        before = self.open(table, declared)
        files = files_between(source.delta, None) if before is None or came is None else came
        finished = source.finished(table.batches, table.repairs)
        is_new = f"({finished})"
        if before is not None:
            is_new += f" AND NOT ({source.finished(before.batches, before.repairs)})"
        if files:
            rows = source.select(f"(FROM {parquet(files)} WHERE {is_new})")
            self.connection.execute(
                f"INSERT INTO {self.arrived(table)} BY NAME FROM ({rows}) WHERE {table.kept()} "
                f"ORDER BY {_names(table.order)}"
            )
        self.close(table)
        self._tables[table.name].log_version = self._contained(source.delta, files, finished, newest)
        return before

    def _contained(
        self, delta: Location, files: Sequence[Location], finished: str, newest: int | None
    ) -> int | None:
        """Return the last commit, at most ``newest``, up to which all rows are finished; None if the log lacks it."""
        left: list[Location] = []
        if files:
            named = parquet(files).removesuffix(")") + ", filename => true)"
            query = f"SELECT DISTINCT filename FROM {named} WHERE NOT coalesce(({finished}), false)"
            left = [place_at(found[0]) for found in self.connection.execute(query).fetchall()]
        found = before_appended(delta, left) if left else newest
        return None if found is None or newest is None else min(found, newest)

    def close(self, table: SharedRows) -> None:
        """Replace older rows by newer ones, and count the shown rows; all new rows have been added."""
        opened = self._tables[table.name]
        replaced = self._revise(opened) if table.is_revised else 0
        if table.shown is not None:
            opened.shown = self._count(f"{opened.arrived} WHERE {table.shown}") - replaced
            if opened.before is not None:
                opened.shown += opened.before.shown - self._forgotten(table, opened.before)

    def _forgotten(self, table: SharedRows, before: RowsBefore) -> int:
        """Count the rows that the version before showed, and that are no longer kept."""
        if table.time is None or table.from_us is None or table.from_us == before.from_us:
            return 0
        return self._count(
            f"previous.{name(table.name)} WHERE {table.time} < {table.from_us} AND {table.shown}"
        )

    def _revise(self, opened: _Opened) -> int:
        """Mark the newest of the new rows, and store those that they replace again; return how many of these showed."""
        table, arrived, group = opened.table, opened.arrived, _names(opened.table.key[:-1])
        execute, replaced = self.connection.execute, f"FROM {arrived} WHERE false"
        if opened.before is not None:
            held = [f"{catalog(s)}.{table.table}" for s in self._segments if self._holds(table, s)]
            parts = [*held, f"previous.{table.table}"]
            known = table.rows(parts, opened.columns, self._near(table, arrived))
            replaced = (
                f"SELECT stored.* FROM (FROM ({known}) WHERE is_newest) AS stored "
                f"SEMI JOIN {arrived} AS new ON {table.same('stored', 'new', but_for_number=True)}"
            )
        execute(
            f"CREATE TEMP TABLE marked AS SELECT * REPLACE (row_number() OVER "
            f"(PARTITION BY {group} ORDER BY {name(table.key[-1])} DESC) = 1 AS is_newest) "
            f"FROM (SELECT *, false AS was_there FROM {arrived} UNION ALL SELECT *, true FROM ({replaced}))"
        )
        execute(f"DELETE FROM {arrived}")
        execute(
            f"INSERT INTO {arrived} SELECT * EXCLUDE (was_there) FROM marked WHERE NOT (was_there AND is_newest) "
            f"ORDER BY {_names(table.order)}"
        )
        # They were the newest rows; now their rows say that they are not.
        were = "SELECT * REPLACE (true AS is_newest) FROM marked WHERE was_there AND NOT is_newest"
        replaced_shown = self._count(f"({were}) WHERE {table.shown}")
        execute("DROP TABLE marked")
        return replaced_shown

    def _near(self, table: SharedRows, arrived: str) -> str:
        """Return SQL for stored rows that new ones may replace, by the column that they are sorted by."""
        if table.time is not None:
            low, high = self._row(f"SELECT min({table.time}), max({table.time}) FROM {arrived}")
            return "false" if low is None else f"{table.time} BETWEEN {low} AND {high}"
        first = name(table.key[0])
        found = self.connection.execute(
            f"SELECT DISTINCT {first} FROM {arrived} LIMIT {_MOST_NAMED + 1}"
        ).fetchall()
        if len(found) > _MOST_NAMED:
            return "true"
        # Row groups that cannot hold one of these are not read.
        return f"{first} IN ({', '.join(literal(value) for (value,) in found)})" if found else "false"

    def settle(self) -> None:
        """Put all rows into the version's own file or a new segment; ``select`` and views then read them."""
        sizes, tables = self._sizes(), self._tables.values()
        self.is_sharing = any(one.kept for one in sizes)
        shared = [one for one in sizes if one.segment]
        incoming = sum(one.kept for one in sizes if not one.segment) + sum(
            self._count(one.arrived) for one in tables
        )
        left, is_own = remaining(shared, incoming, OWN_ROWS)
        kept, merged = self._segments[:left], self._segments[left:]
        sources = {one.table.name: self._sources(one, merged) for one in tables}
        self.segments = kept
        new = "" if is_own or self._folder is None else self._new_segment(sources)
        with transaction(self.connection):
            self.connection.execute(statement("serving/row_tables"))
            self._fill("", {} if new else sources, catalog(new) if new else None)
            self._write_catalog(kept, new)
        for one in tables:
            held = [segment for segment in kept if one.before and self._holds(one.table, segment)]
            parts = [f"{catalog(segment)}.{one.table.table}" for segment in (*held, *([new] if new else []))]
            one.parts = [*parts, one.table.table]

    def select(self, table: SharedRows) -> str:
        """Return SQL for the rows of a settled table."""
        opened = self._tables[table.name]
        rows = opened.table.rows(opened.parts, opened.columns)
        return rows if table.where is None else f"FROM ({rows}) QUALIFY {table.where}"

    def show(self) -> None:
        """Create a view for each table that has one, and comment on tables and views."""
        with transaction(self.connection):
            for one in self._tables.values():
                on = name(one.table.name) if one.table.is_view else one.table.table
                if one.table.is_view:
                    self.connection.execute(f"CREATE VIEW {on} AS {self.select(one.table)}")
                say(self.connection, one.declared, on, is_view=one.table.is_view)
                if one.table.is_view:
                    say(self.connection, one.declared, one.table.table, is_view=False)
                    says = f"Rows of {one.table.name} that this file holds itself: read the view."
                    self.connection.execute(f"COMMENT ON TABLE {one.table.table} IS {text(says)}")

    def is_shared(self, table: SharedRows) -> bool:
        """Return whether the rows of the version before stay."""
        return self._tables[table.name].before is not None

    def ends(self, table: SharedRows) -> list[tuple[int | None, int | None]]:
        """Return the least and the greatest time in each part of a settled table, Nones if it is empty."""
        opened = self._tables[table.name]
        asked = f"SELECT min({table.time}), max({table.time}) FROM {{}} WHERE {table.kept()}"
        return [self._row(asked.format(part))[:2] for part in opened.parts]

    def shown(self, table: SharedRows) -> int:
        """Return how many rows of a table are shown."""
        return self._tables[table.name].shown

    def _new_segment(self, sources: Mapping[str, Sequence[str]]) -> str:
        """Write a segment with all rows that are not kept in older ones; return its name."""
        assert self._folder is not None
        whole = self._whole
        if whole and all(found == [f"whole.{SCHEMA}.{name(key)}"] for key, found in sources.items()):
            seal(self.connection, "whole", self._segment, whole)
            self.written = whole
        else:
            self.written = draft_path(self._folder / "segments", self._segment)
            with (
                new_segment(self.connection, self._segment, self.written) as attached,
                transaction(self.connection),
            ):
                self._fill(f"{attached}.", sources)
        self.segments = (*self.segments, self._segment)
        return self._segment

    def _fill(self, database: str, sources: Mapping[str, Sequence[str]], like: str | None = None) -> None:
        """Create all tables in a database, with the rows of their sources; without any, ``like`` another's."""
        self.connection.execute(f"CREATE SCHEMA {database}{SCHEMA}")
        for key, opened in self._tables.items():
            table, found = opened.table, sources.get(key, ())
            rows = table.rows(found, opened.columns) if found else f"FROM {like}.{table.table} WHERE false"
            self.connection.execute(
                f"CREATE TABLE {database}{table.table} AS FROM ({rows}) ORDER BY {_names(table.order)}"
            )

    def _write_catalog(self, kept: Sequence[str], new: str) -> None:
        """Write what the next version has to know: the tables, and how many rows of each are in which part."""
        if self._follows:
            names = ", ".join(text(one.table.name) for one in self._tables.values() if one.before)
            known = f"CASE WHEN name IN ({names or 'NULL'}) THEN name ELSE '' END"
            segments = ", ".join(map(text, ("-", *kept)))
            self.connection.execute(
                f"INSERT INTO row_segments SELECT segment, {known}, * EXCLUDE (segment, name) "
                f"FROM previous.row_segments WHERE segment IN ({segments})"
            )
        for key, one in self._tables.items():
            table = one.table
            values = (key, one.basis, table.batches, table.repairs, table.from_us, one.shown, one.log_version)
            self.connection.execute(f"INSERT INTO row_tables VALUES {row(values)}")
            times = f"min({table.time}), max({table.time})" if table.time else "NULL, NULL"
            where = f"{catalog(new)}.{table.table}" if new else table.table
            self.connection.execute(
                f"INSERT INTO row_segments SELECT {text(new)}, {text(key)}, count(*), {times} FROM {where}"
            )

    def _sources(self, opened: _Opened, merged: Sequence[str]) -> list[str]:
        """Return where the rows of a table that are written come from, oldest first."""
        if opened.before is None:
            return [opened.arrived]
        held = [f"{catalog(s)}.{opened.table.table}" for s in merged if self._holds(opened.table, s)]
        return [*held, f"previous.{opened.table.table}", opened.arrived]

    def _holds(self, table: SharedRows, segment: str) -> bool:
        where = f"segment = {text(segment)} AND name = {text(table.name)}"
        return self._count(f"previous.row_segments WHERE {where}") > 0

    def _sizes(self) -> list[Size]:
        """Return the sizes of the parts of the version before, of rows of tables that are shared."""
        if not self._follows:
            return []
        listed = self.connection.execute("FROM previous.row_segments").fetchall()
        return sizes_of(self._segments, ((one[0], one[2], self._share(*one[1:])) for one in listed))

    def _share(self, key: str, rows: int, first_us: int | None, last_us: int | None) -> float:
        opened = self._tables.get(key)
        if opened is None or opened.before is None:
            return 0.0
        since = opened.table.from_us
        return (
            1.0
            if since is None or first_us is None or last_us is None
            else share_kept(first_us, last_us, since)
        )

    def _open_whole(self) -> str:
        """Attach a file for tables that are written whole, which may be large."""
        if self._whole is None:
            assert self._folder is not None
            self._whole = draft_path(self._folder / "segments", f"{self._segment}-whole")
            self.connection.execute(f"ATTACH {text(str(self._whole))} AS whole; CREATE SCHEMA whole.{SCHEMA}")
        return "whole"

    def _count(self, source: str) -> int:
        return int(self._row(f"SELECT count(*) FROM {source}")[0])

    def _row(self, query: str) -> tuple[Any, ...]:
        found = self.connection.execute(query).fetchone()
        assert found is not None
        return found


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(name, columns))
