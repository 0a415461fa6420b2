"""The newest commits of some tables, followed one by one: whoever waits for a table's next change asks here."""

from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import commit_at, commits_after, newest_version

NO_TABLE = (-1, 0)  # What ``Commits`` says of a table that is not there.


class Commits:
    """The newest commits of some tables, followed one by one: asking again reads one or two files per table.

    Two equal answers mean that none of the tables has changed between them.
    """

    def __init__(self, *tables: Location) -> None:
        self._tables = tables
        self._versions = [-1] * len(tables)

    def __call__(self) -> tuple[tuple[int, int], ...]:
        """Return version and time of each table's newest commit, ``NO_TABLE`` where there is none."""
        self._versions = [self._newest(*pair) for pair in zip(self._tables, self._versions, strict=True)]
        return tuple((v, self._time(t, v)) for t, v in zip(self._tables, self._versions, strict=True))

    def _newest(self, table: Location, version: int) -> int:
        if version < 0 or not commit_at(table, version).is_file():
            found = newest_version(table)  # Not seen before, or made anew in the meantime.
            return -1 if found is None else found
        return version + sum(1 for _ in commits_after(table, version))

    @staticmethod
    def _time(table: Location, version: int) -> int:
        return commit_at(table, version).stat().st_mtime_ns if version >= 0 else 0
