"""Rows of a home that is now told of a database move there from its file, once, by the first command that may write.

A row that is there already is newer and stays. Killed on the way, the next command goes on.
"""

from contextlib import suppress

from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.local import LocalStore
from lakehouse.storage.control.schema import ROWS
from lakehouse.storage.control.store import FILE, store_of
from lakehouse.storage.layout import Home

_PAGE = 5_000


def move_in(home: Home) -> None:
    """Move the rows of a home's file into its database; nothing where there is none, or it cannot be written now.

    Cost: a look whether the file is there.
    """
    file = LocalStore(home.root / FILE)
    with suppress(OSError, ControlUnreachable):
        if not file.path.exists() or isinstance(store := store_of(home), LocalStore):
            return
        for table, columns in ROWS.items():
            names = ", ".join(f":{name}" for name in columns)
            add = f"INSERT INTO {table} VALUES (:home, {names}) ON CONFLICT DO NOTHING"
            page = f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE rowid > :after ORDER BY rowid LIMIT {_PAGE}"
            after = 0
            while rows := file.rows(page, after=after):
                store.transact([(add, [dict(zip(columns, row, strict=True)) for _, *row in rows])])
                after = rows[-1][0]
        file.path.unlink()
