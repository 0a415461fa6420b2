"""The rows that a home keeps of its jobs: in a SQLite file of the home, or in the database that keeps its leases.

    <home>/control.sqlite    where no database is named; its owner's alone

Statements are in the SQL that both know, and each is a transaction of its own. Whose home a row is says its column
``home``, which is empty in the file.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.local import Change, LocalStore
from lakehouse.storage.control.place import NAME, place_of
from lakehouse.storage.control.session import Session
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.layout import Home

FILE = "control.sqlite"


class Store(Protocol):
    """Store of rows. Both ways give ``home`` to every statement, and raise ``ControlUnreachable`` alike."""

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a question."""

    def change(self, statement: str, **values: Any) -> int:
        """Change rows, durably; return how many."""

    def transact(self, changes: Sequence[Change]) -> None:
        """Make changes in one transaction; a row that should be new and is there ends it with FileExistsError."""


@dataclass(frozen=True)
class SharedStore:
    """Rows in the database of a control store, by the session that holds this process's leases.

    A process that holds leases changes nothing once it has lost them.
    """

    session: Session
    home: str

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a question, at the cost of one round trip."""
        return self.session.rows(statement, home=self.home, **values)

    def change(self, statement: str, **values: Any) -> int:
        """Change rows; return how many."""
        return self.session.change(statement, home=self.home, **values)

    def transact(self, changes: Sequence[Change]) -> None:
        """Make changes in one transaction, unless this process has lost its leases."""
        self.session.transact(
            [(text, [{"home": self.home, **row} for row in rows]) for text, rows in changes]
        )


def require_version(root: Path) -> None:
    """Make sure that this version wrote the rows of a home's file; what is damaged is named by whoever reads it.

    Raises OtherVersion when another one did.
    """
    with suppress(ControlUnreachable, DamagedFile):
        LocalStore(root / FILE).rows("SELECT 1")


def store_of(home: Home) -> Store:
    """Return where a home keeps its rows; nothing is opened before it is asked.

    Raises ControlNotNamed when a database keeps them and this process was not told which.
    """
    place = place_of(home, home.root / NAME)
    return SharedStore(place.session, place.id) if place else LocalStore(home.root / FILE)
