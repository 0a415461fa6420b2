"""One SQLite file in place of many small ones that are finished: what was in them is looked up by an index.

One file for each batch would be millions in a year. Whoever folds writes the entries in one transaction, and deletes
the small files after it; killed between, some are there twice, and say the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from lakehouse.config.problems import Permanent

NAME = "folded.sqlite"
# A batch makes one small file; those of so many finished ones are left to be looked at.
RECENT = 100
_TIMEOUT_S = 60


class FoldedDamaged(Permanent, RuntimeError):
    """The file of what was folded cannot be read."""


class FoldedFile:
    """Folded entries of a folder; none where there is no such file. ``loss``: what happens without it."""

    def __init__(self, folder: Path, tables: str, loss: str) -> None:
        self._path = folder / NAME
        self._tables = tables
        self._loss = loss

    def ask(self, question: str, *values: Any) -> list[Any]:
        """Return the rows of a question, none where nothing was folded."""
        if not self._path.exists():
            return []
        with self.opened() as database:
            return database.execute(question, values).fetchall()

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file, made where there is none.

        Raises:
            FoldedDamaged: when it is no such file.
        """
        # Not read-only: whoever comes after one that was killed must take back what it had begun.
        try:
            with closing(sqlite3.connect(self._path, timeout=_TIMEOUT_S)) as database:
                database.executescript(self._tables)
                yield database
        except sqlite3.OperationalError:
            # It is locked, or the disk is full: the file is as it should be.
            raise
        except sqlite3.DatabaseError as error:
            raise FoldedDamaged(f"{self._path}: {error}: restore that file; {self._loss}") from error
