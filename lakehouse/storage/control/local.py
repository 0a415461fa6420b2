"""The control store of a home that one machine has: a SQLite file, opened for each statement.

Opening costs a tenth of a millisecond, and so nothing is left open: a fork, a thread or a home that is moved away finds
no connection to go wrong with. The file has a rollback journal, not a write-ahead log: it is read on a full disk, from
a folder that cannot be written, and by another kernel (a container's machine, a share), where a log has to have a file
of shared memory made first. Python's own module speaks to it: SQLAlchemy takes longer to import than a command may.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.schema import TABLES, VERSION, require_known
from lakehouse.storage.damaged import DamagedFile

# A statement, and the values of each of its rows.
Change = tuple[str, Sequence[Mapping[str, Any]]]
_TIMEOUT_S = 30
_RESTORE = "restore it from a copy of the home; without its manifests files would be read twice"


@dataclass(frozen=True)
class LocalStore:
    """Rows in a SQLite file, made by the first change."""

    path: Path

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a question; none, and no file, where nothing was ever kept.

        Raises OtherVersion when another version made the file.
        """
        if not self.path.exists():
            return []
        with self._opened() as database:
            return database.execute(statement, {"home": "", **values}).fetchall()

    def change(self, statement: str, **values: Any) -> int:
        """Change rows; return how many. They are on disk when this returns."""
        self._make()
        with self._opened() as database:
            return database.execute(statement, {"home": "", **values}).rowcount

    def _make(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Its journal has the permissions of the file.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDONLY, 0o600))

    def transact(self, changes: Sequence[Change]) -> None:
        """Make changes in one transaction; they are on disk when this returns.

        Raises FileExistsError when a row that should be new is there.
        """
        self._make()
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            for statement, rows in changes:
                database.executemany(statement, [{"home": "", **row} for row in rows])
            database.execute("COMMIT")

    def examined(self) -> str:
        """Return where the file is, and of which version its tables; every page of it is looked at.

        Raises DamagedFile when a part of it cannot be read, or does not go together with others.
        """
        with self._opened() as database:
            found = database.execute("PRAGMA quick_check").fetchone()[0]
        if found != "ok":
            raise DamagedFile(f"{self.path} is damaged ({found}): {_RESTORE}")
        return f"{self.path}, tables of version {VERSION}"

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file, with today's tables.

        Raises ControlUnreachable when it is locked for long, or the disk is full; OtherVersion when its tables are of
        another version; DamagedFile when it is no such file.
        """
        try:
            # Whoever may not write it reads it.
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(address, timeout=_TIMEOUT_S, isolation_level=None, uri=True)
            with closing(connection) as database:
                _create_tables(database, self.path)
                yield database
        except sqlite3.OperationalError as error:
            raise ControlUnreachable(f"control store {self.path}: {error}") from error
        except sqlite3.IntegrityError as error:
            raise FileExistsError(17, "Another process has written it", str(self.path)) from error
        except sqlite3.DatabaseError as error:
            raise DamagedFile(f"{self.path} is damaged ({error}): {_RESTORE}") from error


def _create_tables(database: sqlite3.Connection, path: Path) -> None:
    """Create the tables; nothing where they are. What is not committed goes with the connection."""
    if _version(database, path) == VERSION:
        return
    database.execute("BEGIN IMMEDIATE")
    # Again: another process may have done it meanwhile.
    if _version(database, path) == 0:
        for statement in TABLES:
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def _version(database: sqlite3.Connection, path: Path) -> int:
    found = int(database.execute("PRAGMA user_version").fetchone()[0])
    require_known(found, f"the control store {path}")
    return found
